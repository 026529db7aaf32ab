"""Interruption: what was found so far is told, and nothing is left: no process, no folder, no traceback."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RINGING = """
import os, signal, sys
from pathlib import Path
from stateful import campaign, medium

number, medium.scratch = int(sys.argv[1]), Path(sys.argv[2])
del sys.argv[1:3]
run_shards = campaign.run_shards

def ringing(wave, workers, limit, report, before):
    def ring(stand):
        if any(t.orders for t in stand.under_way):
            os.killpg(0, number)
    return run_shards(wave, workers, limit, ring, before)

campaign.run_shards = ringing
from stateful.cli import main
main()
"""


def left_of(session):
    """The processes of a session that are still there after a while."""
    left = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session and fields[0] != "Z":
                    handle = os.pidfd_open(int(entry.name))
            except (OSError, ValueError):
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                if not select.select([handle], [], [], 5)[0]:
                    left.append(int(entry.name))
                os.close(handle)
    return left


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupted_campaign_tells_what_it_has(started, tmp_path, name):
    """Ctrl-C and SIGTERM end a campaign at once, with the verdict so far and status 3, and nothing is left."""
    import signal

    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = started(RINGING, int(getattr(signal, name)), scratch, "check", "--seconds", 60)
    out, err = process.communicate(timeout=60)

    assert (3, "") == (process.returncode, err)
    assert "CUT SHORT: it was interrupted after " in out
    assert [] == left_of(process.pid)
    assert [] == list(scratch.iterdir())


SMALL = """
from attrs import evolve
from stateful import campaign, cli
whole = campaign.plan
campaign.plan = lambda *a, **k: [[evolve(s, size=1) for s in whole(*a, **k)[0] if s.engine == "walk"]]
cli.main()
"""


@pytest.mark.parametrize(("arguments", "status"), [(["list", "properties"], 1), (["check"], 3)])
def test_a_closed_pipe_is_no_traceback(arguments, status):
    """Whoever leaves before the end gets no traceback, and a verdict keeps its exit status."""
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{SMALL}"
    ours, theirs = os.pipe()
    os.close(ours)  # the reader has gone before the first line
    command = [sys.executable, "-c", script, *arguments]
    process = subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, text=True)
    os.close(theirs)
    _, err = process.communicate(timeout=60)

    assert (status, "") == (process.returncode, err)

"""Interruption: what was found so far is told, and nothing is left: no process, no folder, no traceback."""

from __future__ import annotations

import json
import os
import select
import signal
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


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interrupted_campaign_tells_what_it_has(started, tmp_path, name):
    """Ctrl-C, SIGTERM and SIGHUP end a campaign at once, with the verdict so far and status 3, and nothing is left."""
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


ENTRY = """
import sys
sys.argv[0] = "survives"
sys.stderr.write("started\\n")
sys.stderr.flush()
from stateful.cli import main
main()
"""


@pytest.mark.parametrize("delay", [0, 0.02, 0.05, 0.1, 0.2, 0.3])
def test_an_early_interrupt_is_one_line(started, delay):
    """Ctrl-C before anything has run is one line and status 3, wherever in the start it comes."""
    process = started(ENTRY, "check", "--seconds", 30)
    assert "started\n" == process.stderr.readline()
    handle = os.pidfd_open(process.pid)
    select.select([handle], [], [], 0.02 + delay)  # it is to be at some place or other of its start
    os.close(handle)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)

    assert 3 == process.returncode
    assert err in {"", "survives: interrupted before anything ran\n"}
    assert [] == left_of(process.pid)


TELLING = """
import os, signal, sys
from attrs import evolve
from stateful import campaign, cli, display

number = int(sys.argv.pop(1))
whole = campaign.plan
campaign.plan = lambda *a, **k: [[evolve(s, size=40) for s in whole(*a, **k)[0] if s.engine == "walk"]]
display.keep = lambda *a, **k: os.kill(os.getpid(), number)
cli.main()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupt_while_telling_keeps_the_verdict(started, name, as_json):
    """A signal while stories are told ends the stories, not the verdict: its bound or its document is printed."""
    arguments = ["check", "--contracts", "approval=advisory", *["--json"] * as_json]
    process = started(TELLING, int(getattr(signal, name)), *arguments)
    out, err = process.communicate(timeout=60)

    assert (1, "survives: interrupted while telling\n") == (process.returncode, err)
    assert json.loads(out)["status"] == "violated" if as_json else "VIOLATED 1 of " in out

"""The kills engine: real deaths and freezes at every boundary, and nothing left behind.

It forks, so that it runs in a process of its own, which tells what it saw as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from model.contracts import contracts_from
from stateful.engines import kills
from stateful.order import Rig
from stateful.subject import load_subject
from stateful.verdict import Tally

seen = []

class Watched(kills.Child):
    def __init__(self, work):
        links = []
        for fd in os.listdir("/proc/self/fd"):
            try:
                links.append(os.readlink(f"/proc/self/fd/{fd}"))
            except FileNotFoundError:
                pass
        seen.append([x for x in links if str(folder) in x])
        super().__init__(work)

kills.Child = Watched
subject, target_name, choices = sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
loaded = load_subject(subject, folder=Path(sys.argv[1]), probe=False)
tally = Tally("kills")
with Rig(loaded, contracts_from(choices), in_memory=False, across_processes=True) as rig:
    folder = rig.medium.folder
    (target,) = [t for t in kills.catalogue(rig, 0) if t.name == target_name]
    kills.Sweeper(rig, tally).sweep(target)
try:
    os.waitpid(-1, os.WNOHANG)
    children = True
except ChildProcessError:
    children = False
print(json.dumps({
    "boundaries": dict(tally.boundaries), "left_over": tally.left_over, "orders": tally.orders, "kills": tally.kills,
    "broken": {b.property_id: [b.detail, [s.label for s in b.steps]] for b in tally.broken.values()},
    "children": children, "open_at_fork": sorted(set(sum(seen, []))), "forks": len(seen), "folder": folder.exists(),
}))
"""


def sweep(subject, target, **choices):
    """Sweep one target in a process of its own, and tell what came of it."""
    command = [sys.executable, "-c", SCRIPT, str(ROOT), subject, target, json.dumps(choices)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert 0 == done.returncode, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def swept():
    return sweep("impl.sqlite:SqliteDispatcher", "dispatch done -> ok")


def test_a_send_is_killed_and_frozen_at_every_boundary(swept):
    """A send has more than ten boundaries; each kills once, each but the last freezes, and none is left over."""
    killed, frozen = (swept["boundaries"][f"dispatch done -> ok: {how}"] for how in ("killed", "frozen"))

    assert (True, True, []) == (killed > 10, frozen in {killed, killed - 1}, swept["left_over"])
    assert (killed + frozen, killed) == (swept["orders"], swept["kills"])


def test_the_dispatcher_survives_it(swept):
    """The dispatcher keeps its promises wherever it dies in a send."""
    assert {} == swept["broken"]


def test_nothing_is_left_behind(swept):
    """No child is left, dead or alive; no folder is left; nothing was open where a process forked."""
    assert (False, False, []) == (swept["children"], swept["folder"], swept["open_at_fork"])


def test_a_real_death_finds_a_mistake():
    """Rows that are stored in two goes are found by the death between them, at its boundary."""
    broken = sweep("tests.stateful.subjects:StoresInTwoGoes", "submit p1 -> ok")["broken"]

    assert {"conforms": ["submit k1 p1 killed at boundary 6"]} == {p: steps for p, (_, steps) in broken.items()}


def test_rows_that_cannot_be_read_are_swept_too():
    """A subject that keeps its rows to itself is killed and frozen like any other, and a correct one survives."""
    swept = sweep("examples.toy_dispatcher:ToyDispatcher", "dispatch done -> ok")

    assert ({}, [], {"dispatch done -> ok: killed", "dispatch done -> ok: frozen"}) == (
        swept["broken"],
        swept["left_over"],
        set(swept["boundaries"]),
    )


def test_a_child_that_ends_its_process_is_a_finding():
    """A subject that ends its process in a send is found by the death that nobody ordered."""
    broken = sweep("tests.stateful.subjects:Exits", "dispatch done -> ok")["broken"]

    assert (["answers"], True) == (list(broken), broken["answers"][0].endswith("done: it ended its process"))

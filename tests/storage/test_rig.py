"""A whole subject is recorded: ledger, sink and checkpoint in one log, read back after a power cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from model.actions import Alphabet, Step
from model.contracts import Durability, contracts_from
from model.words import State
from stateful.engines.walk import walk
from stateful.medium import FolderMedium
from stateful.oracle import Oracle
from stateful.storage.crashes import Bounds, Crashes
from stateful.storage.log import Log, Rename, SyncFolder
from stateful.storage.materialise import damage, materialise
from stateful.storage.rig import RecordingRig
from stateful.storage.ways import Way
from stateful.subject import load_subject
from stateful.verdict import Tally

BY_LABEL = Alphabet(2, 2).by_label
ORDER = (
    *("submit k1 p1", "approve k1 p1", "claim w1 k1"),
    *("dispatch w1 k1 done", "acknowledge w1 k1", "checkpoint w1 k1"),
)
DATABASES = ("ledger.sqlite3", "sink/sink.sqlite3")


@pytest.fixture
def rig(way: Way) -> Iterator[Callable[..., RecordingRig]]:
    """A recording rig for the SQLite dispatcher under the named contract choices, closed in the end."""
    with ExitStack() as stack:

        def make(**choices: str) -> RecordingRig:
            return stack.enter_context(RecordingRig(load_subject(), contracts_from(choices), way=way))

        yield make


def recorded_order(rig: RecordingRig) -> Log:
    """The log of one order, each step of which is acknowledged."""
    assert rig.start() is None
    log = rig.recording.start_recording()
    for label in ORDER:
        assert rig.do(Step(BY_LABEL[label])) is None
        log.mark(label)
    rig.recording.stop_recording()
    return log


@pytest.mark.parametrize("durability", Durability)
def test_ledger_sink_and_checkpoint_are_in_one_log(rig, durability) -> None:
    """Applied in full, the log of an order is the files that the subject has left, byte for byte."""
    rig = rig(durability=str(durability))
    log = recorded_order(rig)
    written = {log.path_of(o.inode) for o in log.operations if hasattr(o, "inode")}

    assert [] == rig.recording.strays(log)
    assert {"ledger.sqlite3", "sink/sink.sqlite3", "checkpoint/checkpoint.json.new"} <= {
        path.removesuffix("-wal") for path in written
    }
    assert any(isinstance(o, Rename) for o in log.operations)
    assert SyncFolder("checkpoint") in log.operations


def test_every_order_starts_on_a_log_of_its_own(rig) -> None:
    """Each order is recorded from its start, and its base is the empty stores."""
    rig = rig()
    logs = [recorded_order(rig) for _ in range(3)]
    assert rig.start() is None

    assert 0 == len(rig.recording.log)
    assert 1 == len({len(log) for log in logs})
    assert logs[0].base == logs[1].base == logs[2].base


def test_the_other_engines_run_on_it(rig) -> None:
    """A walk with kills at boundaries finds nothing on recorded stores, and the record is what was done."""
    rig, tally = rig(), Tally("walk")
    logs = []
    rig.on_step = lambda: logs.append(rig.recording.log or rig.recording.start_recording())
    walk(rig, 1, 5, tally)

    assert {} == tally.broken
    assert [] == rig.recording.strays(logs[-1])


def test_what_survives_can_be_read(rig, fast) -> None:
    """Every crash state of a durable order opens, is whole, and has what was acknowledged."""
    rig = rig()
    log = recorded_order(rig)
    previous, states = None, Counter()
    for state in Crashes(log, Bounds(exhaustive=5, samples=8)):
        materialise(state.files, fast, previous)
        previous = state.files
        assert ["", ""] == [damage(fast / name) for name in DATABASES], state
        medium = FolderMedium(fast)
        oracle = Oracle(medium, rig.model, ledger=True)
        slot = oracle.read().slots[0]
        oracle.close()
        done = ORDER.index(state.mark) + 1 if state.mark else 0
        assert (done >= 1) <= (slot.intent is not None), state
        assert (done >= 5) <= (slot.intent is not None and slot.intent.state is State.COMPLETED), state
        assert (slot.progress is not None) <= bool(slot.effects), state
        assert (done >= 6) <= (slot.progress is not None), state
        states[state.mark] += 1

    assert set(ORDER) | {None} == set(states)


def test_a_careless_setting_is_seen_to_lose(rig, fast) -> None:
    """The reading has teeth: with a log that is not synced the acknowledged intent is gone in some state."""
    log = recorded_order(rig(durability="wal-normal"))
    lost, previous = 0, None
    for state in Crashes(log, Bounds(exhaustive=5, samples=8)):
        if state.mark is None:
            continue
        materialise(state.files, fast, previous)
        previous = state.files
        damage(fast / "ledger.sqlite3")
        lost += b"k1" not in (fast / "ledger.sqlite3").read_bytes()
    assert lost


def test_the_folder_is_removed() -> None:
    """A rig that made its folder takes it away."""
    with RecordingRig(load_subject(), contracts_from({})) as rig:
        folder = rig.medium.folder
        recorded_order(rig)

    assert not folder.exists()

"""Stores that were damaged before anybody opened them, cannot be written, or were opened by another process.

Damage must end in an error or a refusal, and stay as it is: whoever is to repair it needs all that is left. An *empty*
ledger is no fresh start where a checkpoint with entries stands beside it. Without one nobody can tell; the sink then
keeps an effect from being repeated, as it knows its keys. An empty sink cannot be told from a new one at all: it is a
service of its own, and what it has forgotten is not the dispatcher's to remember.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from attrs import frozen

from impl.protocol import StoppedError
from model.actions import Action, Step, Verb
from model.properties import ANSWERS, CONFORMS, PROPERTIES
from model.words import Kind as Answered
from model.words import Outcome
from stateful.bench import SINK_FILE, SubjectFailedError
from stateful.children import Child
from stateful.failing.rig import FaultRig
from stateful.failing.standpoint import Standpoint
from stateful.judge import Finding, told
from stateful.oracle import CHECKPOINT_FILE, LEDGER_FILE
from stateful.order import Ran
from stateful.verdict import Tally

INTENT_KEPT = PROPERTIES["intent-kept"]
LEDGER, SINK, CHECKPOINT = LEDGER_FILE, str(SINK_FILE), str(Path(*CHECKPOINT_FILE))
ORDER = (
    *("submit k1 p1", "approve k1 p1", "claim w1 k1", "dispatch w1 k1 done", "acknowledge w1 k1", "checkpoint w1 k1"),
    *("submit k2 p1", "approve k2 p1", "claim w2 k2"),
)
"""What was done before: one key is finished, and one is in hand."""
ASKED = {
    LEDGER: (
        *("submit k1 p1", "cancel k2", "claim w1 k2", "renew w2 k2", "release w2 k2", "dispatch w2 k2 done"),
        *("checkpoint w1 k1", "reap_read w1"),
    ),
    SINK: ("dispatch w2 k2 done",),
    CHECKPOINT: ("checkpoint w1 k1",),
}
"""For each store, what can only be done with it."""
PAGE_BYTES = 4096


def _noise(size: int) -> bytes:
    """Bytes that are no page of SQLite's, and no JSON: the same each time."""
    return bytes((n * 167 + 91) % 256 for n in range(size))


def _page_overwritten(data: bytes) -> bytes:
    at = len(data) // PAGE_BYTES // 2 * PAGE_BYTES
    return data[:at] + _noise(PAGE_BYTES) + data[at + PAGE_BYTES :]


def _middle_overwritten(data: bytes) -> bytes:
    at = len(data) // 2
    return data[:at] + _noise(4) + data[at + 4 :]


@frozen
class Damage:
    """What has become of a file."""

    name: str
    done: Callable[[bytes], bytes | None]
    """None for a file that is gone."""
    stores: tuple[str, ...]


DAMAGES = (
    Damage("a page overwritten", _page_overwritten, (LEDGER, SINK)),
    Damage("the header overwritten", lambda data: _noise(100) + data[100:], (LEDGER, SINK)),
    Damage("bytes overwritten", _middle_overwritten, (CHECKPOINT,)),
    Damage("cut in half", lambda data: data[: len(data) // 2], (LEDGER, SINK, CHECKPOINT)),
    Damage("something else", lambda data: b"this is something else\n" * 40, (LEDGER, SINK, CHECKPOINT)),
    Damage("emptied", lambda data: b"", (LEDGER, CHECKPOINT)),
    Damage("gone", lambda data: None, (LEDGER,)),
)


def run(rig: FaultRig, tally: Tally) -> None:
    """Damage each store in each way, make it read-only, and carry its handle over a fork."""
    by_label = rig.model.alphabet.by_label
    here = Standpoint.after(rig, [Step(by_label[label]) for label in ORDER])
    if isinstance(here, Ran):
        tally.take(rig, here)
        return
    for store, name, finding in _each(rig, here):
        tally.boundaries[f"opened: {name}"] += 1
        tally.faults[f"{name} | {Path(store).stem.partition('.')[0]} | {'broken' if finding else 'stopped'}"] += 1
        tally.take(rig, Ran(here.told, finding, len(here.told)))
        if tally.enough:
            break
    rig.recording.read_only.clear()
    here.back(rig)


def _each(rig: FaultRig, here: Standpoint) -> Iterator[tuple[str, str, Finding | None]]:
    for damage in DAMAGES:
        for store in damage.stores:
            yield store, damage.name, _damaged(rig, here, store, damage)
    for store in (LEDGER, SINK):
        yield store, "read-only", _read_only(rig, here, store)
    yield LEDGER, "carried over a fork", _forked(rig, here)


def _damaged(rig: FaultRig, here: Standpoint, store: str, damage: Damage) -> Finding | None:
    files = dict(here.files)
    data = damage.done(files.pop(store))
    if data is not None:
        files[store] = data
    here.back(rig, files)
    where = f"with {store} {damage.name}" if damage.name != "something else" else f"with {damage.name} as {store}"
    finding = _refuses(rig, store, where)
    left = rig.medium.read(rig.medium.folder / store)
    # A connection makes the file that it is to open, and a refusal may leave it behind: empty, and so taken for none.
    if (left or None) == (data or None):
        return finding
    property_id = INTENT_KEPT.id if store == LEDGER else CONFORMS.id
    return Finding(property_id, f"{where} a dispatcher was opened, and what was left of it is no longer there")


def _read_only(rig: FaultRig, here: Standpoint, store: str) -> Finding | None:
    rig.recording.read_only = {Path(store).name}
    here.back(rig)
    where = f"with {store} read-only"
    finding = _refuses(rig, store, where)
    rig.recording.read_only = set()
    if finding is None and rig.medium.read(rig.medium.folder / store) != here.files[store]:
        finding = Finding(CONFORMS.id, f"{where} it was written to")
    return finding


def _refuses(rig: FaultRig, store: str, where: str) -> Finding | None:
    """Ask what only the store could answer; a finding if anybody is answered, or nobody told which file it is."""
    named = False
    for label in ASKED[store]:
        action = rig.model.alphabet.by_label[label]
        outcome, broken = _asked(rig, action)
        if broken:
            return Finding(ANSWERS.id, f"{label}, {where}: {broken}")
        saw_nothing = action.verb is Verb.REAP_READ and outcome == Outcome(Answered.OK)
        if outcome.kind not in {Answered.REFUSED, Answered.UNKNOWN} and not saw_nothing:
            return Finding(CONFORMS.id, f"{label}, {where}, answered {told(outcome)}")
        # A sink is heard of only through those who ask it, and a silent one says nothing.
        named = named or Path(store).name in outcome.reason or outcome.kind is Answered.UNKNOWN
    return (
        None if named else Finding(CONFORMS.id, f"{where} everything was refused, and nobody told which file it was")
    )


def _asked(rig: FaultRig, action: Action) -> tuple[Outcome, str]:
    """What an operation answered, and what went wrong with the answer."""
    process = rig.bench.processes[action.worker]
    try:
        if process.dispatcher is None:
            rig.bench.open(process)
        return rig.bench.perform(process, action, lambda key: []), ""
    except StoppedError as error:
        return Outcome(Answered.REFUSED, str(error)), ""
    except SubjectFailedError as error:
        return Outcome(Answered.UNKNOWN), str(error)


# -- forks ----------------------------------------------------------------------------------------------------


def _forked(rig: FaultRig, here: Standpoint) -> Finding | None:
    """A child goes on with what its parent has opened: it must refuse, or open the store itself."""
    here.back(rig)
    action = rig.model.alphabet.by_label["renew w2 k2"]
    rig.bench.attach(rig.bench.processes[action.worker])

    def in_child() -> tuple[Outcome, str, int]:
        before = rig.recording.connections_asked_for
        return *_asked(rig, action), rig.recording.connections_asked_for - before

    with Child(in_child) as child:
        sent = child.wait().sent
    if sent is None:
        return Finding(ANSWERS.id, f"{action.label} in a forked process: it did not end well")
    outcome, broken, opened = sent
    if broken:
        return Finding(ANSWERS.id, f"{action.label} in a forked process: {broken}")
    if outcome.kind is Answered.REFUSED or opened:
        return None
    return Finding(
        CONFORMS.id, f"{action.label} in a forked process, by its parent's handle, answered {told(outcome)}"
    )

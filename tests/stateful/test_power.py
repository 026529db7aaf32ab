"""The power engine: what each durability setting is worth, and what a dispatcher makes of what is left."""

from __future__ import annotations

import json

import pytest

from impl.mistakes import MISTAKES
from model.actions import Alphabet, Step
from model.contracts import Contracts, Durability, contracts_from
from stateful.campaign import trace_of
from stateful.engines import power
from stateful.findings import told_again
from stateful.judge import Finding
from stateful.power.cut import Cut, CutError, Piece, cut_from_json, cut_of, left_by
from stateful.power.cutter import Cutter
from stateful.power.recorded import record
from stateful.power.reduce import reduced_cut
from stateful.storage.abi import UnsupportedStorageError
from stateful.storage.crashes import Bounds, Crashes
from stateful.storage.rig import RecordingRig
from stateful.subject import load_subject
from stateful.trace import TraceError, read_trace
from stateful.verdict import Tally

SHORT = (
    "submit k1 p1",
    "approve k1 p1",
    "claim w1 k1",
    "dispatch w1 k1 done",
    "acknowledge w1 k1",
    "checkpoint w1 k1",
)
FEW = Bounds(exhaustive=5, samples=8, window=6, names=3, torn=2)
BY_LABEL = Alphabet(2, 2).by_label
KEEPING = [d for d in Durability if d.keeps]
LOSING = {
    Durability.DELETE_FULL: "intent-kept",
    Durability.DELETE_NORMAL: "ack-durable",
    Durability.WAL_NORMAL: "intent-kept",
    Durability.OFF: "ack-durable",
}
"""What is seen first: a database that is damaged has lost more than an intent."""


def steps_of(*labels):
    return tuple(Step(BY_LABEL[label]) for label in labels)


@pytest.fixture
def rig():
    """Makes rigs that are closed in the end."""
    made = []

    def make(contracts=Contracts(), mistake="", name="impl.sqlite:SqliteDispatcher"):
        made.append(RecordingRig(load_subject(name, mistake), contracts))
        return made[-1]

    yield make
    for one in made:
        one.close()


def losses_of(rig, labels=SHORT, **settings):
    """The crash states of an order that break a promise, and how many states there were."""
    with Cutter(rig, FEW, **settings) as cutter:
        return list(cutter.cut(record(rig, steps_of(*labels)))), cutter.counts


def test_the_default_survives_every_crash_state_of_the_standard_order(rig):
    """Two keys from submission to checkpoint; some recoveries are cut a second time."""
    one = rig()
    recorded = record(one, power.standard(one))
    with Cutter(one) as cutter:
        losses = list(cutter.cut(recorded))

    assert ([], ()) == (losses, recorded.strays)
    assert cutter.counts.states > 2_000
    assert cutter.counts.second > 0
    assert len(power.STANDARD) == len(recorded.steps)


@pytest.mark.parametrize("durability", KEEPING)
def test_a_setting_that_keeps_what_was_acknowledged(rig, durability):
    """No crash state of a key's life has lost or torn anything."""
    losses, counts = losses_of(rig(Contracts(durability=durability)))

    assert [] == losses
    assert counts.states > 100


@pytest.mark.parametrize("durability", LOSING)
def test_a_setting_that_does_not(rig, tmp_path, durability):
    """A promise breaks; the shortest order that shows it is a trace, which breaks it again each time."""
    contracts = Contracts(durability=durability)
    one = rig(contracts)
    tally = Tally("power")
    power.cut(one, steps_of(*SHORT), tally, FEW, 0)
    assert LOSING[durability] in tally.broken
    broken = reduced_cut(one, tally.broken[LOSING[durability]])
    trace_of(one.subject, contracts, broken).write(tmp_path / "trace.json")
    trace = read_trace(tmp_path / "trace.json")

    assert trace_of(one.subject, contracts, broken) == trace
    assert len(broken.steps) <= 2
    assert [LOSING[durability]] * 3 == [told_again(trace)[0].verdict for _ in range(3)]


def test_the_default_survives_what_breaks_a_weaker_setting(rig):
    """Under the default the intent is there in every crash state of the order that loses it without a sync."""
    assert [] == losses_of(rig(), ("submit k1 p1",))[0]


def test_a_disk_that_lies_is_found_out(rig):
    """With every sync ignored the default loses what it acknowledged: the check can fail."""
    losses, _ = losses_of(rig(), lies=True)

    assert {"ack-durable", "intent-kept"} <= {loss.finding.property_id for loss in losses}


def test_a_checkpoint_before_the_effect_needs_no_power_cut(rig):
    """It runs ahead of the sink while everybody lives."""
    found = record(
        rig(contracts_from({"checkpoint": "before-effect"})),
        steps_of("submit k1 p1", "approve k1 p1", "claim w1 k1", "checkpoint w1 k1", "dispatch w1 k1 done"),
    )

    assert isinstance(found, Finding)
    assert "true-completion" == found.property_id


def test_a_key_that_is_done_before_its_effect_needs_none_either(rig):
    """Whoever marks it done first is found while it lives."""
    found = record(rig(mistake="M038"), steps_of(*SHORT[:3], "dispatch w1 k1 permanent", "acknowledge w1 k1"))

    assert isinstance(found, Finding)
    assert "true-completion" == found.property_id


def test_a_checkpoint_that_runs_ahead_for_an_instant_is_found_by_a_cut(rig):
    """Once everybody has answered all is well; in between the checkpoint is on disk and the effect is not."""
    losses, _ = losses_of(rig(mistake="M056"), SHORT[:4])

    assert "true-completion" in {loss.finding.property_id for loss in losses}


@pytest.mark.parametrize("one", [pytest.param(m, id=m.id) for m in MISTAKES.values() if m.shown_by == "power"])
def test_a_mistake_that_only_a_power_cut_shows(rig, one):
    """The cut breaks what the mistake is about; without one the order survives, deaths and all."""
    losses, _ = losses_of(rig(mistake=one.id))

    assert one.breaks in {loss.finding.property_id for loss in losses}
    for boundary in range(1, 16):
        killed = (*steps_of(*SHORT[:-1]), Step(BY_LABEL[SHORT[-1]], boundary))
        assert one.id == "M207" or rig(mistake=one.id).run(killed).finding is None


def test_what_is_written_behind_the_record_is_unsupported(rig):
    """A subject that opens its database by itself cannot be judged by what was recorded."""
    tally = Tally("power")
    power.cut(rig(name="tests.stateful.subjects:OpensByItself"), steps_of(*SHORT[:2]), tally, FEW, 0)

    assert "it writes files that cannot be recorded: own.sqlite3" == tally.unsupported
    assert {} == tally.broken


def test_a_shard_is_the_same_each_time(rig):
    """One seed gives one tally, another other orders."""
    tallies = []
    for seed in (1, 1, 2):
        tallies.append(Tally("power"))
        power.run(rig(), seed, 1, 2, tallies[-1])

    assert tallies[0] == tallies[1]
    assert tallies[0] != tallies[2]


def test_generated_orders_survive(rig):
    """A few random orders, cut at every point."""
    tally = Tally("power")
    power.run(rig(), 3, 1, 4, tally)

    assert ({}, 4) == (tally.broken, tally.orders)


def test_a_cut_is_made_again_from_its_trace(rig):
    """What a cut leaves of the log is what the crash state held, torn writes included."""
    recorded = record(rig(), steps_of("submit k1 p1"))
    states = list(Crashes(recorded.log, FEW))

    assert all(state.files == left_by(recorded.log, cut_from_json(cut_of(state).to_json())) for state in states)
    assert any(piece.end for state in states for piece in cut_of(state).survivors)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (None, '"cut" is None; it has answered, position, and a list of what survived'),
        ({"answered": 0, "position": -1, "survived": []}, "position is -1, not a number from 0 to 1,000,000"),
        ({"answered": True, "position": 1, "survived": []}, "answered is True"),
        ({"answered": 0, "position": 1, "survived": ["x"]}, "'x' is neither the number of a storage operation nor"),
        ({"answered": 0, "position": 1, "survived": [[1, 9, 2]]}, "[1, 9, 2] is neither"),
    ],
)
def test_a_cut_that_is_wrong_is_told(tmp_path, raw, why):
    """The value, the reason and what it should be, with the file's name."""
    document = {
        "format": "survives-trace",
        "version": 3,
        "subject": "",
        "steps": [],
        "cut": raw,
        "expect": "survived",
    }
    (tmp_path / "t.json").write_text(json.dumps(document))
    with pytest.raises(TraceError) as caught:
        read_trace(tmp_path / "t.json")

    assert why in str(caught.value)
    assert str(tmp_path / "t.json") in str(caught.value)


def test_a_cut_of_an_older_version_is_refused(tmp_path):
    """A trace that has one says so by its version."""
    document = {"format": "survives-trace", "version": 2, "subject": "", "steps": [], "expect": "survived"}
    (tmp_path / "t.json").write_text(json.dumps(document | {"cut": {"answered": 0, "position": 0, "survived": []}}))
    with pytest.raises(TraceError, match='version 2 has no "cut"; its version is 3'):
        read_trace(tmp_path / "t.json")


@pytest.mark.parametrize(
    ("cut", "why"),
    [
        (Cut(99_999), "comes after 99999 storage operations, and there are only"),
        (Cut(1, (Piece(50),)), "storage operation 50 is not pending"),
    ],
)
def test_a_cut_that_does_not_fit_is_told(rig, cut, why):
    """Another subject has other storage operations."""
    with pytest.raises(CutError, match=why):
        left_by(record(rig(), steps_of("submit k1 p1")).log, cut)


def test_a_cut_is_placed_by_what_was_answered_on_another_subject(rig):
    """Where the log has other operations, everything pending is lost when as many steps have been answered."""
    losing = rig(Contracts(durability=Durability.WAL_NORMAL))
    (loss, *_) = [x for x in losses_of(losing, ("submit k1 p1",))[0] if x.cut.answered == 1]
    others = [record(rig(Contracts(durability=d)), steps_of("submit k1 p1")) for d in (Durability.OFF, *KEEPING)]
    found = []
    for other in others:
        with Cutter(rig()) as cutter:
            done = cutter.at(other, loss.cut)
            found.append((done.mark, done.finding is None))

    assert [(1, False)] + [(1, True)] * len(KEEPING) == found


def test_stores_that_are_too_large_are_unsupported_and_large_ones_are_sampled(rig, monkeypatch):
    """A shard says why nothing was cut; below that, the totals say at how many points it was."""
    one = rig()
    tally = Tally("power", 0)
    power.cut(one, steps_of(*SHORT[:2]), tally, Bounds(bytes_max=8 << 20), 0)
    monkeypatch.setattr("stateful.power.recorded.BYTES_MAX", 1)

    assert tally.cuts["passed"] > 0 < tally.cuts["points"] < tally.cuts["passed"]
    with pytest.raises(UnsupportedStorageError, match="crash states of more than 0 MiB are not made; let it begin"):
        power.cut(one, steps_of(*SHORT[:2]), tally, FEW, 0)

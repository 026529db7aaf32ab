"""The power cut as a step of any order: what the machine and the walk do with it."""

from __future__ import annotations

import pytest

from model.actions import Alphabet, Step
from model.contracts import Contracts, Durability
from stateful.campaign import trace_of
from stateful.engines import machine
from stateful.findings import told_again
from stateful.order import Rig
from stateful.reduce import Reducer
from stateful.storage.rig import RecordingRig
from stateful.subject import load_subject
from stateful.verdict import Tally

BY_LABEL = Alphabet(2, 2).by_label
LIFE = ("submit k1 p1", "approve k1 p1", "claim w1 k1", "dispatch w1 k1 done", "acknowledge w1 k1")


def steps_of(*labels):
    return tuple(Step(BY_LABEL[label]) for label in labels)


@pytest.mark.parametrize("durability", [d for d in Durability if d.keeps])
@pytest.mark.parametrize("lost", ["everything", "names", "data", "nothing"])
def test_a_setting_that_keeps_loses_nothing(durability, lost):
    """Whatever of the pending writes is lost, what was answered is there, and the system runs to rest."""
    with RecordingRig(load_subject(), Contracts(durability=durability)) as rig:
        ran = rig.run(steps_of(*LIFE, f"power_cut {lost}"))

    assert ran.finding is None
    assert "power_cut" == ran.told[ran.own - 1].step.action.verb


@pytest.mark.parametrize("durability", [d for d in Durability if not d.keeps])
def test_a_setting_that_does_not_is_found_out(durability):
    """An intent that was acknowledged is gone."""
    with RecordingRig(load_subject(), Contracts(durability=durability)) as rig:
        found = {rig.run(steps_of(LIFE[0], f"power_cut {lost}")).finding for lost in ("everything", "names", "data")}

    assert {"intent-kept"} <= {finding.property_id for finding in found if finding is not None}


def test_a_death_in_the_middle_and_then_the_power(tmp_path):
    """A process that died in an operation leaves writes pending, which the cut takes: a prefix of it, as ever."""
    with RecordingRig(load_subject(), Contracts()) as rig:
        for boundary in range(1, 12):
            steps = (*steps_of(*LIFE[:3]), Step(BY_LABEL[LIFE[3]], boundary), *steps_of("power_cut everything"))
            assert rig.run(steps).finding is None


def test_the_machine_finds_it_and_its_trace_breaks_again(tmp_path):
    """Random orders lose an intent without a sync; the order is reduced to two steps and replayed on recorded files."""
    contracts = Contracts(durability=Durability.WAL_NORMAL)
    tally = Tally("machine")
    with RecordingRig(load_subject(), contracts) as rig:
        machine.run(rig, 1, 100, tally)
        broken = tally.broken["intent-kept"]
        steps = Reducer(rig, "intent-kept").reduce(broken.steps).steps
        trace = trace_of(rig.subject, contracts, broken.__class__("intent-kept", "", steps, "machine", 0, 1))

    assert ["submit k1 p1", "power_cut everything"] == [step.label for step in steps]
    assert "intent-kept" == told_again(trace)[0].verdict


def test_where_nothing_is_recorded_everybody_dies_and_nothing_is_lost():
    """In memory and on plain files a power cut is the death of all."""
    with Rig(load_subject(), Contracts(durability=Durability.OFF)) as rig:
        ran = rig.run(steps_of(*LIFE, "power_cut everything"))

    assert ran.finding is None


def test_what_nobody_recorded_is_not_taken_away():
    """A subject that opens its database by itself keeps it: nobody knows what of it was synced."""
    with RecordingRig(load_subject("tests.stateful.subjects:OpensByItself"), Contracts()) as rig:
        rig.run(steps_of("submit k1 p1", "power_cut everything"))
        size = (rig.medium.folder / "own.sqlite3").stat().st_size

    assert size > 0

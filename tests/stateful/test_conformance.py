"""Conformance: the model's graph on real SQLite, edge by edge, and a dispatcher that differs is red."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from model import Capability, Contracts, Model, Verb, contracts_from
from model.search import ModelBounds, ModelSpace
from stateful.engines.conformance import Conformance, Conformer
from stateful.order import Rig
from stateful.subject import load_subject

SMALL = frozenset(
    {Verb.SUBMIT, Verb.APPROVE, Verb.CLAIM, Verb.DISPATCH, Verb.ACKNOWLEDGE, Verb.CHECKPOINT, Verb.ADVANCE}
    | {Verb.RECONCILE, Verb.RESTART, Verb.CANCEL, Verb.REAP_READ, Verb.REAP_APPLY}
)
BOUNDS = ModelBounds(
    kills=1, policy_bumps=0, grants=2, payload_changes=False, verbs=SMALL, replies=["done", "silent"]
)


@pytest.fixture
def conformed() -> Callable[..., Conformance]:
    def run(
        bounds: ModelBounds, contracts: Contracts, *, mistake: str = "", states: int | None = None
    ) -> Conformance:
        space = ModelSpace(Model(contracts), bounds)
        model = space.model
        with Rig(load_subject(mistake=mistake), contracts, model.limits, keys=model.keys) as rig:
            return Conformer(space, rig, states_max=states).run()

    return run


@pytest.mark.deep
def test_every_edge_of_a_small_graph_is_executed(conformed):
    """Each labelled transition runs on SQLite once, and answers and rows are the model's."""
    bounds = ModelBounds(kills=0, policy_bumps=0, grants=1, payload_changes=False, replies=["done", "lost"])

    done = conformed(bounds, Contracts(), states=2_500)

    assert [] == done.disagreements
    assert done.edges == done.covered
    assert done.executed < 2 * done.covered


@pytest.mark.parametrize(
    "weak",
    [
        {},
        {"idempotency": "client"},
        {"idempotency": "none"},
        {"fencing": "claim-only"},
        {"fencing": "none"},
        {"approval": "caller"},
        {"approval": "advisory"},
        {"checkpoint": "before-effect"},
        {"deadline": "per-attempt"},
        {"retry": "every-error"},
        {"cancellation": "forceful"},
    ],
    ids=str,
)
def test_deaths_conform_under_every_contract(conformed, weak):
    """A death after each stage leaves on SQLite what it leaves in the model, under each contract choice."""
    done = conformed(BOUNDS, contracts_from(weak), states=400)

    assert [] == done.disagreements
    assert done.edges == done.covered


@pytest.mark.parametrize("mistake", ["M005", "M035", "M045", "M098", "M111"])
def test_a_mistaken_dispatcher_does_not_conform(conformed, mistake):
    """A dispatcher with a seeded mistake disagrees somewhere, and the labels that lead there are given."""
    done = conformed(ModelBounds(kills=0, policy_bumps=0, payload_changes=False), Contracts(), mistake=mistake)

    assert done.disagreements
    assert all(one.labels for one in done.disagreements)
    assert not done.complete


def test_a_cut_run_is_not_complete(conformed):
    """What stops early says so."""
    done = conformed(BOUNDS, Contracts(), states=10)

    assert "states" == done.cut
    assert not done.complete


def test_the_default_dispatcher_has_a_ledger_to_compare():
    """Conformance compares rows: without a readable ledger it would compare nothing."""
    assert Capability.LEDGER in load_subject().capabilities

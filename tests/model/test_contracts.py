"""The contracts: what is chosen, what is refused, how it is said."""

from __future__ import annotations

import attrs
import pytest

from model import CHOICES, Contracts, Limits, UnknownContractError, contracts_from


def test_the_choices_are_the_fields() -> None:
    """Every field of Contracts has its choices, and the first of them is its default."""
    defaults = {a.name: a.default for a in attrs.fields(Contracts)}

    assert defaults == {name: choices[0] for name, choices in CHOICES.items()}


def test_nothing_named_gives_the_defaults() -> None:
    """Without choices all contracts are the default ones, and none is weakened."""
    assert Contracts() == contracts_from({})
    assert {} == contracts_from({}).weakened()


@pytest.mark.parametrize(("name", "choice"), [(n, c) for n, choices in CHOICES.items() for c in choices])
def test_every_choice_round_trips(name: str, choice: str) -> None:
    """Contracts that were written as JSON are read back equal."""
    contracts = contracts_from({name: choice})

    assert choice == getattr(contracts, name)
    assert contracts == contracts_from(contracts.to_json())


def test_hyphens_and_underscores_are_one() -> None:
    """A contract may be spelled as on a command line or as in Python."""
    assert contracts_from({"attempt_timeout": "thread"}) == contracts_from({"attempt-timeout": "thread"})
    assert contracts_from({"fencing": "claim-only"}) == contracts_from({"fencing": "claim_only"})


def test_only_what_is_weakened_is_told() -> None:
    """The weakened choices are those that differ from the default."""
    assert {"fencing": "none"} == contracts_from({"fencing": "none", "retry": "transient"}).weakened()


def test_an_unknown_contract_is_named() -> None:
    """An unknown contract gives a message with the value, the reason and the contracts that there are."""
    with pytest.raises(UnknownContractError) as caught:
        contracts_from({"leese": "none"})

    assert f"contract 'leese' does not exist; the contracts are {', '.join(CHOICES)}" == str(caught.value)


def test_a_name_that_is_no_text_is_refused() -> None:
    """A contract's name of another type is refused like an unknown one, not by a traceback from inside."""
    with pytest.raises(UnknownContractError, match="contract 3 does not exist"):
        contracts_from({3: "none"})


def test_an_unknown_choice_is_named() -> None:
    """An unknown choice gives a message with the contract, the value and the choices that there are."""
    with pytest.raises(UnknownContractError) as caught:
        contracts_from({"fencing": "sometimes"})

    expected = "contract fencing has no choice 'sometimes'; it is one of sink-and-ledger, claim-only, none"
    assert expected == str(caught.value)


@pytest.mark.parametrize("value", [None, 3, ["none"]])
def test_a_choice_that_is_no_text_is_refused(value: object) -> None:
    """A choice of another type is refused like an unknown one, not by a traceback from inside."""
    with pytest.raises(UnknownContractError, match="contract fencing has no choice"):
        contracts_from({"fencing": value})


def test_a_limit_that_lets_nothing_happen_is_refused() -> None:
    """No permits at all are no limit that anybody could work under: the message says what to give instead."""
    with pytest.raises(
        ValueError, match="permits=0 lets nobody claim anything; give 1 or more, or None for no limit"
    ):
        Limits(permits=0)

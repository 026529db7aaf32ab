"""The seeded mistakes: a registry of small changes, each in one place, none of which the unchanged dispatcher has."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import impl.sqlite
from impl.mistakes import LEFT_OUT, MISTAKES, UnknownMistakeError, seeded
from impl.mistakes.registry import mistake
from impl.sqlite import CheckpointFile, Ledger, SqliteDispatcher
from model.properties import PROPERTIES

ALL = [pytest.param(one, id=one.id) for one in MISTAKES.values()]
PARTS = {"ledger_class": Ledger, "checkpoint_class": CheckpointFile}


def changed(mistaken, plain):
    """The names that a class has otherwise than the class it is made from, however it came to have them."""
    names = set(dir(mistaken)) - {"__doc__", "__module__"}
    own = {n for n in names if not n.startswith("__") or n == "__init__"}
    return {n for n in own if getattr(mistaken, n) is not getattr(plain, n, None)}


def override(dispatcher):
    """The part that a mistaken dispatcher has instead of the plain one, and the names that are changed in it."""
    names = changed(dispatcher, SqliteDispatcher)
    for attribute, plain in PARTS.items():
        if names == {attribute}:
            return plain, changed(getattr(dispatcher, attribute), plain)
    return SqliteDispatcher, names


def test_there_are_mistakes_of_many_kinds():
    """At least forty-five mistakes of at least twenty kinds are seeded."""
    assert len(MISTAKES) >= 45
    assert len({one.kind for one in MISTAKES.values()}) >= 20


def test_mistakes_stand_in_the_order_of_their_identifiers():
    """The registry is keyed by identifier and sorted by it."""
    assert sorted(MISTAKES) == list(MISTAKES)
    assert [one.id for one in MISTAKES.values()] == list(MISTAKES)


@pytest.mark.parametrize("one", ALL)
def test_a_mistake_is_well_formed(one):
    """It has an identifier, a kind, one sentence about the code, and a property that exists."""
    assert re.fullmatch(r"M\d{3}", one.id)
    assert re.fullmatch(r"K\d{2}", one.kind)
    assert re.fullmatch(r"[A-Z][^.]*\.", one.sentence)
    assert one.breaks in PROPERTIES


@pytest.mark.parametrize("one", ALL)
def test_a_mistake_changes_one_thing(one):
    """The mistaken dispatcher differs from the unchanged one in exactly one method or statement that it has."""
    plain, names = override(seeded(one.id))

    assert 1 == len(names)
    assert names <= set(dir(plain))


def test_a_second_change_would_be_seen():
    """The rule has teeth: two overrides, in one class or in two, are two changes."""

    class Two(Ledger):
        DOUBT = ""
        COMPLETE = ""

    class TwoParts(SqliteDispatcher):
        ledger_class = Two

        def close(self):
            pass

    class OnePart(SqliteDispatcher):
        ledger_class = Two

    assert (Ledger, {"DOUBT", "COMPLETE"}) == override(OnePart)
    assert (SqliteDispatcher, {"ledger_class", "close"}) == override(TwoParts)


def test_sentences_are_told_once():
    """No two mistakes say the same."""
    assert len(MISTAKES) == len({one.sentence for one in MISTAKES.values()})


@pytest.mark.parametrize("asked", ["m002", "M0022"])
def test_an_unknown_mistake_is_named_with_its_neighbours(asked):
    """Whoever asks for a mistake that is not seeded reads the value, the reason and what there is."""
    with pytest.raises(UnknownMistakeError) as caught:
        seeded(asked)

    said, _, listed = str(caught.value).partition("? ")
    assert said.startswith(f"mistake {asked!r} is not among the {len(MISTAKES)} that are seeded; did you mean ")
    assert "M002" in said
    assert "`survives list mistakes` shows them" == listed


def test_a_mistake_that_is_left_out_says_why():
    """Whoever asks for a mistake that is known and not seeded reads the reason."""
    with pytest.raises(UnknownMistakeError) as caught:
        seeded("M134")

    assert f"mistake 'M134' is left out: {LEFT_OUT['M134']}; `survives list mistakes` shows" in str(caught.value)


def test_an_unlike_name_is_told_where_the_list_is():
    """Where nothing is close there is no guess, only where to look."""
    with pytest.raises(UnknownMistakeError) as caught:
        seeded("nonsense")

    assert "did you mean" not in str(caught.value)
    assert "`survives list mistakes` shows them" in str(caught.value)


def test_an_identifier_is_taken_once():
    """Two mistakes under one identifier are refused when the second is registered."""
    with pytest.raises(ValueError, match="M002 is seeded twice; give Another an identifier of its own"):

        @mistake("M002", "K02", "Another.", breaks="one-lease")
        class Another(Ledger):
            pass


def test_the_unchanged_dispatcher_has_none_of_them():
    """With all mistakes loaded, every member of the dispatcher's classes still comes from where it stood."""
    classes = {c for part in (SqliteDispatcher, Ledger, CheckpointFile) for c in part.__mro__}
    homes = {getattr(member, "__module__", "") or "" for c in classes for member in vars(c).values()}

    assert (Ledger, CheckpointFile) == (SqliteDispatcher.ledger_class, SqliteDispatcher.checkpoint_class)
    assert not [home for home in homes if "mistakes" in home]


def test_the_dispatcher_does_not_know_its_mistakes():
    """No module of ``impl.sqlite`` names the mistakes."""
    sources = list(Path(impl.sqlite.__file__).parent.glob("*.py"))
    names = {
        alias
        for source in sources
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in (getattr(node, "module", ""), *(a.name for a in node.names))
    }

    assert "impl.sqlite.rules" in names
    assert not [name for name in names if name and "mistakes" in name]


def test_what_is_left_out_is_not_seeded():
    """A mistake is seeded or left out with a reason, not both."""
    assert set() == set(MISTAKES) & set(LEFT_OUT)
    assert all(re.fullmatch(r"M\d{3}", id_) for id_ in LEFT_OUT)
    assert all(len(reason) > 20 for reason in LEFT_OUT.values())

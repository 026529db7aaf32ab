"""``survives list`` and the help: the words, from the registries that the code itself uses."""

from __future__ import annotations

import pytest

from impl.mistakes import MISTAKES
from model.actions import ALPHABET
from model.claims import CLAIMS
from model.contracts import CHOICES
from model.properties import PROPERTIES, WITNESSES

REGISTRIES = {
    "actions": ALPHABET,
    "claims": CLAIMS,
    "contracts": CHOICES,
    "mistakes": MISTAKES,
    "properties": PROPERTIES,
    "witnesses": WITNESSES,
}


@pytest.mark.parametrize("what", REGISTRIES)
def test_each_word_has_a_line(survives, what):
    """Each entry of a registry has a line that begins with its name."""
    said = survives("list", what)
    names = [line.replace("=", " ").split()[0] for line in said.out.splitlines()]

    assert (0, list(map(str, REGISTRIES[what]))) == (said.status, names)


@pytest.mark.parametrize("command", [[], ["check"], ["replay"], ["mistakes"], ["list"]])
def test_help_is_there(survives, command):
    """Each command has help."""
    said = survives(*command, "--help")

    assert (0, True) == (said.status, said.out.startswith("Usage: survives"))


def test_help_names_the_exit_status(survives):
    """The exit status is explained where a user looks first."""
    words = " ".join(survives("--help").out.split())

    assert "Exit status: 0 survived, 1 violated, 2 wrong use or bad input, 3 unknown or vacuous." in words

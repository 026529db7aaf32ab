"""What must hold: words, contracts, the action alphabet, the reference model, the properties.

Pure: frozen data and functions of their arguments. It may import nothing of ``impl`` or ``stateful`` and must never
know a file, a clock, a random source or a process.
"""

from model.actions import ALPHABET, Action, Alphabet, Step, UnknownActionError, Verb
from model.contracts import CHOICES, Contracts, Limits, UnknownContractError, contracts_from
from model.properties import PROPERTIES, WITNESSES, Moment, Property, Sort
from model.step import Model
from model.words import Capability, Kind, Outcome, Reply, State, Stores, World

__all__ = [
    "ALPHABET",
    "CHOICES",
    "PROPERTIES",
    "WITNESSES",
    "Action",
    "Alphabet",
    "Capability",
    "Contracts",
    "Kind",
    "Limits",
    "Model",
    "Moment",
    "Outcome",
    "Property",
    "Reply",
    "Sort",
    "State",
    "Step",
    "Stores",
    "UnknownActionError",
    "UnknownContractError",
    "Verb",
    "World",
    "contracts_from",
]

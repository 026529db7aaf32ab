"""Concurrent histories: whether some order of the model explains what callers were told at the same time.

It may import the rest of ``model`` and must never know who made the calls, on which store, or how long they took: a
history is what was asked, in which order the askings began and ended, and what was answered.
"""

from model.histories.history import (
    Call,
    Done,
    Explanation,
    Group,
    MalformedHistoryError,
    Specification,
    Verdict,
    precedes,
)
from model.histories.judge import STATES_MAX, Judge, explain
from model.histories.operations import DispatcherHistory, Operation, said
from model.histories.partition import merged, same_slots

__all__ = [
    "STATES_MAX",
    "Call",
    "DispatcherHistory",
    "Done",
    "Explanation",
    "Group",
    "Judge",
    "MalformedHistoryError",
    "Operation",
    "Specification",
    "Verdict",
    "explain",
    "merged",
    "precedes",
    "said",
    "same_slots",
]

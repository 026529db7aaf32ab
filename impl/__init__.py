"""What is put to the test: the dispatcher protocol, the SQLite dispatcher, its seeded mistakes.

It may import the words and contracts of ``model`` and must never know its transition function: an oracle that shares
code with its subject is blind. It never imports ``stateful``.
"""

from impl.protocol import (
    Answer,
    BaseDispatcher,
    Clock,
    Decision,
    Dispatcher,
    Files,
    NoAnswerError,
    Overdue,
    Permit,
    Request,
    Sink,
    SinkAnswer,
    Site,
    Verdict,
)

__all__ = [
    "Answer",
    "BaseDispatcher",
    "Clock",
    "Decision",
    "Dispatcher",
    "Files",
    "NoAnswerError",
    "Overdue",
    "Permit",
    "Request",
    "Sink",
    "SinkAnswer",
    "Site",
    "Verdict",
]

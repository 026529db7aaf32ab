"""What a run of attempts may do, by rule: send times, effects, ends. Timed, and with every order of what is simultaneous.

- ``script``: ``Said``, what a sink does with one request; ``Event``, what comes from outside;
- ``setup``: ``Setup``, limits and contracts; ``told``: ``Told``, what a run came to;
- ``automaton``: ``outcomes``, all that a script and its events allow.

``model.step`` judges whole operations in any order; this judges one operation's attempts in time.
"""

from model.attempts.automaton import outcomes
from model.attempts.script import BACK_MS, RETRY_AFTER_MS, TRAVEL_MS, Event, EventKind, Said
from model.attempts.setup import Setup
from model.attempts.told import End, Told

__all__ = [
    "BACK_MS",
    "RETRY_AFTER_MS",
    "TRAVEL_MS",
    "End",
    "Event",
    "EventKind",
    "Said",
    "Setup",
    "Told",
    "outcomes",
]

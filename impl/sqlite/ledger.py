"""The ledger: intents, approvals, leases and attempts in one SQLite file, each operation one transaction.

The parts stand in modules of their own: ``intents`` for clients, ``leases`` and ``attempts`` for workers, ``rules``
for what is allowed, ``rows`` for the tables.
"""

from __future__ import annotations

from impl.sqlite.attempts import Attempts
from impl.sqlite.intents import Intents
from impl.sqlite.leases import Leases


class Ledger(Intents, Leases, Attempts):
    """All that the dispatcher stores but the checkpoint."""

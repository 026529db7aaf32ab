"""The ledger's tables, and one key's rows read together."""

from __future__ import annotations

from typing import Final, NamedTuple

SCHEMA: Final = (
    "CREATE TABLE meta (id INTEGER PRIMARY KEY CHECK (id = 1), revision INTEGER NOT NULL) STRICT",
    "INSERT INTO meta (id, revision) VALUES (1, 1)",
    # token_high stands here because it must outlive the lease that it was granted with.
    """CREATE TABLE intents (
        key TEXT PRIMARY KEY,
        digest TEXT NOT NULL,
        payload TEXT NOT NULL,
        deadline_ms INTEGER NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 0,
        state TEXT NOT NULL,
        in_doubt INTEGER NOT NULL DEFAULT 0,
        cancel_requested INTEGER NOT NULL DEFAULT 0,
        cleaned INTEGER NOT NULL DEFAULT 0,
        receipt TEXT NOT NULL DEFAULT '',
        token_high INTEGER NOT NULL DEFAULT 0
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE approvals (
        key TEXT PRIMARY KEY REFERENCES intents (key),
        digest TEXT NOT NULL,
        approver TEXT NOT NULL,
        expiry_ms INTEGER NOT NULL,
        revision INTEGER NOT NULL,
        status TEXT NOT NULL,
        signature TEXT NOT NULL
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE leases (
        key TEXT PRIMARY KEY REFERENCES intents (key),
        owner TEXT NOT NULL,
        token INTEGER NOT NULL,
        expiry_ms INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID""",
)
"""The schema version is the file's ``user_version``."""

PERMITS: Final = (
    "CREATE TABLE IF NOT EXISTS permits (key TEXT PRIMARY KEY REFERENCES intents (key)) STRICT, WITHOUT ROWID",
    # Whoever is at work when the limit is set holds a permit like everybody else.
    "INSERT OR IGNORE INTO permits (key) SELECT key FROM leases",
)
"""A row for each permit that has been taken and has not come back; only a ledger with a limit has the table.

All who work on it have a limit from then on: whoever has none gives no permit back.
"""


class Entry(NamedTuple):
    """All that the ledger holds about one key, as read in one statement.

    Without an approval ``approval_status`` is empty; without a lease ``lease_token`` and ``lease_expiry_ms`` are 0.
    """

    key: str
    digest: str
    payload: str
    deadline_ms: int
    attempts: int
    state: str
    in_doubt: int
    cancel_requested: int
    cleaned: int
    receipt: str
    token_high: int
    approval_digest: str
    approver: str
    approval_expiry_ms: int
    approval_revision: int
    approval_status: str
    signature: str
    lease_owner: str
    lease_token: int
    lease_expiry_ms: int
    revision: int
    """The policy revision in force."""


_ENTRIES: Final = """
    SELECT i.key, i.digest, i.payload, i.deadline_ms, i.attempts, i.state, i.in_doubt, i.cancel_requested, i.cleaned,
           i.receipt, i.token_high,
           coalesce(a.digest, ''), coalesce(a.approver, ''), coalesce(a.expiry_ms, 0), coalesce(a.revision, 0),
           coalesce(a.status, ''), coalesce(a.signature, ''),
           coalesce(l.owner, ''), coalesce(l.token, 0), coalesce(l.expiry_ms, 0),
           m.revision
    FROM intents AS i
    JOIN meta AS m
    LEFT JOIN approvals AS a ON a.key = i.key
    LEFT JOIN leases AS l ON l.key = i.key
"""

ONE_ENTRY: Final = _ENTRIES + "WHERE i.key = ?"

PERMITS_OF_OTHERS: Final = """
    SELECT count(*) FROM permits AS p
    WHERE p.key <> ? AND NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.key = p.key AND l.expiry_ms <= ?)
"""
"""A permit counts from the claim that takes it until it comes back, or until the lease runs out."""

UNSETTLED_ENTRIES: Final = _ENTRIES + "WHERE l.key IS NOT NULL OR i.state = 'pending' ORDER BY i.key"
"""Everything that time alone can make overdue; whether it is, is a rule."""

"""The independent service that owns the effects, in a database of its own.

It trusts nobody's word for a payload: it computes the digest itself, and binds the key to it in one transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Concatenate, NamedTuple

import rfc8785

from impl.approvals import digest_of
from impl.protocol import Clock, Json, NoAnswerError, Request, SinkAnswer, Verdict
from impl.sqlite.errors import BusyStoreError, StoreError
from impl.sqlite.store import P, Store, make_folder
from model.contracts import Contracts, Fencing, Idempotency

STALE = SinkAnswer(Verdict.STALE)
CONFLICT = SinkAnswer(Verdict.CONFLICT)
ABSENT = SinkAnswer(Verdict.ABSENT)
LATE = SinkAnswer(Verdict.LATE)
TRANSIENT = SinkAnswer(Verdict.TRANSIENT)
PERMANENT = SinkAnswer(Verdict.PERMANENT)


class Account(NamedTuple):
    """What the sink knows of a key: its counters, and the first effect under it (empty where there is none)."""

    calls: int = 0
    fence: int = 0
    rejected: int = 0
    digest: str = ""
    receipt: str = ""


class SqliteSink(Store):
    """A sink that remembers keys and refuses old tokens as far as the contracts say.

    ``apply``, ``reject`` and ``lookup`` raise NoAnswerError while another connection holds the lock, and where the
    storage fails or is damaged: a service that cannot vouch for anything is silent.
    """

    SCHEMA: ClassVar[tuple[str, ...]] = (
        """CREATE TABLE effects (
            id INTEGER PRIMARY KEY,
            key TEXT NOT NULL,
            digest TEXT NOT NULL,
            payload TEXT NOT NULL,
            token INTEGER NOT NULL,
            at_ms INTEGER NOT NULL,
            receipt TEXT GENERATED ALWAYS AS ('r-' || id) VIRTUAL
        ) STRICT""",
        "CREATE INDEX effects_by_key ON effects (key)",
        # A key may be known without an effect: it was called in vain, or its older tokens were fenced off.
        """CREATE TABLE keys (
            key TEXT PRIMARY KEY,
            calls INTEGER NOT NULL,
            fence INTEGER NOT NULL,
            rejected INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID""",
    )

    ACCOUNT: ClassVar[str] = """
        SELECT k.calls, k.fence, k.rejected, coalesce(e.digest, ''), coalesce(e.receipt, '')
        FROM keys AS k LEFT JOIN effects AS e ON e.key = k.key
        WHERE k.key = ? ORDER BY e.id LIMIT 1
    """
    STORE_KEY: ClassVar[str] = "INSERT OR REPLACE INTO keys (key, calls, fence, rejected) VALUES (?, ?, ?, ?)"
    STORE_EFFECT: ClassVar[str] = "INSERT INTO effects (key, digest, payload, token, at_ms) VALUES (?, ?, ?, ?, ?)"
    FIND_EFFECT: ClassVar[str] = "SELECT receipt FROM effects WHERE key = ? AND digest = ? ORDER BY id LIMIT 1"

    def __init__(
        self, path: Path, connect: Callable[[Path], sqlite3.Connection], clock: Clock, contracts: Contracts
    ) -> None:
        self._binds = contracts.idempotency is Idempotency.SINK
        self._fenced = contracts.fencing is Fencing.SINK_AND_LEDGER
        make_folder(path.parent)
        super().__init__(path, connect, clock, contracts.durability)

    def apply(self, request: Request) -> SinkAnswer:
        """Act once. Raises NoAnswerError."""
        return self._answer(request, None)

    def reject(self, request: Request, permanent: bool) -> SinkAnswer:
        """Answer that a new effect cannot be had, now or ever; a request that is counted all the same."""
        return self._answer(request, PERMANENT if permanent else TRANSIENT)

    def lookup(self, key: str, payload: Json, token: int) -> SinkAnswer:
        """What became of the key; tokens older than ``token`` are refused from then on. Raises NoAnswerError."""
        return self._told(self._lookup, key, self._digest(payload), token)

    def _answer(self, request: Request, refusal: SinkAnswer | None) -> SinkAnswer:
        return self._told(self._serve, request, self._digest(request.payload), refusal)

    def _told(self, work: Callable[Concatenate[int, P], SinkAnswer], *args: P.args, **kwargs: P.kwargs) -> SinkAnswer:
        """What a transaction answers. Raises NoAnswerError, be it committed or not, where it did not end well."""
        try:
            return self._transact(work, *args, **kwargs)
        except BusyStoreError as error:
            raise NoAnswerError("the sink is busy") from error
        except StoreError as error:
            raise NoAnswerError(f"the sink has trouble: {error}") from error

    # -- the rules --------------------------------------------------------------------------------------------

    def _digest(self, payload: Json) -> str:
        return digest_of(payload)

    def _is_stale(self, account: Account, token: int) -> bool:
        return self._fenced and token < account.fence

    def _raised(self, account: Account, token: int) -> int:
        return max(account.fence, token) if self._fenced else account.fence

    def _is_known(self, account: Account) -> bool:
        return self._binds and account.receipt != ""

    def _is_late(self, request: Request, now_ms: int) -> bool:
        return request.not_after_ms is not None and now_ms >= request.not_after_ms

    # -- the transactions -------------------------------------------------------------------------------------

    def _account(self, key: str) -> Account:
        row = self._execute(self.ACCOUNT, (key,)).fetchone()
        return Account() if row is None else Account._make(row)

    def _serve(self, now_ms: int, request: Request, digest: str, refusal: SinkAnswer | None) -> SinkAnswer:
        account = self._account(request.key)
        calls, fence, rejected = account.calls + 1, account.fence, account.rejected
        raised = self._raised(account, request.token)
        if refusal is TRANSIENT:
            answer = TRANSIENT
        elif self._is_stale(account, request.token):
            answer = STALE
        elif self._is_known(account):
            if account.digest == digest:
                answer, fence = SinkAnswer(Verdict.REPLAYED, account.receipt), raised
            else:
                answer = CONFLICT
        elif refusal is PERMANENT:
            answer, rejected = PERMANENT, rejected or calls
        elif self._is_late(request, now_ms):
            answer = LATE
        else:
            answer, fence = self._act(request, digest, now_ms), raised
        self._execute(self.STORE_KEY, (request.key, calls, fence, rejected))
        return answer

    def _act(self, request: Request, digest: str, now_ms: int) -> SinkAnswer:
        text = rfc8785.dumps(request.payload).decode()
        row = self._execute(self.STORE_EFFECT, (request.key, digest, text, request.token, now_ms)).lastrowid
        return SinkAnswer(Verdict.DONE, f"r-{row}")

    def _lookup(self, now_ms: int, key: str, digest: str, token: int) -> SinkAnswer:
        account = self._account(key)
        if self._is_stale(account, token):
            return STALE
        fence = self._raised(account, token)
        if fence != account.fence:
            self._execute(self.STORE_KEY, (key, account.calls, fence, account.rejected))
        if account.digest == digest:
            return SinkAnswer(Verdict.DONE, account.receipt)
        if not account.receipt:
            return ABSENT
        # Without binding a key may have several effects, of several payloads.
        found = self._execute(self.FIND_EFFECT, (key, digest)).fetchone()
        return CONFLICT if found is None else SinkAnswer(Verdict.DONE, found[0])

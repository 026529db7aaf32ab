"""The ledger's leases: claim, renew, release, and the reaping of what was left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from impl.protocol import Answer, Overdue, Request
from impl.sqlite.book import ENDED, LEASE_GONE, NO_INTENT, OK, Book, refused
from impl.sqlite.errors import BusyStoreError, UnavailableStoreError
from impl.sqlite.rows import PERMITS_OF_OTHERS, UNSETTLED_ENTRIES, Entry
from model.words import Kind, State

NO_PERMIT: Final = refused("no permit left")
OUTRUN: Final = refused("another was granted the key meanwhile")


class Leases(Book):
    """Who may act on a key, and until when."""

    RAISE_HIGHEST: ClassVar[str] = "UPDATE intents SET token_high = ? WHERE key = ?"
    STORE_LEASE: ClassVar[str] = "INSERT OR REPLACE INTO leases (key, owner, token, expiry_ms) VALUES (?, ?, ?, ?)"

    COUNT_PERMITS: ClassVar[str] = PERMITS_OF_OTHERS
    """Counted in the transaction that takes the permit, or two would take the last one."""
    TAKE_PERMIT: ClassVar[str] = "INSERT OR REPLACE INTO permits (key) VALUES (?)"

    # -- claim, renew, release --------------------------------------------------------------------------------

    def claim(self, key: str) -> Answer | Request:
        """Grant the lease with a token higher than any before, or refuse.

        A Request where the sink must first refuse tokens older than the request's: see ``take_over``.
        """
        return self._operate(self._claim, key, 0)

    def take_over(self, key: str, token: int) -> Answer:
        """Grant the lease with ``token``, of which the sink knows, unless somebody else was faster."""
        answer = self._operate(self._claim, key, token)
        return OUTRUN if isinstance(answer, Request) else answer

    def _claim(self, now_ms: int, key: str, known_to_sink: int) -> Answer | Request:
        entry = self._entry(key)
        if entry is None:
            return NO_INTENT
        if self._has_ended(entry, "claim") and not self._reopens(entry):
            return ENDED
        if self._bars_claim(entry, now_ms):
            return refused("held by another")
        if self._is_limited and not self._permits_suffice(self._permits_of_others(key, now_ms)):
            return NO_PERMIT
        token = self._next_token(entry)
        if token != known_to_sink and self._must_tell_sink(entry):
            return self._request(entry, token)
        self._execute(self.RAISE_HIGHEST, (token, key))
        self._doubt_lost_attempt(entry)
        if self._is_limited:
            self._take_permit(key)
        self._lease(key, token, now_ms)
        return Answer(Kind.OK, token=token)

    def _permits_of_others(self, key: str, now_ms: int) -> int:
        count: int = self._look(self.COUNT_PERMITS, (key, now_ms))[0]
        return count

    def _take_permit(self, key: str) -> None:
        """A key that is taken over keeps the permit of its former owner."""
        self._execute(self.TAKE_PERMIT, (key,))

    def _doubt_lost_attempt(self, entry: Entry) -> None:
        """An attempt whose worker lost the lease may have had its effect."""
        if entry.state == State.DISPATCHING:
            self._execute(self.DOUBT, (entry.key,))

    def _lease(self, key: str, token: int, now_ms: int) -> None:
        self._execute(self.STORE_LEASE, (key, self.site.worker, token, self._lease_expiry_ms(now_ms)))

    def renew(self, key: str, token: int) -> Answer:
        """Extend a lease that is still valid; one that ran out must be claimed anew."""
        return self._operate(self._renew, key, token)

    def _renew(self, now_ms: int, key: str, token: int) -> Answer:
        entry = self._entry(key)
        if entry is None or not entry.lease_token or not self._holds(entry, token, now_ms, "renew"):
            return LEASE_GONE
        self._lease(key, token, now_ms)
        return OK

    def release(self, key: str, token: int) -> Answer:
        """Give a lease back, unless a dispatch is in flight under it."""
        return self._operate(self._release, key, token)

    def _release(self, now_ms: int, key: str, token: int) -> Answer:
        entry = self._entry(key)
        if entry is None or not entry.lease_token or not self._holds(entry, token, now_ms, "release"):
            return LEASE_GONE
        if entry.state == State.DISPATCHING:
            return refused("a dispatch is in flight")
        self._end_lease(key, "release")
        return OK

    # -- the checkpoint's guard -------------------------------------------------------------------------------

    def while_newest(self, key: str, token: int, work: Callable[[], Answer]) -> Answer:
        """What ``work`` answers, run under the write lock, so that no newer token is granted before it is done."""
        done: list[Answer] = []

        def noted() -> Answer:
            done.append(work())
            return done[0]

        answer = self._operate(self._while_newest, key, token, noted)
        # The ledger has nothing to commit: what was done stands, even if a reader keeps the lock from being given back.
        return done[0] if done else answer

    def _while_newest(self, now_ms: int, key: str, token: int, work: Callable[[], Answer]) -> Answer:
        entry = self._entry(key)
        if entry is None:
            return NO_INTENT
        return work() if self._may_checkpoint(entry, token) else LEASE_GONE

    # -- reaping ----------------------------------------------------------------------------------------------

    def overdue(self) -> tuple[Overdue, ...]:
        """What looks overdue now; nothing while it cannot be seen, as the lock is taken or the storage fails."""
        try:
            return self._transact(self._find_overdue)
        except (BusyStoreError, UnavailableStoreError):
            return ()

    def _find_overdue(self, now_ms: int) -> tuple[Overdue, ...]:
        entries = map(Entry._make, self._execute(UNSETTLED_ENTRIES).fetchall())
        return tuple(Overdue(e.key, e.token_high, e.lease_expiry_ms) for e in entries if self._is_overdue(e, now_ms))

    def reap(self, seen: tuple[Overdue, ...]) -> Answer:
        """Clear what was seen overdue and still is; ``count`` says how many that were."""
        return self._operate(self._reap, seen)

    def _reap(self, now_ms: int, seen: tuple[Overdue, ...]) -> Answer:
        return Answer(Kind.OK, count=sum(self._reap_one(now_ms, one) for one in seen))

    def _reap_one(self, now_ms: int, seen: Overdue) -> bool:
        entry = self._entry(seen.key)
        if entry is None or not self._is_as_seen(entry, seen) or not self._is_overdue(entry, now_ms):
            return False
        if entry.lease_token:
            self._end_lease(entry.key, "reap")
        self._doubt_lost_attempt(entry)
        if entry.state == State.PENDING and self._is_past_deadline(entry, now_ms, "reap"):
            self._execute(self.END, (State.EXPIRED.value, entry.key))
        return True

"""The SQLite dispatcher: ledger, sink and checkpoint put together for one incarnation of one process."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from impl.attempts import AttemptRunner
from impl.protocol import Answer, Decision, Json, NoAnswerError, Overdue, Permit, Request, SinkAnswer, Site, Verdict
from impl.runner import Draws, OperationRunner, Policy
from impl.runner.needs import AnySink
from impl.sqlite.book import NO_ANSWER
from impl.sqlite.checkpoint import CheckpointFile
from impl.sqlite.errors import UnavailableStoreError
from impl.sqlite.ledger import Ledger
from impl.sqlite.store import make_folder
from model.words import Capability, Kind

_ACTED = {Verdict.DONE: Kind.OK, Verdict.REPLAYED: Kind.REPLAYED}
_DID_NOT_ACT = frozenset({Verdict.CONFLICT, Verdict.STALE, Verdict.LATE, Verdict.TRANSIENT, Verdict.PERMANENT})


class SqliteDispatcher:
    """A dispatcher with every capability. Opening it raises a StoreError where its files cannot be used."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset(Capability)

    ledger_class: ClassVar[type[Ledger]] = Ledger
    checkpoint_class: ClassVar[type[CheckpointFile]] = CheckpointFile
    runner_class: ClassVar[type[OperationRunner]] = OperationRunner
    after_silence: ClassVar[Answer] = NO_ANSWER
    """What a send without an answer means: neither success nor failure."""

    def __init__(self, site: Site) -> None:
        self.site = site
        folder = site.folder / "checkpoint"
        if make_folder(folder):
            self._keep_folder(folder)
        self.ledger = self.ledger_class(site)
        self.checkpoint_file = self.checkpoint_class(folder, site.files)

    def _keep_folder(self, folder: Path) -> None:
        """The folder's own name must be durable before anything in it can be. Raises UnavailableStoreError."""
        try:
            self.site.files.sync_folder(folder.parent)
        except OSError as error:
            with suppress(OSError):
                folder.rmdir()  # or the next to start would find it, and take it for durable
            reason = f"cannot be made durable ({error})"
            raise UnavailableStoreError(folder, reason, "mend the storage, and start again") from error

    def close(self) -> None:
        """Let go of the ledger; the sink belongs to the site."""
        self.ledger.close()

    # -- clients ----------------------------------------------------------------------------------------------

    def submit(self, key: str, payload: Json, deadline_ms: int | None = None) -> Answer:
        """Store an intent durably. OK, REPLAYED (same payload, with the receipt if any) or REFUSED (another).

        ``deadline_ms`` brings the deadline of a new intent forward to an instant of its client's.
        """
        return self.ledger.submit(key, payload, deadline_ms)

    def decide(self, decision: Decision) -> Answer:
        """Store an approver's decision. UNKNOWN where a denial may come too late."""
        return self.ledger.decide(decision)

    def policy_revision(self) -> int:
        """The policy revision in force. Raises a StoreError."""
        return self.ledger.policy_revision()

    def set_policy(self, revision: int) -> Answer:
        """Put a policy revision into force; ``count`` says which."""
        return self.ledger.set_policy(revision)

    def cancel(self, key: str) -> Answer:
        """Cancel for good: OK, REPLAYED, REFUSED, or UNKNOWN while an effect may be under way."""
        return self.ledger.cancel(key)

    # -- leases -----------------------------------------------------------------------------------------------

    def claim(self, key: str) -> Answer:
        """Ask for the lease. OK with a token that is higher than any before, or REFUSED."""
        answer = self.ledger.claim(key)
        return answer if isinstance(answer, Answer) else self._take_over(key, answer)

    def _take_over(self, key: str, request: Request) -> Answer:
        """Claim what another may have left in flight: the sink hears of the new token before anybody holds it."""
        try:
            # The question alone fences older tokens off, whatever its answer is.
            self.site.sink.lookup(request.key, request.payload, request.token)
        except NoAnswerError:
            return NO_ANSWER
        return self.ledger.take_over(key, request.token)

    def renew(self, key: str, token: int) -> Answer:
        """Extend a valid lease by the site's lease time."""
        return self.ledger.renew(key, token)

    def release(self, key: str, token: int) -> Answer:
        """Give a lease back."""
        return self.ledger.release(key, token)

    def overdue(self) -> tuple[Overdue, ...]:
        """Leases and intents that look overdue now."""
        return self.ledger.overdue()

    def reap(self, seen: tuple[Overdue, ...]) -> Answer:
        """Clear what was seen overdue and still is; ``count`` says how many that were."""
        return self.ledger.reap(seen)

    # -- dispatch ---------------------------------------------------------------------------------------------

    def dispatch(self, key: str, token: int) -> Answer:
        """Authorise and apply. OK or REPLAYED with the receipt, ERROR, UNKNOWN, or REFUSED with nothing sent."""
        permit = self.authorise(key, token)
        return permit if isinstance(permit, Answer) else self.apply(permit)

    def authorise(self, key: str, token: int) -> Permit | Answer:
        """The right to send once, counted and recorded, or the answer that the worker gets instead."""
        return self.ledger.authorise(key, token)

    def apply(self, permit: Permit) -> Answer:
        """Send what was authorised, once, and say what the sink said."""
        try:
            answer = self.site.sink.apply(permit.request)
        except NoAnswerError:
            return self.after_silence
        return self.understood(answer)

    def understood(self, answer: SinkAnswer) -> Answer:
        """What a sink's answer says about the effect: there is one, there is none, or nobody knows."""
        kind = _ACTED.get(answer.verdict)
        if kind is not None and answer.receipt:
            return Answer(kind, receipt=answer.receipt)
        if answer.verdict in _DID_NOT_ACT:
            return Answer(Kind.ERROR, answer.verdict.value)
        # No receipt and no clear "no": nothing that could be relied on.
        return Answer(Kind.UNKNOWN, f"unclear answer {answer.verdict.value}")

    def acknowledge(self, key: str, token: int, answer: Answer) -> Answer:
        """Record what the dispatch answered."""
        return self.ledger.acknowledge(key, token, answer)

    def reconcile(self, key: str, token: int) -> Answer:
        """Ask the sink what became of the key, and settle it: REPLAYED with the receipt, OK where there is none."""
        asked = self.ledger.doubtful(key, token)
        if isinstance(asked, Answer):
            return asked
        try:
            found = self.site.sink.lookup(asked.key, asked.payload, token)
        except NoAnswerError:
            return NO_ANSWER
        return self.ledger.reconcile(key, token, found)

    def runner(
        self,
        sink: AnySink,
        policy: Policy | None = None,
        *,
        draws: Draws,
        attempts: AttemptRunner | None = None,
    ) -> OperationRunner:
        """A runner of this dispatcher's operations, which sends to ``sink``.

        Raises PolicyError, or CallNotFitError where the sink does not fit the contract of the attempt's timeout.
        """
        return self.runner_class(self, sink, policy, draws=draws, attempts=attempts)

    # -- the checkpoint ---------------------------------------------------------------------------------------

    def checkpoint(self, key: str, token: int, receipt: str) -> Answer:
        """Write the worker's progress down. Raises DamagedCheckpointError where the file cannot be trusted."""
        return self.ledger.while_newest(key, token, lambda: self.checkpoint_file.record(key, token, receipt))

"""One attempt: authorised by the ledger, sent once under a lease, ended in time, and recorded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from impl.attempts import Attempt
from impl.protocol import Answer, Permit, Request, SinkAnswer, Verdict
from impl.runner.ending import Standing
from impl.runner.leasing import LeasedRunner
from impl.runner.run import Run
from model.contracts import AttemptTimeout, Checkpoint, Retry
from model.words import IN_FLIGHT, TERMINAL, Kind

_FINAL = frozenset({Verdict.PERMANENT.value, Verdict.CONFLICT.value})
"""Reasons after which no attempt can succeed."""


class AttemptingRunner(LeasedRunner):
    """Sends under a lease, as often as it is told to and the ledger allows."""

    async def _attempted(self, run: Run) -> Answer | None:
        """Ask the ledger and send once. The answer that ends the run, or None if it goes on."""
        if await self._must_not_resend(run):
            return Answer(Kind.UNKNOWN, "an earlier send is open, and must not be repeated")
        permit = await self._ask(partial(self.ledger.authorise, run.key, run.token))
        if not isinstance(permit, Permit):
            return permit
        if self.contracts.checkpoint is Checkpoint.BEFORE_EFFECT:
            await self._write_down(run, "")
        attempt = await self._send(run, permit)
        answer = self._understood(run, attempt)
        recorded = await self._ask(partial(self.ledger.acknowledge, run.key, run.token, answer))
        run.reason = answer.reason or str(answer.kind)
        if recorded.kind is Kind.REFUSED and recorded.reason == "busy":
            return Answer(Kind.UNKNOWN, "the ledger was busy, and what came of the send is not recorded")
        if answer.receipt or not self._goes_on(run, attempt, answer):
            return answer
        standing = await self._ask(partial(self.ledger.standing, run.key))
        return answer if isinstance(standing, Standing) and standing.state in TERMINAL else None

    async def _send(self, run: Run, permit: Permit) -> Attempt:
        limit_ms = self._limit_ms(permit.request)
        if limit_ms <= 0:
            return Attempt(Kind.OK, SinkAnswer(Verdict.LATE))  # what the sink would say
        run.sent += 1
        before = len(self.attempts.lingering)
        run.may_be_woken = run.is_sending = True
        call = self._in_time(run, permit.request, self._call(permit.request))
        attempt = await self._tried(call, limit_ms)
        run.may_be_woken = run.is_sending = False
        run.lingers = run.lingers or len(self.attempts.lingering) > before
        if attempt.interrupted:
            self._heed(run)
        return attempt

    async def _tried(self, call: Callable[[], Any], limit_ms: float) -> Attempt:
        """One attempt in its isolation, which is what leaves the loop free to beat."""
        return await self.attempts.attempt(call, timeout_ms=limit_ms)

    def _call(self, request: Request) -> Callable[[], Any]:
        """The call of one attempt."""

        async def apply() -> Any:
            return await self.sink.apply(request)

        def apply_plainly() -> Any:
            return self.sink.apply(request)

        return apply if self.contracts.attempt_timeout is AttemptTimeout.COOPERATIVE else apply_plainly

    def _in_time(self, run: Run, request: Request, call: Callable[[], Any]) -> Callable[[], Any]:
        """A call that looks at the time again right before it sends, for much may have come between.

        Past the deadline it sends nothing; nor where the lease has gone, as another may act by now.
        """

        def instead() -> SinkAnswer | None:
            if not self._is_leased(run):
                return SinkAnswer(Verdict.TRANSIENT)
            is_late = request.not_after_ms is not None and self.clock.now_ms() >= request.not_after_ms
            return SinkAnswer(Verdict.LATE) if is_late else None

        async def apply() -> Any:
            return instead() or await call()

        def apply_plainly() -> Any:
            return instead() or call()

        return apply if self.contracts.attempt_timeout is AttemptTimeout.COOPERATIVE else apply_plainly

    def _limit_ms(self, request: Request) -> float:
        """How long an attempt may take: never beyond the deadline."""
        if request.not_after_ms is None:
            return self.policy.attempt_ms
        return min(self.policy.attempt_ms, request.not_after_ms - self.clock.now_ms())

    def _understood(self, run: Run, attempt: Attempt) -> Answer:
        """What an attempt says about the effect; all but a receipt and a clear "no" leaves it open."""
        run.retry_after_ms = 0
        if attempt.kind is not Kind.OK:
            return Answer(Kind.UNKNOWN, attempt.reason)
        if not isinstance(attempt.value, SinkAnswer):
            return Answer(Kind.UNKNOWN, f"a malformed answer of type {type(attempt.value).__name__}")
        run.retry_after_ms = attempt.value.retry_after_ms or 0
        return self.dispatcher.understood(attempt.value)

    async def _must_not_resend(self, run: Run) -> bool:
        if run.resends:
            return False
        standing = await self._ask(partial(self.ledger.standing, run.key))
        return isinstance(standing, Answer) or standing.state in IN_FLIGHT

    def _goes_on(self, run: Run, attempt: Attempt, answer: Answer) -> bool:
        """Whether the retry policy allows another attempt after this; the ledger may still refuse it."""
        if not run.resends and answer.kind is Kind.UNKNOWN:
            return False
        if self.contracts.retry is Retry.EVERY_ERROR:
            return True
        if attempt.kind is Kind.OK and answer.kind is Kind.UNKNOWN:
            return False  # it answered, and nobody understands what
        run.is_final = answer.reason in _FINAL
        return attempt.error is None and not run.is_final and answer.reason != Verdict.STALE.value

    async def _write_down(self, run: Run, receipt: str) -> None:
        """The worker's own progress; where another has a newer token it is no longer for this one to write."""
        await self._ask(partial(self.dispatcher.checkpoint, run.key, run.token, receipt))

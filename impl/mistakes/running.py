"""Mistakes of whoever runs an operation: timeouts, back-off, deadline, cancellation, and what still runs after them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from attrs import evolve

from impl.attempts import Attempt, AttemptRunner
from impl.mistakes.registry import mistake
from impl.protocol import Answer, Permit, Request, SinkAnswer, Verdict
from impl.runner import Ending, OperationRunner
from impl.runner.run import Run
from model.words import Kind, State

HERE = "attempts"
"""The engine that alone runs a runner."""


@mistake(
    "M010",
    "K01",
    "A lease is renewed when it has lasted as long as it may, and not before.",
    breaks="lease-kept",
    shown_by=HERE,
)
class BeatsOnceALease(OperationRunner):
    """The renewal comes at the very instant from which on anybody may have the key."""

    def _beat_ms(self) -> float:
        return self.lease_ms


@mistake(
    "M013",
    "K01",
    "A call that blocks is made in the thread of the loop that is to beat meanwhile.",
    breaks="lease-kept",
    shown_by=HERE,
    under="attempt_timeout=thread",
)
class BeatSharesTheCallsThread(OperationRunner):
    """While the call works nobody renews, and nobody ends it either."""

    async def _tried(self, call: Callable[[], Any], limit_ms: float) -> Attempt:
        async def here() -> Any:
            return call()

        return await AttemptRunner(grace_ms=self.policy.grace_ms).attempt(here, timeout_ms=limit_ms)


@mistake("M301", "K13", "A timeout of an attempt is recorded as a failure.", breaks="unknown-kept", shown_by=HERE)
class TimeoutIsFailure(OperationRunner):
    """No answer is taken for no."""

    def _understood(self, run: Run, attempt: Attempt) -> Answer:
        answer = super()._understood(run, attempt)
        return Answer(Kind.ERROR, Verdict.PERMANENT.value) if answer.kind is Kind.UNKNOWN else answer


@mistake(
    "M302", "K14", "The transport sends once more when a connection breaks.", breaks="bounded-attempts", shown_by=HERE
)
class TransportSendsAgain(OperationRunner):
    """A layer below that means well, and counts nothing."""

    def _call(self, request: Request) -> Callable[[], Any]:
        call = super()._call(request)

        async def twice() -> Any:
            try:
                return await call()
            except ConnectionError:
                return await call()

        return twice


@mistake(
    "M303",
    "K14",
    "A 429 is answered by sending again under the same permit.",
    breaks="bounded-attempts",
    shown_by=HERE,
)
class BusyIsNotCounted(OperationRunner):
    """What the sink turned away does not count, the runner thinks."""

    async def _send(self, run: Run, permit: Permit) -> Attempt:
        attempt = await super()._send(run, permit)
        if isinstance(attempt.value, SinkAnswer) and attempt.value.verdict is Verdict.TRANSIENT:
            return await super()._send(run, permit)
        return attempt


@mistake("M304", "K15", "A back-off is slept to its end, whenever the deadline is.", breaks="conforms", shown_by=HERE)
class SleepsPastDeadline(OperationRunner):
    """Somebody is told long after the deadline that it has passed."""

    async def _wait_ms(self, run: Run) -> float:
        return self.policy.wait_ms(run.sent, self.draws, run.retry_after_ms)


@mistake("M305", "K15", "The time is not looked at again right before a send.", breaks="deadline-kept", shown_by=HERE)
class SendsWhateverTheTime(OperationRunner):
    """Between the permit and the send a machine may sleep."""

    def _in_time(self, run: Run, request: Request, call: Callable[[], Any]) -> Callable[[], Any]:
        return call


@mistake("M306", "K15", "The end of one attempt's time is read as the deadline.", breaks="conforms", shown_by=HERE)
class TimeoutIsDeadline(OperationRunner):
    """It gives up with time left."""

    def _goes_on(self, run: Run, attempt: Attempt, answer: Answer) -> bool:
        return super()._goes_on(run, attempt, answer) and not attempt.reason.startswith("no answer within")


@mistake(
    "M307",
    "K16",
    "A cancelled task is taken for a failed attempt, and tried again.",
    breaks="conforms",
    shown_by=HERE,
)
class InterruptionIsRetried(OperationRunner):
    """The worker cannot be stopped."""

    def _heed(self, run: Run) -> None:
        while run.task.cancelling() > run.before:
            run.task.uncancel()


@mistake("M308", "K16", "A cancellation is kept in memory alone.", breaks="cancel-honoured", shown_by=HERE)
class CancelledInMemory(OperationRunner):
    """Whoever comes next knows nothing of it."""

    async def cancel(self, key: str) -> Ending:
        """Stop whoever is at work here."""
        run = self._runs.get(key)
        if run is not None:
            run.task.cancel()
        return Ending(Kind.ERROR, State.CANCELLED, "cancelled")


@mistake(
    "M309",
    "K16",
    "Whoever cancels is told that nothing has happened, before anybody knows.",
    breaks="cancel-honoured",
    shown_by=HERE,
)
class CancelledTooSoon(OperationRunner):
    """The effect may be there already."""

    async def cancel(self, key: str) -> Ending:
        """Cancel, and say so at once."""
        self.ledger.cancel(key)
        run = self._runs.get(key)
        if run is not None:
            self._wake(run)
        return Ending(Kind.ERROR, State.CANCELLED, "cancelled")


@mistake(
    "M310",
    "K17",
    "The sink is asked what became of a send that may still be on its way.",
    breaks="cancel-honoured",
    shown_by=HERE,
)
class AsksWithoutFencing(OperationRunner):
    """A "no" is true when it is said, and not a moment later."""

    async def _fence(self, run: Run) -> Answer | None:
        return None


@mistake("M311", "K14", "What the sink says of when to come back is not heard.", breaks="conforms", shown_by=HERE)
class RetryAfterIgnored(OperationRunner):
    """It comes back too soon, and is turned away again."""

    async def _wait_ms(self, run: Run) -> float:
        run.retry_after_ms = 0
        return await super()._wait_ms(run)


@mistake("M312", "K16", "The call is shielded from its interruption.", breaks="conforms", shown_by=HERE)
class CallIsShielded(OperationRunner):
    """It goes on behind the runner's back, and no clean-up runs."""

    def _call(self, request: Request) -> Callable[[], Any]:
        call = super()._call(request)

        async def shielded() -> Any:
            return await asyncio.shield(call())

        return shielded


@mistake("M313", "K13", "Each attempt is sent under a key of its own.", breaks="unknown-kept", shown_by=HERE)
class NewKeyEachTime(OperationRunner):
    """The sink cannot know that it is the same operation."""

    def _call(self, request: Request) -> Callable[[], Any]:
        return super()._call(evolve(request, key=f"{request.key}/{self.attempts.started}"))


@mistake("M314", "K15", "An attempt may take its time beyond the deadline.", breaks="conforms", shown_by=HERE)
class AttemptPastDeadline(OperationRunner):
    """Its limit is not cut to what is left."""

    def _limit_ms(self, request: Request) -> float:
        return self.policy.attempt_ms


@mistake("M315", "K08", "A worker that is told to end keeps its lease.", breaks="conforms", shown_by=HERE)
class LeaseKeptOnLeaving(OperationRunner):
    """Everybody else waits until it has run out."""

    async def _leave_if_interrupted(self, run: Run) -> None:
        self._heed(run)
        if run.is_interrupted:
            raise asyncio.CancelledError


@mistake(
    "M316", "K13", "Where nobody knows what became of a send, nobody is asked.", breaks="conforms", shown_by=HERE
)
class DoubtIsLeft(OperationRunner):
    """An intent stays unknown that the sink could tell about."""

    async def _settle_doubt(self, run: Run) -> None:
        return


@mistake("M317", "K16", "A cancellation does not wake who waits.", breaks="conforms", shown_by=HERE)
class CancelWaits(OperationRunner):
    """The result is preferred, and the cancellation heard only then."""

    def _wake(self, run: Run) -> None:
        run.is_cancelled = True


@mistake("M318", "K14", "A 400 is tried again while an earlier send is in doubt.", breaks="conforms", shown_by=HERE)
class RefusalIsRetriedInDoubt(OperationRunner):
    """No is taken for not yet, if something else is not known either."""

    def _goes_on(self, run: Run, attempt: Attempt, answer: Answer) -> bool:
        return super()._goes_on(run, attempt, answer) or run.is_final

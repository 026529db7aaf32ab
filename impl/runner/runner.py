"""The runner: attempt, wait, attempt again, until the ledger says that it is over.

Each decision that must hold across restarts is the ledger's: whether an attempt may start (deadline, budget, approval,
cancellation, lease) is asked in the transaction that counts it, right before the send. The runner adds what a ledger
cannot do: it ends an attempt in time, waits, interrupts, and asks the sink when nobody knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from attrs import define, field

from impl.attempts import Attempt, AttemptRunner, check_call
from impl.protocol import Answer, Clock, Permit, Request, SinkAnswer, Verdict
from impl.runner.ending import Ending, Standing
from impl.runner.needs import AnySink, Dispatcher
from impl.runner.policy import Draws, Policy, PolicyError
from model.contracts import AttemptTimeout, Checkpoint, Fencing, Retry
from model.words import IN_FLIGHT, TERMINAL, Kind, State

T = TypeVar("T")
BUSY_TRIES = 10
"""How often the ledger is asked again while another process holds its lock."""


_FINAL = frozenset({Verdict.PERMANENT.value, Verdict.CONFLICT.value})
"""Reasons after which no attempt can succeed."""


class AlreadyRunningError(RuntimeError):
    """A key was given to a runner that is at work on it."""


@define
class Run:
    """One operation under way."""

    key: str
    task: asyncio.Task[Any]
    resends: bool = True
    """Whether what nobody answered may be sent again."""
    token: int = 0
    sent: int = 0
    found: SinkAnswer | None = None
    """What the sink said when the lease was taken over from somebody who had left something in flight."""
    is_cancelled: bool = False
    """Whether a client has cancelled, which the ledger has."""
    is_final: bool = False
    """Whether the sink has refused the operation for good."""
    is_interrupted: bool = False
    """Whether this very task was cancelled: the worker is to end, and the intent lives on."""
    may_be_woken: bool = False
    """Whether it waits for something that a cancellation makes pointless."""
    woken: int = 0
    """How many of the task's cancellations are ours."""
    before: int = 0
    ended: asyncio.Future[Ending] | None = None
    reason: str = ""
    retry_after_ms: float = 0
    lingers: bool = field(default=False)
    """Whether an attempt could not be ended, and may still act."""


class OperationRunner:
    """Runs operations of one dispatcher against one sink, any number of keys side by side, one run a key.

    ``draws`` is where jitter comes from. Raises PolicyError where an attempt could outlive its lease,
    and CallNotFitError where the sink's methods are plain and should be coroutines, or the other way round.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        sink: AnySink,
        policy: Policy | None = None,
        *,
        draws: Draws,
        attempts: AttemptRunner | None = None,
    ) -> None:
        self.policy = policy or Policy()
        self.dispatcher, self.ledger, self.sink = dispatcher, dispatcher.ledger, sink
        site = dispatcher.site
        if self.policy.attempt_ms >= site.lease_ms:
            raise PolicyError(
                f"attempt_ms is {self.policy.attempt_ms} and a lease lasts {site.lease_ms} ms: another worker could "
                "overtake an attempt; make attempts shorter, or leases longer"
            )
        self.contracts = site.contracts
        self.clock: Clock = site.clock
        self.draws = draws
        self.attempts = attempts or AttemptRunner(self.contracts.attempt_timeout, grace_ms=self.policy.grace_ms)
        for call in (sink.apply, sink.lookup):
            check_call(call, self.contracts.attempt_timeout)
        self._runs: dict[str, Run] = {}

    # -- a run ------------------------------------------------------------------------------------------------

    async def run(self, key: str, *, resends: bool = True) -> Ending:
        """Take a submitted intent to an end, or as far as it goes now.

        Without ``resends`` nothing is sent while it is open what became of an earlier send: that is for a sink which
        does not bind the key to one effect, and would act again.

        If the task is cancelled, what it waits for is interrupted, its clean-up runs, what is not known is recorded as
        such, the lease is given back, and the cancellation goes on; another run takes the operation up. Raises
        AlreadyRunningError, and what the dispatcher's files raise.
        """
        if key in self._runs:
            raise AlreadyRunningError(f"{key!r} is under way in this runner; await that run, or cancel the key")
        task = asyncio.current_task()
        assert task is not None
        run = self._runs[key] = Run(key, task, resends, before=task.cancelling())
        run.ended = asyncio.get_running_loop().create_future()
        try:
            ending = await self._carried_out(run)
            run.ended.set_result(ending)
        finally:
            del self._runs[key]
            run.ended.cancel()
        return ending

    async def cancel(self, key: str) -> Ending:
        """Cancel for good: durable first, then whoever runs the key here is interrupted.

        Either no effect starts any more, or there was one and the ending says so; UNKNOWN while neither is known.
        """
        answer = await self._ask(partial(self.ledger.cancel, key), insists=False)
        run = self._runs.get(key)
        if run is None or answer.kind is Kind.REFUSED:
            return await self._as_it_stands(key, answer.reason)
        self._wake(run)
        ended = run.ended
        assert ended is not None
        await asyncio.wait({ended})
        return await self._as_it_stands(key, answer.reason) if ended.cancelled() else ended.result()

    def _wake(self, run: Run) -> None:
        """Let a run see that it was cancelled."""
        run.is_cancelled = True
        if run.may_be_woken:
            run.may_be_woken = False
            run.woken += 1
            run.task.cancel()

    async def _carried_out(self, run: Run) -> Ending:
        refusal = await self._lease(run)
        if refusal is None:
            await self._take_up(run)
        while refusal is None:
            refusal = await self._attempted(run)
            await self._leave_if_interrupted(run)
            if refusal is None and not run.is_cancelled:
                await self._back_off(run)
                await self._leave_if_interrupted(run)
            if refusal is None:
                refusal = await self._keep_lease(run)
        return await self._ended(run, refusal)

    async def _leave_if_interrupted(self, run: Run) -> None:
        """If the worker is to end, give the lease back, so that another need not wait, and let the cancellation go on."""
        self._heed(run)
        if run.is_interrupted:
            await self._ask(partial(self.ledger.release, run.key, run.token))
            raise asyncio.CancelledError

    # -- the lease --------------------------------------------------------------------------------------------

    async def _lease(self, run: Run) -> Answer | None:
        """Claim the key. The answer that forbids it, or None."""
        answer = await self._ask(partial(self.ledger.claim, run.key))
        if isinstance(answer, Request):
            found = await self._look_up(run, answer)
            if found is None:
                return Answer(Kind.UNKNOWN, "what another left in flight is not known")
            run.found = found
            answer = await self._ask(partial(self.ledger.take_over, run.key, answer.token))
        if answer.kind is not Kind.OK:
            return answer
        run.token = answer.token
        return None

    async def _keep_lease(self, run: Run) -> Answer | None:
        """Before another attempt: a lease that lasts as long as it may, and no older attempt that could still act."""
        if run.lingers and self.contracts.fencing is Fencing.SINK_AND_LEDGER:
            refusal = await self._fence(run)
        else:
            answer = await self._ask(partial(self.ledger.renew, run.key, run.token))
            if answer.kind is Kind.OK:
                return None
            refusal = await self._lease(run)
        if refusal is None:
            await self._take_up(run)
        return refusal

    async def _fence(self, run: Run) -> Answer | None:
        """Take the lease anew: the sink hears of the newer token, and refuses what may still be on its way."""
        await self._ask(partial(self.ledger.release, run.key, run.token))
        refusal = await self._lease(run)
        run.lingers = run.lingers and refusal is not None
        return refusal

    async def _take_up(self, run: Run) -> None:
        """Settle what an earlier run has left in doubt, before anything is sent again."""
        asked = await self._ask(partial(self.ledger.doubtful, run.key, run.token))
        if isinstance(asked, Request):
            await self._settle(run, asked)
        await self._leave_if_interrupted(run)

    # -- one attempt ------------------------------------------------------------------------------------------

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
        run.may_be_woken = True
        attempt = await self.attempts.attempt(self._call(permit.request), timeout_ms=limit_ms)
        run.may_be_woken = False
        run.lingers = run.lingers or len(self.attempts.lingering) > before
        if attempt.interrupted:
            self._heed(run)
        return attempt

    def _call(self, request: Request) -> Callable[[], Any]:
        """The call of one attempt. It looks at the time again right before it sends: much may have come between."""

        def is_late() -> bool:
            return request.not_after_ms is not None and self.clock.now_ms() >= request.not_after_ms

        async def apply() -> Any:
            return SinkAnswer(Verdict.LATE) if is_late() else await self.sink.apply(request)

        def apply_plainly() -> Any:
            return SinkAnswer(Verdict.LATE) if is_late() else self.sink.apply(request)

        return apply if self.contracts.attempt_timeout is AttemptTimeout.COOPERATIVE else apply_plainly

    def _limit_ms(self, request: Request) -> float:
        """How long an attempt may take: never beyond the deadline."""
        if request.not_after_ms is None:
            return self.policy.attempt_ms
        return min(self.policy.attempt_ms, request.not_after_ms - self.clock.now_ms())

    def _heed(self, run: Run) -> None:
        """Tell our own cancellations of the task, which end here, from those of others, which must go on."""
        while run.woken and run.task.cancelling() > run.before:
            run.woken -= 1
            run.task.uncancel()
        run.is_interrupted = run.is_interrupted or run.task.cancelling() > run.before

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

    # -- between two ------------------------------------------------------------------------------------------

    async def _back_off(self, run: Run) -> None:
        """Wait before the next attempt, but not beyond the deadline."""
        wait_ms = await self._wait_ms(run)
        if wait_ms <= 0:
            return
        run.may_be_woken = True
        try:
            await asyncio.sleep(wait_ms / 1000)
        except asyncio.CancelledError:
            self._heed(run)
        run.may_be_woken = False

    async def _wait_ms(self, run: Run) -> float:
        wait_ms = self.policy.wait_ms(run.sent, self.draws, run.retry_after_ms)
        standing = await self._ask(partial(self.ledger.standing, run.key))
        if isinstance(standing, Answer) or standing.deadline_ms is None:
            return wait_ms
        return min(wait_ms, standing.deadline_ms - self.clock.now_ms())

    # -- the end ----------------------------------------------------------------------------------------------

    async def _ended(self, run: Run, last: Answer) -> Ending:
        """What became of it, after the sink was asked wherever that is open."""
        await self._leave_if_interrupted(run)
        run.reason = last.reason or run.reason
        if last.receipt:
            if self.contracts.checkpoint is Checkpoint.AFTER_RECEIPT:
                await self._write_down(run, last.receipt)
            return Ending(last.kind, State.COMPLETED, receipt=last.receipt, sent=run.sent)
        if run.token:
            await self._settle_doubt(run)
            await self._leave_if_interrupted(run)
            await self._close(run)
        ending = await self._as_it_stands(run.key, run.reason, run.sent)
        if ending.receipt and self.contracts.checkpoint is Checkpoint.AFTER_RECEIPT:
            await self._write_down(run, ending.receipt)
        return ending

    async def _write_down(self, run: Run, receipt: str) -> None:
        """The worker's own progress; where another has a newer token it is no longer for this one to write."""
        await self._ask(partial(self.dispatcher.checkpoint, run.key, run.token, receipt))

    async def _settle_doubt(self, run: Run) -> None:
        """Ask the sink about what was sent and not answered; older tokens are refused before it is asked."""
        standing = await self._ask(partial(self.ledger.standing, run.key))
        if isinstance(standing, Answer) or standing.state not in IN_FLIGHT:
            return
        run.found = None
        if await self._fence(run) is None:
            asked = await self._ask(partial(self.ledger.doubtful, run.key, run.token))
            if isinstance(asked, Request):
                await self._settle(run, asked)

    async def _settle(self, run: Run, asked: Request) -> None:
        found, run.found = run.found or await self._look_up(run, asked), None
        if found is not None:
            await self._ask(partial(self.ledger.reconcile, run.key, run.token, found, final=run.is_final))

    async def _look_up(self, run: Run, asked: Request) -> SinkAnswer | None:
        """What the sink says about a key; None if it says nothing."""
        look = partial(self.sink.lookup, asked.key, asked.payload, asked.token)
        attempt = await self.attempts.attempt(look, timeout_ms=self.policy.attempt_ms)
        if attempt.interrupted:
            self._heed(run)
        return attempt.value if isinstance(attempt.value, SinkAnswer) else None

    async def _close(self, run: Run) -> None:
        """Give the lease back, and end an intent whose deadline has passed."""
        await self._ask(partial(self.ledger.release, run.key, run.token))
        overdue = tuple(one for one in self.ledger.overdue() if one.key == run.key)
        if overdue:
            await self._ask(partial(self.ledger.reap, overdue))

    async def _as_it_stands(self, key: str, reason: str, sent: int = 0) -> Ending:
        standing = await self._ask(partial(self.ledger.standing, key))
        if isinstance(standing, Answer):
            kind = Kind.UNKNOWN if sent else Kind.REFUSED  # nobody can say now what was recorded
            return Ending(kind, reason=reason or standing.reason, sent=sent)
        if standing.state is State.COMPLETED:
            return Ending(Kind.REPLAYED, standing.state, receipt=standing.receipt, sent=sent)
        kind = Kind.ERROR if standing.state in TERMINAL else Kind.REFUSED
        if standing.state in IN_FLIGHT:
            kind = Kind.UNKNOWN
        return Ending(kind, standing.state, reason, sent=sent)

    async def _ask(self, work: Callable[[], T], *, insists: bool = True) -> T:
        """What the ledger answers, asked again for a while if another process holds its lock.

        With ``insists`` also if the task is cancelled meanwhile: what was sent must be recorded. That shows in the
        task, and is heeded after it.
        """
        tried = 0
        while True:
            answer, tried = work(), tried + 1
            busy = isinstance(answer, Answer) and answer.kind is Kind.REFUSED and answer.reason == "busy"
            if not busy or tried == BUSY_TRIES:
                return answer
            try:
                await asyncio.sleep(self.policy.wait_ms(tried, self.draws) / 1000)
            except asyncio.CancelledError:
                if not insists:
                    raise

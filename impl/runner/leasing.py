"""The runner's lease: claimed, kept by a heartbeat while anything is under way, and taken anew where it must be.

The heartbeat is a timer of the loop and takes no turn but its own. It begins with the grant and ends where the lease is
given back, which is after the end of an attempt was recorded. A renewal that is refused ends an attempt under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from impl.attempts import AttemptRunner, check_call
from impl.protocol import Answer, Clock, Request, SinkAnswer, StoppedError
from impl.runner.needs import AnySink, Dispatcher
from impl.runner.policy import Draws, Policy, PolicyError
from impl.runner.run import Run
from model.contracts import Fencing
from model.words import Kind

T = TypeVar("T")
BUSY_TRIES = 10
"""How often the ledger is asked again while another process holds its lock."""
BEATS_A_LEASE = 3
"""``Policy.beat_ms`` says why."""


class LeasedRunner:
    """What a runner is given, and how it asks for a lease and keeps it."""

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
        self.lease_ms = site.lease_ms
        if self.policy.beat_ms is not None and self.policy.beat_ms >= site.lease_ms:
            raise PolicyError(
                f"beat_ms is {self.policy.beat_ms} and a lease lasts {site.lease_ms} ms: each renewal would come too "
                "late; leave it out, for a third of a lease, or make it shorter, or leases longer"
            )
        self.contracts = site.contracts
        self.clock: Clock = site.clock
        self.draws = draws
        self.attempts = attempts or AttemptRunner(self.contracts.attempt_timeout, grace_ms=self.policy.grace_ms)
        for call in (sink.apply, sink.lookup):
            check_call(call, self.contracts.attempt_timeout)
        self._fenced = self.contracts.fencing is Fencing.SINK_AND_LEDGER

    # -- claim, renew, release --------------------------------------------------------------------------------

    async def _lease(self, run: Run) -> Answer | None:
        """Claim the key. The answer that forbids it, or None."""
        self._stop_beating(run)
        asked_ms = self.clock.now_ms()
        answer = await self._ask(partial(self.ledger.claim, run.key))
        if isinstance(answer, Request):
            found = await self._look_up(run, answer)
            if found is None:
                return Answer(Kind.UNKNOWN, "what another left in flight is not known")
            run.found, asked_ms = found, self.clock.now_ms()
            answer = await self._ask(partial(self.ledger.take_over, run.key, answer.token))
        if answer.kind is not Kind.OK:
            return answer
        run.token = answer.token
        self._keep_beating(run, asked_ms)
        return None

    async def _keep_lease(self, run: Run) -> Answer | None:
        """Before another attempt: a lease that lasts as long as it may, and no older attempt that could still act."""
        if run.lingers and self._fenced:
            refusal = await self._fence(run)
        else:
            asked_ms = self.clock.now_ms()
            answer = await self._ask(partial(self.ledger.renew, run.key, run.token))
            if answer.kind is Kind.OK:
                self._keep_beating(run, asked_ms)
                return None
            refusal = await self._lease(run)
        if refusal is None:
            await self._take_up(run)
        return refusal

    async def _fence(self, run: Run) -> Answer | None:
        """Take the lease anew: the sink hears of the newer token, and refuses what may still be on its way."""
        await self._release(run)
        refusal = await self._lease(run)
        run.lingers = run.lingers and refusal is not None
        return refusal

    async def _release(self, run: Run) -> None:
        self._stop_beating(run)
        await self._ask(partial(self.ledger.release, run.key, run.token))

    # -- the heartbeat ----------------------------------------------------------------------------------------

    def _beat_ms(self) -> float:
        """How long from one renewal to the next."""
        return self.policy.beat_ms or self.lease_ms / BEATS_A_LEASE

    def _keep_beating(self, run: Run, asked_ms: int) -> None:
        """The lease was granted or renewed, at ``asked_ms`` or later: renew it in time."""
        run.leased_until_ms = asked_ms + self.lease_ms
        self._beat_in(run, self._beat_ms())

    def _beat_in(self, run: Run, ms: float) -> None:
        self._stop_beating(run)
        run.beat = asyncio.get_running_loop().call_later(ms / 1000, self._beat, run)

    @staticmethod
    def _stop_beating(run: Run) -> None:
        if run.beat is not None:
            run.beat.cancel()
            run.beat = None

    def _beat(self, run: Run) -> None:
        """Renew; where that is refused, an attempt that is under way ends, and nothing is sent that was not yet."""
        run.beat, asked_ms = None, self.clock.now_ms()
        try:
            answer = self.ledger.renew(run.key, run.token)
        except StoppedError:  # the run hears of it itself, as soon as it asks anything
            answer = Answer(Kind.REFUSED)
        if answer.kind is Kind.OK:
            self._keep_beating(run, asked_ms)
        elif _is_busy(answer) and asked_ms < run.leased_until_ms:
            self._beat_in(run, min(self.policy.backoff_ms, self._beat_ms()))
        else:
            run.leased_until_ms = asked_ms
            if run.is_sending:
                run.wake()

    def _is_leased(self, run: Run) -> bool:
        """Whether the run may still send, as far as it knows and the fencing contract looks."""
        return not self._fenced or self.clock.now_ms() < run.leased_until_ms

    # -- what somebody left in doubt --------------------------------------------------------------------------

    async def _take_up(self, run: Run) -> None:
        """Settle what an earlier run has left in doubt, before anything is sent again."""
        asked = await self._ask(partial(self.ledger.doubtful, run.key, run.token))
        if isinstance(asked, Request):
            await self._settle(run, asked)
        await self._leave_if_interrupted(run)

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

    # -- interruption -----------------------------------------------------------------------------------------

    async def _leave_if_interrupted(self, run: Run) -> None:
        """If the worker is to end, give the lease back, so that another need not wait, and let the cancellation go on."""
        self._heed(run)
        if run.is_interrupted:
            await self._release(run)
            raise asyncio.CancelledError

    def _heed(self, run: Run) -> None:
        """See whether the worker is to end; our own cancellations of the task end here."""
        run.heed()

    # -- asking -----------------------------------------------------------------------------------------------

    async def _ask(self, work: Callable[[], T], *, insists: bool = True) -> T:
        """What the ledger answers, asked again for a while if another process holds its lock.

        With ``insists`` also if the task is cancelled meanwhile: what was sent must be recorded. That shows in the
        task, and is heeded after it.
        """
        tried = 0
        while True:
            answer, tried = work(), tried + 1
            if not _is_busy(answer) or tried == BUSY_TRIES:
                return answer
            try:
                await asyncio.sleep(self.policy.wait_ms(tried, self.draws) / 1000)
            except asyncio.CancelledError:
                if not insists:
                    raise


def _is_busy(answer: Any) -> bool:
    return isinstance(answer, Answer) and answer.kind is Kind.REFUSED and answer.reason == "busy"

"""The runner: attempt, wait, attempt again, until the ledger says that it is over.

Each decision that must hold across restarts is the ledger's: whether an attempt may start (deadline, budget, approval,
cancellation, lease) is asked in the transaction that counts it, right before the send. The runner adds what a ledger
cannot do: it ends an attempt in time, keeps the lease meanwhile, waits, interrupts, and asks the sink when nobody knows.
"""

from __future__ import annotations

import asyncio
from functools import partial

from impl.attempts import AttemptRunner
from impl.protocol import Answer, Request
from impl.runner.attempting import AttemptingRunner
from impl.runner.ending import Ending
from impl.runner.needs import AnySink, Dispatcher
from impl.runner.policy import Draws, Policy
from impl.runner.run import Run
from model.contracts import Checkpoint
from model.words import IN_FLIGHT, TERMINAL, Kind, State


class AlreadyRunningError(RuntimeError):
    """A key was given to a runner that is at work on it."""


class OperationRunner(AttemptingRunner):
    """Runs operations of one dispatcher against one sink, any number of keys side by side, one run a key.

    ``draws`` is where jitter comes from. Raises PolicyError where a lease could not be kept, for its renewals come too
    late, and CallNotFitError where the sink's methods are plain and should be coroutines, or the other way round.
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
        super().__init__(dispatcher, sink, policy, draws=draws, attempts=attempts)
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
            self._stop_beating(run)
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
        run.wake()

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
            self._stop_beating(run)
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

    async def _close(self, run: Run) -> None:
        """Give the lease back, and end an intent whose deadline has passed."""
        await self._release(run)
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

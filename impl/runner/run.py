"""One operation under way: what its run knows, and how it is woken."""

from __future__ import annotations

import asyncio
from typing import Any

from attrs import define

from impl.protocol import SinkAnswer
from impl.runner.ending import Ending


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
    lingers: bool = False
    """Whether an attempt could not be ended, and may still act."""
    leased_until_ms: int = 0
    """Until when it is sure of its lease: reckoned from before the grant or the renewal was asked for."""
    is_sending: bool = False
    """Whether an attempt is under way, which a lost lease ends."""
    beat: asyncio.TimerHandle | None = None
    """The next beat; None where the lease is not kept."""

    def heed(self) -> None:
        """Tell our own cancellations of the task, which end here, from those of others, which must go on."""
        while self.woken and self.task.cancelling() > self.before:
            self.woken -= 1
            self.task.uncancel()
        self.is_interrupted = self.is_interrupted or self.task.cancelling() > self.before

    def wake(self) -> None:
        """End what it waits for, if that has become pointless."""
        if self.may_be_woken:
            self.may_be_woken = False
            self.woken += 1
            self.task.cancel()

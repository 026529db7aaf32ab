"""What a runner needs: a ledger, a dispatcher around it, and a sink."""

from __future__ import annotations

from typing import Any, Protocol

from impl.protocol import Answer, Json, Overdue, Permit, Request, SinkAnswer, Site
from impl.runner.ending import Standing


class Ledger(Protocol):
    """What the runner asks of a ledger, as ``impl.sqlite.Ledger`` answers it. Each call is one transaction."""

    def standing(self, key: str) -> Standing | Answer:
        """Where an intent stands, or that there is none, or that nobody can say now."""

    def claim(self, key: str) -> Answer | Request:
        """The lease, a refusal, or what the sink must be asked before ``take_over``."""

    def take_over(self, key: str, token: int) -> Answer:
        """The lease, after the sink was told of the token."""

    def renew(self, key: str, token: int) -> Answer:
        """Extend the lease."""

    def release(self, key: str, token: int) -> Answer:
        """Give the lease back."""

    def authorise(self, key: str, token: int) -> Permit | Answer:
        """Count one attempt that may start now, or say why none may."""

    def acknowledge(self, key: str, token: int, answer: Answer) -> Answer:
        """Record what an attempt came to."""

    def doubtful(self, key: str, token: int) -> Request | Answer:
        """What the sink is to be asked, where it is open what became of an attempt."""

    def reconcile(self, key: str, token: int, found: SinkAnswer, *, final: bool = False) -> Answer:
        """Settle that by what the sink said; ``final`` where it has refused the operation for good."""

    def cancel(self, key: str) -> Answer:
        """Cancel for good."""

    def overdue(self) -> tuple[Overdue, ...]:
        """What looks overdue."""

    def reap(self, seen: tuple[Overdue, ...]) -> Answer:
        """Clear what still is."""


class Dispatcher(Protocol):
    """What the runner needs of a dispatcher."""

    site: Site

    @property
    def ledger(self) -> Ledger:
        """Where everything is kept that must outlive the process."""

    def understood(self, answer: SinkAnswer) -> Answer:
        """What a sink's answer says about the effect."""

    def checkpoint(self, key: str, token: int, receipt: str) -> Answer:
        """Write the worker's progress down."""


class AnySink(Protocol):
    """A sink as ``impl.protocol.Sink`` has it, or one with the same methods as coroutines.

    Coroutines are interrupted; plain methods need the contract of a thread or a process for each attempt.
    """

    def apply(self, request: Request) -> Any:
        """Act once. Raises ConnectionError or TimeoutError when no answer came, whether or not it acted."""

    def lookup(self, key: str, payload: Json, token: int) -> Any:
        """What became of the key; tokens older than ``token`` are refused from then on."""

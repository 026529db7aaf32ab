"""What any dispatcher implements, what it is given, and what it answers.

A dispatcher is one incarnation of one process: it is opened on a ``Site``, asked to do things, and closed or killed.
It reaches the world through its site alone (clock, files, SQLite connections, sink), so that an engine can kill it at
any of these calls without its knowledge. It shares the words of ``model`` and never its transition function.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Protocol, runtime_checkable

from attrs import frozen

from model.contracts import Contracts, Limits
from model.words import Capability, Kind

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
"""Any JSON value."""


class Clock(Protocol):
    """Logical time. Leases, expiries and deadlines are judged by ``now_ms``; ``wall_ms`` may jump."""

    def now_ms(self) -> int:
        """Milliseconds on the one clock that all workers share; never goes back."""

    def wall_ms(self) -> int:
        """This worker's wall clock, which somebody may set."""


class Files(Protocol):
    """The file operations that a dispatcher may use, each a place where its process can die."""

    def read(self, path: Path) -> bytes | None:
        """The file's content, or None if there is no such file."""

    def write_new(self, path: Path, data: bytes) -> None:
        """Create or truncate ``path`` and write ``data``; not durable before ``sync``."""

    def sync(self, path: Path) -> None:
        """Make the file's content durable."""

    def rename(self, source: Path, target: Path) -> None:
        """Replace ``target`` by ``source`` atomically; not durable before ``sync_folder``."""

    def sync_folder(self, folder: Path) -> None:
        """Make the folder's names durable."""


class Verdict(StrEnum):
    """What a sink answers."""

    DONE = "done"
    REPLAYED = "replayed"
    ABSENT = "absent"
    CONFLICT = "conflict"
    STALE = "stale"
    LATE = "late"
    TRANSIENT = "transient"
    PERMANENT = "permanent"


@frozen
class Request:
    """One request to the sink. ``not_after_ms`` is the instant at which the effect must no longer start."""

    key: str
    payload: Json
    token: int
    not_after_ms: int | None = None


@frozen
class SinkAnswer:
    """A sink's answer; ``receipt`` names the effect where there is one.

    A client of a real service makes PERMANENT of a 4xx, TRANSIENT of a 429 and of a 503, with its ``Retry-After``, and
    raises NoAnswerError for any other 5xx: whoever fails in the middle may have acted.
    """

    verdict: Verdict
    receipt: str = ""
    retry_after_ms: int | None = None


class StoppedError(Exception):
    """The dispatcher cannot start, or cannot go on: what it keeps is damaged, out of reach, or another process's.

    Raised by the constructor, or by a call that has changed nothing. It is for what no caller can mend by trying
    again, and it is no defect: engines take it for a refusal. The message says what, why, and what to do about it.
    """


class NoAnswerError(ConnectionError):
    """The request may or may not have reached the sink: the outcome is unknown."""


class Sink(Protocol):
    """The independent service that owns the effect."""

    def apply(self, request: Request) -> SinkAnswer:
        """Act once. Raises NoAnswerError when no answer came, whether or not it acted."""

    def lookup(self, key: str, payload: Json, token: int) -> SinkAnswer:
        """What became of the key: DONE with its receipt, CONFLICT, STALE, or ABSENT.

        After an answer other than STALE the sink refuses tokens older than ``token``, so that ABSENT stays true of
        what older owners may still have in flight.
        """


@frozen
class Decision:
    """An approver's signed word about one key. See ``impl.approvals`` for how it is signed."""

    key: str
    digest: str
    approver: str
    verdict: str
    """``grant``, ``deny`` or ``revoke``."""
    expiry_ms: int
    revision: int
    signature: str = ""


@frozen
class Answer:
    """What an operation answers.

    REFUSED says that nothing has changed, for example as the disk is full. UNKNOWN says that it may have happened: an
    effect was sent and no answer came, or a commit failed and what it left cannot be read back. ``token`` comes with
    a successful claim, ``receipt`` with an effect, ``count`` with a reaping.
    """

    kind: Kind
    reason: str = ""
    token: int = 0
    receipt: str = ""
    count: int = 0


@frozen
class Permit:
    """The right to send once, as authorised by the ledger."""

    request: Request


@frozen
class Overdue:
    """A lease or an intent that looked overdue when it was read; ``expiry_ms`` is 0 where there was no lease."""

    key: str
    token: int
    expiry_ms: int


@frozen
class Site:
    """All that a dispatcher may touch.

    ``folder`` is its own; ``connect`` opens SQLite files and ``files`` does the rest. ``approver_keys`` are the HMAC
    keys of everybody who can sign, of whom only ``limits.approvers`` may approve. Whoever declares permits refuses a
    claim while ``limits.permits`` other keys are in hand, unless that is None. ``live_settings`` is what the process was
    started with, which may differ from what the ledger holds.
    """

    folder: Path
    worker: str
    contracts: Contracts
    limits: Limits
    clock: Clock
    files: Files
    sink: Sink
    connect: Callable[[Path], sqlite3.Connection]
    approver_keys: Mapping[str, bytes]
    lease_ms: int
    live_settings: Mapping[str, str]


@runtime_checkable
class Dispatcher(Protocol):
    """One incarnation of one worker or client. Constructed with a ``Site``; every call may be its last.

    Refusals are answers, not exceptions. A dispatcher whose files are damaged stops by raising StoppedError; any other
    exception is a defect of the dispatcher.
    """

    capabilities: ClassVar[frozenset[Capability]]

    def submit(self, key: str, payload: Json) -> Answer:
        """Store an intent durably. OK, REPLAYED (same payload, with the receipt if any) or REFUSED (another)."""

    def claim(self, key: str) -> Answer:
        """Ask for the lease. OK with a token that is higher than any before, or REFUSED."""

    def dispatch(self, key: str, token: int) -> Answer:
        """Authorise and apply. OK or REPLAYED with the receipt, ERROR, UNKNOWN, or REFUSED before any send."""

    def acknowledge(self, key: str, token: int, answer: Answer) -> Answer:
        """Record what the dispatch answered."""

    def close(self) -> None:
        """Let go of files and connections."""


class BaseDispatcher:
    """Defaults for the parts that a dispatcher does not have, so that a small one stays small.

    It grants every claim and records nothing. A subclass overrides what it has and declares it in ``capabilities``.
    """

    capabilities: ClassVar[frozenset[Capability]] = frozenset()

    def __init__(self, site: Site) -> None:
        self.site = site
        self._token = 0

    def claim(self, key: str) -> Answer:
        """Grant at once, to anybody."""
        self._token += 1
        return Answer(Kind.OK, token=self._token)

    def acknowledge(self, key: str, token: int, answer: Answer) -> Answer:
        """Record nothing."""
        return Answer(Kind.OK)

    def close(self) -> None:
        """Hold nothing, so let go of nothing."""

"""A sink that does what a script says, and counts what reaches it. It keeps the contracts that a sink has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen

from impl.protocol import Json, NoAnswerError, Request, SinkAnswer, Verdict
from model.attempts import BACK_MS, RETRY_AFTER_MS, TRAVEL_MS, Said
from model.attempts.script import LATE_MS
from model.contracts import Contracts, Fencing, Idempotency
from stateful.virtual import VirtualLoop

GIVES_UP_MS = 100
"""After so long a call that blocks is ended by its own timeout, or a run would never end."""
MALFORMED = {"error": None}
"""An answer that is none."""
_BREAKS = frozenset({Said.RESET_AFTER, Said.FAILED})


@frozen
class Sent:
    """One request that left the worker."""

    at_ms: int
    said: Said
    key: str


@define
class ScriptedSink:
    """What it was sent, what it did, and what it answers next; all of it outlives a worker."""

    loop: VirtualLoop
    contracts: Contracts
    attempt_ms: int
    next_answer: Callable[[], Said]
    sends: list[Sent] = field(factory=list)
    effects: list[tuple[int, str, Json]] = field(factory=list)
    """When, under which key, and what."""
    cleaned: int = 0
    fences: dict[str, int] = field(factory=dict)
    on_the_way: list[tuple[int, Request, Said]] = field(factory=list)
    """Requests that nobody waits for any more, and when they arrive, in microseconds."""
    dead: set[Any] = field(factory=set)
    """The tasks of calls whose process was killed."""
    blocks: Callable[[], None] | None = None
    """What happens at each millisecond of a call that blocks the loop; None while none does."""

    # -- what a worker calls ----------------------------------------------------------------------------------

    async def apply(self, request: Request) -> Any:
        """Act, or not, and answer, or not, as the script says."""
        said = self.next_answer()
        self.sends.append(Sent(self.loop.now_ms, said, request.key))
        try:
            return await self._serve(request, said)
        except asyncio.CancelledError:
            self.cleaned += asyncio.current_task() not in self.dead
            raise

    async def _serve(self, request: Request, said: Said) -> Any:
        if said is Said.HANG:
            return await self._hang()
        if said is Said.LATE:
            self._post(request, said, self.attempt_ms + LATE_MS)
            await self._for_ever()
        await self._passed(TRAVEL_MS)
        if said is Said.RESET_BEFORE:
            raise NoAnswerError("connection reset")
        answer = self._arrived(request, said)
        if said is Said.SILENT:
            await self._for_ever()
        await self._passed(self.attempt_ms - TRAVEL_MS if said is Said.EDGE else BACK_MS)
        if said in _BREAKS:
            raise NoAnswerError("500" if said is Said.FAILED else "connection reset")
        return MALFORMED if said is Said.MALFORMED else answer

    async def lookup(self, key: str, payload: Json, token: int) -> SinkAnswer:
        """What became of a key; older tokens are refused from then on."""
        await self._passed(TRAVEL_MS)
        answer = self.looked_up(key, payload, token)
        await self._passed(BACK_MS)
        return answer

    def looked_up(self, key: str, payload: Json, token: int) -> SinkAnswer:
        """The same, at the instant at which the question arrives."""
        if self._is_stale(key, token):
            return SinkAnswer(Verdict.STALE)
        self._raise_fence(key, token)
        return self._standing(key, payload)

    async def _passed(self, ms: int) -> None:
        if self.blocks is not None:
            self._block(ms, self.blocks)
            return
        await asyncio.sleep(ms / 1000)
        if asyncio.current_task() in self.dead:
            await self._for_ever()

    def _block(self, ms: int, meanwhile: Callable[[], None]) -> None:
        """Let time pass within one turn of the loop, where nothing of this process runs beside it."""
        until_ms = self.loop.now_ms + ms
        while self.loop.now_ms < until_ms:
            self.loop.stall((self.loop.now_ms + 1) * 1000)
            meanwhile()

    async def _for_ever(self) -> None:
        if self.blocks is not None:
            self._block(GIVES_UP_MS, self.blocks)
            raise NoAnswerError("timed out")
        await asyncio.get_running_loop().create_future()

    async def _hang(self) -> None:
        while True:
            try:
                await self._for_ever()
            except asyncio.CancelledError:
                continue

    def at_once(self) -> LookedAt:
        """The same sink for whoever asks without waiting."""
        return LookedAt(self)

    # -- what is on its way -----------------------------------------------------------------------------------

    def _post(self, request: Request, said: Said, after_ms: int) -> None:
        self.on_the_way.append((self.loop.now_us + after_ms * 1000, request, said))
        self.rearm()

    def rearm(self) -> None:
        """See to it that what is on its way arrives, also after the worker that sent it has died."""
        for at_us, _request, _said in self.on_the_way:
            self.loop.call_at(at_us / 1_000_000, self._deliver)

    def _deliver(self) -> None:
        due = [one for one in self.on_the_way if one[0] <= self.loop.now_us]
        self.on_the_way = [one for one in self.on_the_way if one[0] > self.loop.now_us]
        for _at_us, request, said in due:
            self._arrived(request, said)

    # -- what it does -----------------------------------------------------------------------------------------

    def _arrived(self, request: Request, said: Said) -> SinkAnswer:
        if said is Said.TOO_MANY:
            return SinkAnswer(Verdict.TRANSIENT)
        if said is Said.TOO_MANY_UNTIL:
            return SinkAnswer(Verdict.TRANSIENT, retry_after_ms=RETRY_AFTER_MS)
        if self._is_stale(request.key, request.token):
            return SinkAnswer(Verdict.STALE)
        if self.contracts.idempotency is Idempotency.SINK and self._effects_of(request.key):
            self._raise_fence(request.key, request.token)
            found = self._standing(request.key, request.payload)
            return SinkAnswer(Verdict.REPLAYED, found.receipt) if found.receipt else found
        if said is Said.BAD_REQUEST:
            return SinkAnswer(Verdict.PERMANENT)
        if request.not_after_ms is not None and self.loop.now_ms >= request.not_after_ms:
            return SinkAnswer(Verdict.LATE)
        self._raise_fence(request.key, request.token)
        self.effects.append((self.loop.now_ms, request.key, request.payload))
        return SinkAnswer(Verdict.DONE, f"r-{len(self.effects)}")

    def _effects_of(self, key: str) -> list[int]:
        return [n for n, (_at, effect_key, _payload) in enumerate(self.effects, 1) if effect_key == key]

    def _standing(self, key: str, payload: Json) -> SinkAnswer:
        found = self._effects_of(key)
        if not found:
            return SinkAnswer(Verdict.ABSENT)
        if self.effects[found[0] - 1][2] != payload:
            return SinkAnswer(Verdict.CONFLICT)
        return SinkAnswer(Verdict.DONE, f"r-{found[0]}")

    def _is_stale(self, key: str, token: int) -> bool:
        return self.contracts.fencing is Fencing.SINK_AND_LEDGER and token < self.fences.get(key, 0)

    def _raise_fence(self, key: str, token: int) -> None:
        if self.contracts.fencing is Fencing.SINK_AND_LEDGER:
            self.fences[key] = max(token, self.fences.get(key, 0))


@frozen
class LookedAt:
    """A scripted sink that answers what became of a key without any time passing."""

    sink: ScriptedSink

    def lookup(self, key: str, payload: Json, token: int) -> SinkAnswer:
        """What became of a key; older tokens are refused from then on."""
        return self.sink.looked_up(key, payload, token)

"""The runs of one operation, from its first worker's start until nothing is on its way any more."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

from attrs import evolve

from model.attempts import End, Event, EventKind, Said, Told
from model.contracts import AttemptTimeout
from model.words import Kind, State
from stateful.attempts.asked import Asked
from stateful.attempts.given import Longest, MemoryFiles
from stateful.attempts.isolations import PlainSink, VirtualAttempts
from stateful.attempts.plan import Plan, Planned
from stateful.attempts.ran import Moment, Ran
from stateful.attempts.sink import ScriptedSink
from stateful.order import ORDER_SECONDS, Hang, watched
from stateful.schedules.lanes import UnsupportedByEngine
from stateful.spoken import raised, shown
from stateful.virtual import Frozen, TooManyTurnsError

if TYPE_CHECKING:
    from stateful.attempts.system import AttemptSystem

KEY = "k1"
DRAIN_MS = 1_000
"""So long after the last run everything has arrived that was on its way."""
HANGS = "no answer within"
ENDS = {
    Kind.OK: End.EFFECT,
    Kind.REPLAYED: End.REPLAYED,
    Kind.ERROR: End.NO_EFFECT,
    Kind.REFUSED: End.REFUSED,
    Kind.UNKNOWN: End.UNKNOWN,
}


class Course:
    """The runs of one operation."""

    def __init__(
        self, system: AttemptSystem, max_attempts: int, asked: Asked, again: int, *, keep_story: bool
    ) -> None:
        system.medium.put_back()
        self.again = self._again_left = again
        self.system, self.asked, self.max_attempts = system, asked, max_attempts
        self.loop = system.loop
        self.loop.reset()
        self.loop.at_turn, self.loop.tie = self._at_turn, self._tie
        self.sink = ScriptedSink(self.loop, system.contracts, system.setup.attempt_ms, self._next_answer)
        self.files = MemoryFiles()
        self.answers: list[Said] = []
        self.planned: list[Planned] = []
        self.ties: list[int] = []
        self.events: list[Event] = []
        self.ends: list[tuple[End, int]] = []
        self.receipts: list[str] = []
        self.cancelled: list[Kind] = []
        self.story: list[Moment] | None = [] if keep_story else None
        self._seen: tuple[State, int, int] = (State.PENDING, 0, 0)
        self.task: asyncio.Task[Any] | None = None
        self.runner: Any = None
        self.has_started = False
        self.others: list[asyncio.Task[Any]] = []
        self.claims: list[tuple[int, bool]] = []
        self._another: Any = None
        """A worker that does nothing but claim, once it is needed."""
        self._came = 0
        """How much has come from outside since this run began."""
        self._instant = (-1, 0)

    def run(self) -> Ran:
        """Run it, whatever comes, and say what came of it."""
        trouble, is_endless = "", False
        try:
            with watched():
                again = self._once(0)
                while again is not None:
                    again = self._once(again)
                self._wait_until(self.loop.now_ms + DRAIN_MS)
        except Hang:
            trouble, is_endless = f"{HANGS} {ORDER_SECONDS:g} s", True
        except NotImplementedError as error:
            if not _is_of_the_loop(error):
                trouble = raised(error)
            else:
                self.loop.bury()
                raise UnsupportedByEngine(
                    "it asks the event loop for threads, sockets or processes, and a virtual clock has none of them; "
                    "hand its runner what it needs of them, as its sink"
                ) from error
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a subject raises is a finding
            trouble, is_endless = raised(error), isinstance(error, TooManyTurnsError)
        if self._another is not None:
            self._another.close()
        turns = self.loop.turns
        self.loop.bury()
        state, attempts = self.system.standing()
        told = Told(
            sends_ms=tuple(s.at_ms for s in self.sink.sends),
            effects=len(self.sink.effects),
            state=state,
            attempts=attempts,
            ends=tuple(self.ends),
            cleaned=self.sink.cleaned,
            claims=tuple(self.claims),
        )
        plan = Plan(self.max_attempts, tuple(self.answers), tuple(self.planned), tuple(self.ties), self.again)
        self._watch()
        return Ran(
            plan,
            tuple(self.events),
            told,
            turns,
            tuple(self.receipts),
            tuple(self.cancelled),
            trouble,
            is_endless,
            tuple(self.story or ()),
        )

    def _once(self, start_ms: int) -> int | None:
        """One worker's run, from its start; when another is to take over, or None."""
        self._wait_until(start_ms)
        self.has_started = False
        site = self.system.site(None, self.files, self.max_attempts, f"w{len(self.ends) + 1}")
        dispatcher = self.system.subject.make(site)
        isolation = self.system.contracts.attempt_timeout
        attempts = VirtualAttempts(isolation, grace_ms=self.system.setup.grace_ms)
        attempts.dead = self.sink.dead
        is_plain = isolation is not AttemptTimeout.COOPERATIVE
        sink: Any = PlainSink(self.sink, self._meanwhile) if is_plain else self.sink
        self.runner = _checked(dispatcher.runner(sink, self._policy(), draws=Longest(), attempts=attempts))
        try:
            end = self.loop.run_until_complete(self._life())
        except Frozen:
            end = End.KILLED
        self.ends.append((end, self.loop.now_ms))
        self._tell(f"the run ends: {end}")
        self.task = None
        if end is End.KILLED:
            return self.loop.now_ms + self.system.setup.lease_ms
        dispatcher.close()
        if end is not End.INTERRUPTED:
            if not self._again_left:
                return None
            self._again_left -= 1
        return self.loop.now_ms + 1

    def _policy(self) -> Any:
        from impl.runner import Policy

        setup = self.system.setup
        return Policy(setup.attempt_ms, setup.waits_ms[0], max(setup.waits_ms), setup.grace_ms, setup.beat_ms)

    async def _life(self) -> End:
        self.others, self._came = [], 0
        self.task = self.loop.create_task(self._run())
        await asyncio.wait({self.task})
        for other in self.others:
            self.cancelled.append(self._answered(await other, "cancel"))
        try:
            ending = self.task.result()
        except asyncio.CancelledError:
            if not self._came:
                raise RuntimeError(
                    "the run ended as if its task was cancelled, and nobody has cancelled it"
                ) from None
            return End.INTERRUPTED
        return ENDS[self._answered(ending, "run")]

    def _answered(self, ending: Any, call: str) -> Kind:
        """What a runner came back with; its receipt is kept. Raises TypeError for what is no ending."""
        kind, receipt = getattr(ending, "kind", None), getattr(ending, "receipt", None)
        if not isinstance(kind, Kind) or kind not in ENDS or not isinstance(receipt, str):
            raise TypeError(f"{call} came back with {shown(ending)}, not with an Ending")
        self.receipts += [receipt] if receipt else []
        return kind

    async def _run(self) -> Any:
        self.events.append(Event(EventKind.START, self.loop.now_ms))
        self._tell(f"w{len(self.ends) + 1} starts")
        self.has_started = True
        return await self.runner.run(KEY)

    def _wait_until(self, at_ms: int) -> None:
        """Let time pass with no worker there; what is on its way arrives."""
        self.sink.rearm()
        self.task = None
        self.loop.run_until_complete(asyncio.sleep(at_ms / 1000 - self.loop.time()))

    def _claim(self) -> None:
        """Another worker asks for the key, and does nothing with it."""
        if self._another is None:
            site = self.system.site(self.sink.at_once(), MemoryFiles(), self.max_attempts, "another")
            self._another = self.system.subject.make(site)
        kind = getattr(self._another.claim(KEY), "kind", None)
        self.claims.append((self.loop.now_ms, kind is Kind.OK))
        self._tell("another worker claims", str(kind))

    # -- what is asked ----------------------------------------------------------------------------------------

    def _next_answer(self) -> Said:
        said = self.asked.answer(len(self.answers))
        self.answers.append(said)
        self._tell(f"send {len(self.answers)}", str(said))
        return said

    # -- the story --------------------------------------------------------------------------------------------

    def _tell(self, what: str, answer: str = "") -> None:
        if self.story is not None:
            self._watch()
            self.story.append(Moment(self.loop.now_ms, what, answer))

    def _watch(self) -> None:
        """Add to the last line what has changed since."""
        if not self.story:
            return
        now = (*self.system.standing(), len(self.sink.effects))
        (state, attempts, effects), self._seen = self._seen, now
        at_ms = self.loop.now_ms
        when = f" at {at_ms} ms" if at_ms != self.story[-1].at_ms else ""
        changes = [f"{KEY} {state} -> {now[0]}{when}"] if state is not now[0] else []
        changes += [f"attempts {attempts} -> {now[1]}{when}"] if attempts != now[1] else []
        changes += [f"EFFECT {n} at {self.sink.effects[n - 1][0]} ms" for n in range(effects + 1, now[2] + 1)]
        self.story[-1] = evolve(self.story[-1], changes=(*self.story[-1].changes, *changes))

    def _tie(self, count: int) -> int:
        chosen = self.asked.tie(count)
        self.ties.append(chosen)
        return chosen

    def _at_turn(self, _turn: int) -> None:
        task, now_ms = self.task, self.loop.now_ms
        if self.story is not None:
            self._watch()
        if task is None or task.done():
            return
        if self.has_started:
            turn = self._instant[1] + 1 if self._instant[0] == now_ms else 1
            self._instant = (now_ms, turn)
            possible = self._possible(now_ms, turn)
        else:
            turn, possible = 0, self._possible_before(now_ms)
        event = self.asked.event(now_ms, turn, possible) if possible else None
        if event is not None:
            self._happen(event)

    def _possible(self, now_ms: int, turn: int) -> list[Planned]:
        setup = self.system.setup
        out = [Planned(kind, now_ms, turn) for kind in (EventKind.CANCEL, EventKind.INTERRUPT, EventKind.KILL)]
        sent_ms = self.sink.sends[-1].at_ms if self.sink.sends else 0
        ends = sorted({sent_ms + setup.attempt_ms, setup.deadline_ms - 1, setup.deadline_ms})
        limit_ms = sent_ms + setup.attempt_ms
        stalls = [Planned(EventKind.STALL, now_ms, turn, end, end == limit_ms) for end in ends if end > now_ms]
        return out + stalls + self._possible_between(now_ms, turn)

    def _possible_before(self, now_ms: int) -> list[Planned]:
        """Before the first worker begins it may sleep until the deadline: what it decides at all it decides then."""
        deadline_ms = self.system.setup.deadline_ms
        return [] if self.ends or self.planned else [Planned(EventKind.STALL, now_ms, 0, deadline_ms)]

    @staticmethod
    def _possible_between(now_ms: int, turn: int) -> list[Planned]:
        """What another process does, before an instant's first turn: its lock keeps it from coming between others."""
        return [Planned(EventKind.CLAIM, now_ms, turn)] if turn == 1 else []

    def _meanwhile(self) -> None:
        """A millisecond passes in which a call keeps the loop from any turn, and other processes go on."""
        now_ms = self.loop.now_ms
        if self.task is not None and self._instant[0] != now_ms:
            self._instant = (now_ms, 1)
            event = self.asked.event(now_ms, 1, self._possible_between(now_ms, 1))
            if event is not None:
                self._happen(event)

    def _happen(self, event: Planned) -> None:
        assert self.task is not None
        self.planned.append(event)
        self._came += 1
        until = f" until {event.until_ms} ms" if event.until_ms else ""
        self._tell(f"{event.kind.upper()}{until}")
        self.events.append(Event(event.kind, self.loop.now_ms, event.until_ms))
        match event.kind:
            case EventKind.CANCEL:
                self.others.append(self.loop.create_task(self.runner.cancel(KEY)))
            case EventKind.INTERRUPT:
                self.task.cancel()
            case EventKind.CLAIM:
                self._claim()
            case EventKind.KILL:
                self.loop.freeze()
            case EventKind.STALL:
                self.loop.stall(event.until_ms * 1000)


def _is_of_the_loop(error: BaseException) -> bool:
    """Whether an error comes out of asyncio's own loop, which has no threads and no sockets where time is virtual."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last is not None and last.tb_frame.f_code.co_filename.endswith("asyncio/events.py")


def _checked(runner: Any) -> Any:
    """A runner. Raises TypeError for what is none."""
    for name in ("run", "cancel"):
        if not inspect.iscoroutinefunction(getattr(runner, name, None)):
            raise TypeError(
                f"dispatcher.runner(...) came back with a {type(runner).__name__} that has no async {name}(key); it must "
                "return an object with async run(key) and async cancel(key), as impl.runner.OperationRunner is one"
            )
    return runner

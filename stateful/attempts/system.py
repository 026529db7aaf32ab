"""One operation of a subject on a virtual clock: submitted and approved, its ledger in memory, its sink scripted."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from attrs import define, evolve, frozen

from impl.approvals import digest_of, signed
from impl.protocol import Decision, Site
from model.attempts import End, Event, EventKind, Said, Setup, Told
from model.contracts import AttemptTimeout, Contracts, Limits
from model.words import Kind, State
from stateful.attempts.choices import Choose
from stateful.attempts.isolations import PlainSink, VirtualAttempts
from stateful.attempts.plan import Plan, Planned
from stateful.attempts.sink import ScriptedSink
from stateful.bench import APPROVER_KEYS, PAYLOADS
from stateful.boundaries import Gate
from stateful.clock import EPOCH_MS
from stateful.medium import MemoryMedium
from stateful.oracle import LEDGER_FILE
from stateful.order import ORDER_SECONDS, Hang, watched
from stateful.schedules.lanes import UnsupportedByEngine
from stateful.spoken import raised, shown
from stateful.subject import Subject
from stateful.virtual import Frozen, TooManyTurnsError, VirtualLoop

KEY = "k1"
FOREVER_MS = 1_000_000
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


class Longest:
    """Draws that are always the largest: the longest waits, and the same ones each time."""

    @staticmethod
    def randint(a: int, b: int) -> int:
        """The upper bound."""
        return b


class MemoryFiles:
    """Files that are kept in memory: what a checkpoint is worth on disk is another engine's question."""

    def __init__(self) -> None:
        self.content: dict[Path, bytes] = {}

    def read(self, path: Path) -> bytes | None:
        """The content, or None."""
        return self.content.get(path)

    def write_new(self, path: Path, data: bytes) -> None:
        """Write a file."""
        self.content[path] = data

    def sync(self, path: Path) -> None:
        """Nothing."""

    def rename(self, source: Path, target: Path) -> None:
        """Replace a file by another."""
        self.content[target] = self.content.pop(source)

    def sync_folder(self, folder: Path) -> None:
        """Nothing."""


class LoopClock:
    """The clock of all workers: the loop's."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        """Milliseconds on the shared clock."""
        return self._loop.now_us // 1000

    def wall_ms(self) -> int:
        """Milliseconds on the wall."""
        return EPOCH_MS + self.now_ms()


@frozen
class Moment:
    """Something that happened, as a story tells it."""

    at_ms: int
    what: str
    answer: str = ""
    changes: tuple[str, ...] = ()


@frozen
class Ran:
    """What an operation met, and what its runs came to."""

    plan: Plan
    events: tuple[Event, ...]
    told: Told
    turns: int
    receipts: tuple[str, ...] = ()
    """The receipts that runs and cancellations came back with."""
    cancelled: tuple[Kind, ...] = ()
    """What whoever cancelled was told."""
    trouble: str = ""
    """What a runner raised, or that it never ended; empty if neither."""
    is_endless: bool = False
    """Whether it never ended: others of its kind take as long."""
    story: tuple[Moment, ...] = ()


@define
class Asked:
    """Where a run's answers, events and ties come from: a plan, or a search."""

    answer: Callable[[int], Said]
    event: Callable[[int, int, list[Planned]], Planned | None]
    """Which event comes at an instant, before its n-th turn, of those that can come."""
    tie: Callable[[int], int]


class AttemptSystem:
    """Runs one subject's runner against scripted sinks. Close it, or use it as a context manager.

    Raises UnsupportedByEngine for a subject that has no runner.
    """

    def __init__(self, subject: Subject, contracts: Contracts, setup: Setup | None = None) -> None:
        if not callable(getattr(subject.make, "runner", None)):
            raise UnsupportedByEngine("it has no `runner`: nothing of it attempts, waits or is interrupted")
        self.subject = subject
        self.contracts = subject.relaxed(contracts)
        self.loop = VirtualLoop()  # type: ignore[abstract]  # it has what a coroutine without sockets asks for
        self.medium = MemoryMedium()
        self._ledger = self.medium.folder / LEDGER_FILE
        self.setup = evolve(setup or Setup(), contracts=self.contracts)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove what was made."""
        self.medium.close()

    # -- preparing --------------------------------------------------------------------------------------------

    def _site(self, sink: Any, files: MemoryFiles, max_attempts: int, worker: str) -> Site:
        setup = self.setup
        limits = Limits(lease_ms=setup.lease_ms, deadline_ms=setup.deadline_ms, max_attempts=max_attempts)
        return Site(
            folder=self.medium.folder,
            worker=worker,
            contracts=self.contracts,
            limits=limits,
            clock=LoopClock(self.loop),
            files=files,
            sink=sink,
            connect=lambda path: self.medium.connect(Gate(), path),
            approver_keys=APPROVER_KEYS,
            lease_ms=limits.lease_ms,
            live_settings={},
        )

    def _prepare(self) -> None:
        """Submit and approve, once; every run begins there."""
        site = self._site(None, MemoryFiles(), self.setup.max_attempts, "client")
        client = self.subject.make(site)
        payload = PAYLOADS["p1"]
        client.submit(KEY, payload)
        grant = Decision(KEY, digest_of(payload), "alice", "grant", FOREVER_MS, client.policy_revision())
        client.decide(signed(grant, APPROVER_KEYS["alice"]))
        client.close()
        self.medium.keep_template()
        self._view = self.medium.look(self._ledger)

    # -- running ----------------------------------------------------------------------------------------------

    def run(self, max_attempts: int, asked: Asked, *, again: int = 0, keep_story: bool = False) -> Ran:
        """Run the operation, once more wherever that was ended from outside, and ``again`` so often after that."""
        return _Course(self, max_attempts, asked, again, keep_story=keep_story).run()

    def replay(self, plan: Plan, *, keep_story: bool = False) -> Ran:
        """Run what a plan says."""
        return self.run(plan.max_attempts, asked_by(plan), again=plan.again, keep_story=keep_story)

    def standing(self) -> tuple[State, int]:
        """Where the intent stands, and how many attempts were counted, by rows."""
        state, attempts = self._view.rows("SELECT state, attempts FROM intents").fetchone()
        return State(state), attempts


class _Course:
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
        self._came = 0
        """How much has come from outside since this run began."""
        self._instant = (-1, 0)

    def run(self) -> Ran:
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
        self.events.append(Event(EventKind.START, self.loop.now_ms))
        self._tell(f"w{len(self.ends) + 1} starts")
        self.has_started = False
        site = self.system._site(None, self.files, self.max_attempts, f"w{len(self.ends) + 1}")  # noqa: SLF001
        dispatcher = self.system.subject.make(site)
        isolation = self.system.contracts.attempt_timeout
        attempts = VirtualAttempts(isolation, grace_ms=self.system.setup.grace_ms)
        attempts.dead = self.sink.dead
        sink: Any = self.sink if isolation is AttemptTimeout.COOPERATIVE else PlainSink(self.sink)
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
        return Policy(setup.attempt_ms, setup.waits_ms[0], max(setup.waits_ms), setup.grace_ms)

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
        self.has_started = True
        return await self.runner.run(KEY)

    def _wait_until(self, at_ms: int) -> None:
        """Let time pass with no worker there; what is on its way arrives."""
        self.sink.rearm()
        self.task = None
        self.loop.run_until_complete(asyncio.sleep(at_ms / 1000 - self.loop.time()))

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
        if task is None or task.done() or not self.has_started:
            return
        turn = self._instant[1] + 1 if self._instant[0] == now_ms else 1
        self._instant = (now_ms, turn)
        event = self.asked.event(now_ms, turn, self._possible(now_ms, turn))
        if event is not None:
            self._happen(event)

    def _possible(self, now_ms: int, turn: int) -> list[Planned]:
        setup = self.system.setup
        out = [Planned(kind, now_ms, turn) for kind in (EventKind.CANCEL, EventKind.INTERRUPT, EventKind.KILL)]
        sent_ms = self.sink.sends[-1].at_ms if self.sink.sends else 0
        ends = sorted({sent_ms + setup.attempt_ms, setup.deadline_ms - 1, setup.deadline_ms})
        limit_ms = sent_ms + setup.attempt_ms
        stalls = [Planned(EventKind.STALL, now_ms, turn, end, end == limit_ms) for end in ends if end > now_ms]
        return out + stalls

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


def asked_by(plan: Plan) -> Asked:
    """The answers, events and ties of a plan."""
    events, ties = list(plan.events), list(plan.ties)

    def event(now_ms: int, turn: int, _possible: list[Planned]) -> Planned | None:
        if events and (events[0].at_ms, events[0].turn) <= (now_ms, turn):
            return events.pop(0)
        return None

    def tie(count: int) -> int:
        return min(ties.pop(0), count - 1) if ties else 0

    return Asked(lambda n: plan.answers[n] if n < len(plan.answers) else Said.DONE, event, tie)


def asked_by_search(
    choose: Choose,
    events: int,
    answers: tuple[Said, ...],
    first: Said | None = None,
    kinds: tuple[str, ...] = (),
) -> Asked:
    """Everything that can be asked, as a search chooses: at most so many events, of some kinds or of all.

    The first answer is given, or chosen like the others.
    """
    left = [events]

    def answer(n: int) -> Said:
        return first if first is not None and not n else answers[choose(len(answers))]

    def event(_now_ms: int, _turn: int, possible: list[Planned]) -> Planned | None:
        if not left[0]:
            return None
        if kinds:
            possible = [p for p in possible if p.kind in kinds or (p.is_timeout and "timeout" in kinds)]
        chosen = choose(len(possible) + 1)
        if not chosen:
            return None
        left[0] -= 1
        return possible[chosen - 1]

    return Asked(answer, event, choose)

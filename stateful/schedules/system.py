"""A program on a real subject, as the system that a search runs: lanes over real connections, judged at each node.

What a transition changed is read by the oracle and held against the properties as soon as others can see it. When a
run is over, its history goes to ``model.histories``: some order of the model's atomic stages must explain every
answer and what is stored in the end. Then everybody restarts and the system runs to rest, as after any order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from copy import copy
from math import inf

from model.actions import Action, Step, instant
from model.histories import Operation
from model.properties import ANSWERS
from model.words import Kind, Outcome, Stores
from stateful.bench import KILLED, Process, SubjectFailedError
from stateful.judge import Finding
from stateful.oracle import LEDGER_FILE, DamagedError, StrayError
from stateful.order import ORDER_SECONDS, Hang, unreadable, watched
from stateful.schedules.calls import NEUTRAL, SIGNED, CallUnderWay, Said, can_call, named
from stateful.schedules.footprint import EVERYTHING, Footprint
from stateful.schedules.lanes import Lane
from stateful.schedules.nodes import NodeJudge, note
from stateful.schedules.program import BUSY, KILL, RUN, TIME, Program, Turn, lane_name
from stateful.schedules.record import Record
from stateful.schedules.rig import ScheduledRig

BUSY_TOLD = "told BUSY at "
DECISIVE = frozenset({"meta", "intents", "approvals", "leases"})
"""The tables that say where time may move to, and what an approver sees."""


class ProgramSystem:
    """One program on one rig, as a search runs it. ``prepare`` first."""

    def __init__(self, rig: ScheduledRig, program: Program, *, keep_story: bool = False, until: str = "") -> None:
        self._until = until
        self._rig = rig
        self.program = program
        self._scheduler = rig.scheduler
        self._keep_story = keep_story
        self._names = [lane_name(i) for i in range(len(program.lanes))]
        self._watch = ExitStack()
        self._lanes: list[Lane] = []
        self._nodes = NodeJudge(rig)
        self._rested: dict[object, Finding | None] = {}
        self.finding: Finding | None = None
        """What broke in the run that is under way, or in the last one."""
        self.turns: list[Turn] = []
        self.story: list[Said] = []
        self.crash_states: set[object] = set()
        self.deadlocks = 0
        self.on_complete: Callable[[], None] | None = None
        """Called after each complete run, when it has been judged."""

    # -- before the first run ---------------------------------------------------------------------------------

    def prepare(self) -> Finding | None:
        """Run the setup, and remember where it led. A finding if a promise broke there already."""
        rig, bench = self._rig, self._rig.bench
        self._scheduler.clear()
        rig.time.may_move = False
        finding = rig.start()
        for step in self.program.setup:
            if finding is None and rig.can(step):
                finding = rig.do(step)
        if finding is not None:
            return finding
        self._heads = [copy(p) for p in bench.processes]  # what is ended forgets
        bench.end()
        rig.look_away()
        rig.medium.keep_template()
        bench.forget_template()  # what is kept is not empty: an order that is run in between starts on stores that are
        self._worlds, self._stores, self._divergence = rig.judge.worlds, rig.judge.stores, rig.judge.divergence
        self._now_ms = rig.time.now_ms
        self._told = list(rig.told)
        resources, ledger = self._scheduler.resources, str(rig.medium.folder / LEDGER_FILE)
        self._what_is_decided_by = EVERYTHING
        if rig.subject.has_ledger:
            self._what_is_decided_by = resources.bit("clock", "now") | resources.tables(ledger, DECISIVE)
        self._record = Record(rig, rig.model, rig.judge.world)
        return None

    @property
    def endings(self) -> Counter[object]:
        """How the complete runs ended: what every call answered, what was stored, and the time."""
        return self._record.endings

    @property
    def undecided(self) -> int:
        """How many histories were too large to judge."""
        return self._record.undecided

    @property
    def deaths(self) -> int:
        """How many lanes have died in this run."""
        return self.program.kills - self._kills_left

    @property
    def stores(self) -> Stores:
        """What the oracle read last while the lanes ran."""
        return self._read

    # -- one run, choice by choice ----------------------------------------------------------------------------

    def begin(self) -> None:
        """Put the stores back to where the setup led, and start every lane."""
        rig, scheduler, bench = self._rig, self._scheduler, self._rig.bench
        self._watch.close()
        scheduler.clear()
        bench.end()
        rig.medium.put_back()
        rig.time.may_move, rig.time.now_ms = False, self._now_ms
        rig.judge.worlds, rig.judge.stores, rig.judge.divergence = self._worlds, self._stores, self._divergence
        rig.told = list(self._told)
        bench.know_stores(self._stores)
        if rig.oracle is not None and rig.oracle.generation != rig.medium.generation:
            rig.look_away()
        rig.look().reset()
        self._write_down("", *(step.action.label for step in self.program.setup))
        self.finding = None
        self._read = self._oracle_reads(self._stores)
        self.turns, self.story = [], []
        self._record.begin()
        self._moves_left = list(self.program.moves)
        self._kills_left = self.program.kills
        self._last = -1
        self._under: list[CallUnderWay | None] = [None] * len(self._names)
        self._ended: list[list[CallUnderWay]] = [[] for _ in self._names]
        self._moved = [True] * len(self._names)
        bench.processes = [self._process(head) for head in self._heads]
        self._lanes = []
        for name, process in zip(self._names, bench.processes, strict=False):
            process.gate = lane = scheduler.add(name)
            bench.open(process)
            self._lanes.append(lane)
        rig.time.may_move = bool(self._moves_left)
        self._watch.enter_context(watched())
        for index in range(len(self._lanes)):
            self._start(index)

    def _start(self, index: int) -> None:
        """Run a lane to its first boundary, unless an earlier one hung before it had any."""
        if self.finding is not None:
            return
        self._guarded(index, lambda: self._lanes[index].start(lambda: self._body(index)))
        if self._ended[index]:  # calls without any boundary
            self._observe(index, self._under[index], Footprint(), ("", ""), again=False)

    def _process(self, head: Process) -> Process:
        fresh = self._rig.bench.new_process(head.name)
        fresh.clock.wall_offset_ms = head.clock.wall_offset_ms
        fresh.tokens, fresh.answers, fresh.receipts = list(head.tokens), list(head.answers), list(head.receipts)
        fresh.permit, fresh.overdue, fresh.other_settings = head.permit, head.overdue, head.other_settings
        return fresh

    def _body(self, index: int) -> None:
        """What a lane runs: its calls, one after the other."""
        lane, bench = self._lanes[index], self._rig.bench
        process = bench.processes[index]
        assert self._rig.oracle is not None
        receipts = self._rig.oracle.receipts
        for number, action in enumerate(self.program.lanes[index]):
            if not (self._rig.has_part_for(action) and can_call(process, action)):
                continue
            token = process.tokens[action.key] if action.worker >= 0 and action.key >= 0 else 0
            call = CallUnderWay(number, action, token)
            self._under[index] = call
            self._write_down(action.label)
            lane.arm()
            lane.times = call.times
            lane.on_first_touch = lambda call=call: self._begins(call)  # type: ignore[misc]
            if action.verb in SIGNED:
                lane.reach("the approver", "sign")
                lane.touch(self._what_is_decided_by, 0)
                lane.is_unwatched = True
            call.outcome = bench.perform(process, action, receipts)
            lane.complete()
            call.begin = call.begin or self._record.event()  # it touched nothing that others could notice
            call.end = self._record.event()
            self._ended[index].append(call)
            self._under[index] = None

    def _write_down(self, *labels: str) -> None:
        """Write down what is about to be done, if that is wanted: a subject may end this process. "" starts anew."""
        if self._rig.recorder is not None:
            with self._rig.recorder.open("a" if labels[0] else "w", encoding="utf-8") as out:
                out.writelines(f"{label}\t0\n" for label in labels if label)

    def _begins(self, call: CallUnderWay) -> None:
        call.begin = self._record.event()

    def stands(self, index: int) -> tuple[float, int]:
        """Where a lane stands: the call that it is in, from 1, and the boundary of it; past all if it has finished."""
        lane, under = self._lanes[index], self._under[index]
        return (inf, 0) if lane.finished or under is None else (under.index + 1, lane.passed)

    def options(self) -> Sequence[str]:
        """Who can go on, the lane that ran last first; then a move of time; then deaths."""
        if self.finding is not None:
            return ()
        running = [i for i, lane in enumerate(self._lanes) if not lane.finished]
        ready = [i for i in running if not self._lanes[i].is_blocked]
        ready.sort(key=lambda i: i != self._last)
        options = [self._names[i] for i in ready]
        if len(ready) < len(running) and (self.program.waits_end or not ready):
            options += [f"{self._names[i]} {BUSY}" for i in running if i not in ready]
        if running and self._moves_left and self._moves_to() is not None:
            options.append(TIME)
        if self._kills_left:
            options += [f"{KILL} {self._names[i]}" for i in running if self._moved[i]]
        return options

    def leaves(self, choice: str) -> str:
        """The lane that ran last, if the choice goes on with another although it could have gone on."""
        if choice not in self._names or self._last < 0 or choice == self._names[self._last]:
            return ""
        lane = self._lanes[self._last]
        return "" if lane.finished or lane.is_blocked else self._names[self._last]

    def take(self, choice: str, *, again: bool = False) -> Footprint | None:
        """Make a choice; ``again`` if an earlier run has made the same choices up to here, and was judged."""
        if choice == TIME:
            return self._move()
        if choice.startswith(KILL):
            return self._kill(self._names.index(choice.removeprefix(f"{KILL} ")))
        index = self._names.index(choice.removesuffix(f" {BUSY}"))
        lane, under, did = self._lanes[index], self._under[index], self._lanes[index].at
        is_told = choice.endswith(BUSY)
        if is_told and all(x.finished or x.is_blocked for x in self._lanes):
            self.deadlocks += not again
        footprint = self._guarded(
            index, lambda: self._scheduler.tell_busy(lane) if is_told else self._scheduler.step(lane)
        )
        if footprint is None:
            return None
        self._last = index
        self.turns.append(self._turn(BUSY if is_told else RUN, index))
        if self.finding is None:
            self._observe(index, under, footprint, did, again=again)
        elif self._keep_story:  # what it raised, or did not answer, is the finding
            self._say(index, under, f"{BUSY_TOLD if is_told else ''}{named(did)}", None, self._read)
        return footprint

    def _guarded(self, index: int, run: Callable[[], Footprint | None]) -> Footprint | None:
        """Run a lane; what it may raise is a finding."""
        try:
            return run()
        except SubjectFailedError as error:
            why = str(error)
        except Hang:
            why = f"no answer within {ORDER_SECONDS} s"
        except DamagedError as error:
            self.finding = unreadable(Step(self._action(index)), error)
            return Footprint()
        self.finding = Finding(ANSWERS.id, f"{self._action(index).label}: {why}")
        return Footprint()

    def _action(self, index: int) -> Action:
        under = self._under[index]
        return under.action if under is not None else NEUTRAL

    def _turn(self, do: str, index: int) -> Turn:
        call, boundary = self.stands(index)
        return Turn(do, index) if call == inf else Turn(do, index, int(call), boundary, named(self._lanes[index].at))

    # -- what a transition did --------------------------------------------------------------------------------

    def _observe(
        self, index: int, under: CallUnderWay | None, footprint: Footprint, did: tuple[str, str], *, again: bool
    ) -> None:
        ended, self._ended[index] = self._ended[index], []
        before = self._read
        # A death is worth trying where it leaves another state than the last one would have.
        self._moved[index] = footprint.writes != 0 or bool(ended)
        if footprint.writes or ended:
            self._read = self._oracle_reads(before)
        for number, call in enumerate(ended):
            assert call.outcome is not None
            self._record.ended(index, call)
            if not again and self.finding is None:
                self.finding = self._nodes.judge(
                    call, call.outcome, before if number == 0 else self._read, self._read
                )
        now = ended[0] if ended else under
        if now is not None and self._read is not before:
            if not ended and not again and self.finding is None:
                self.finding = self._nodes.judge(now, KILLED, before, self._read)
            note(now, before, self._read)
        if self._keep_story:
            told_busy = BUSY_TOLD if self.turns and self.turns[-1].do == BUSY else ""
            self._say(index, now, told_busy + named(did), ended[0].outcome if ended else None, before)

    def _say(self, index: int, call: CallUnderWay | None, did: str, outcome: Outcome | None, before: Stores) -> None:
        number, action = (call.index, call.action) if call is not None else (-1, None)
        self.story.append(Said(index, number, action, did, outcome, before, self._read))

    def _oracle_reads(self, before: Stores) -> Stores:
        assert self._rig.oracle is not None
        try:
            read = self._rig.oracle.read()
        except (StrayError, DamagedError) as error:
            self.finding = unreadable(Step(NEUTRAL), error)
            return before
        if not self._rig.subject.has_ledger:
            read = self._rig.judge.merged(self._stores, read)
        self._rig.bench.know_stores(read)
        return before if read == before else read

    # -- time and death ---------------------------------------------------------------------------------------

    def _moves_to(self) -> int | None:
        """Where the next move of time goes, or None if there is nothing to move to now."""
        move = self._moves_left[0]
        now_ms = self._rig.time.now_ms
        at_ms = now_ms + 1 if move.key < 0 else instant(self._read.slots[move.key], move.choice)
        return at_ms if at_ms is not None and at_ms > now_ms else None

    def _move(self) -> Footprint:
        at_ms = self._moves_to()
        assert at_ms is not None
        move = self._moves_left.pop(0)
        self._rig.time.now_ms = at_ms
        # Once time stands still, reading it is no boundary any more: the lanes before one may pass it unseen.
        self._record.environment(Operation(move, -1, at_ms), Outcome(Kind.OK))
        self._rig.time.may_move = bool(self._moves_left)
        self.turns.append(Turn(TIME, move=move))
        if self._keep_story:
            self.story.append(Said(-1, -1, move, "", None, self._read, self._read))
        # It is over at once, and calls are told apart by whether they began after it, or were over before.
        now = self._scheduler.resources.bit("clock", "now")
        return Footprint(self._what_is_decided_by, now, begins=True, ends=True)

    def _kill(self, index: int) -> Footprint:
        lane, under = self._lanes[index], self._under[index]
        did = lane.at
        self._kills_left -= 1
        footprint = self._guarded(index, lambda: self._scheduler.kill(lane)) or Footprint()
        process = self._rig.bench.processes[index]
        self._rig.bench.end_process(process)
        self._record.died(index, under)
        self._record.environment(
            Operation(self._rig.model.alphabet.by_label[f"kill {self._names[index]}"], -1), KILLED
        )
        self.turns.append(self._turn(KILL, index))
        if self._keep_story:
            self._say(index, under, named(did), KILLED, self._read)
        self.crash_states.add((index, self._read, self._rig.time.now_ms))
        # Not an end that others may begin after: what it did is done, and where it died among them changes nothing.
        return Footprint(0, footprint.writes | self._scheduler.resources.bit("deaths", "left"))

    # -- the end of a run -------------------------------------------------------------------------------------

    def finish(self, *, complete: bool) -> bool:
        """Judge a complete run: its history, and what comes of it at rest. True if a promise broke, or the one given."""
        self._scheduler.clear()  # watched: a lane may catch its own death and loop
        self._watch.close()
        for lane, process in zip(self._lanes, self._rig.bench.processes, strict=False):
            if complete and process.gate is lane:
                lane.dead = False  # it has come to its end, and its process lives on
        if complete and self.finding is None:
            self.finding = self._explained() or self._at_rest()
        if complete and self.on_complete is not None:
            self.on_complete()
        return self.finding is not None and self._until in {"", self.finding.property_id}

    def _explained(self) -> Finding | None:
        """A finding if no order of the model explains what the calls answered and what is stored."""
        judge = self._rig.judge
        busy = any(lane.heard_busy for lane in self._lanes)
        found = self._record.explained(self._read, self._rig.time.now_ms, busy=busy)
        if isinstance(found, Finding):
            return found
        judge.worlds, judge.stores = found or self._worlds, self._read
        return None

    def _at_rest(self) -> Finding | None:
        """Restart everybody and run to rest; the same state is run to rest once."""
        rig = self._rig
        state = (rig.judge.worlds, self._read, rig.time.now_ms)
        if state not in self._rested:
            rig.time.may_move = False
            with watched():
                try:
                    self._rested[state] = rig.finish()
                except Hang:
                    self._rested[state] = Finding(
                        ANSWERS.id, f"{rig.current.label}: no answer within {ORDER_SECONDS} s"
                    )
        return self._rested[state]

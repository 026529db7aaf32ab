"""The stage: runs one order on one system, each worker a process of its own, and writes down what is sure.

The sink is in this process, so that it outlives every worker and believes none. It acts between two messages: a worker
that is killed before the first never sent, one that is killed after it never learned.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import define, evolve, field

from model.claims import Ability
from stateful.foreign import rest
from stateful.foreign.adapter import Adapter, Hello
from stateful.foreign.channel import AdapterError, Channel, DiedError, SilentError
from stateful.foreign.facts import OUTCOMES, PAYLOADS, Call, Entry, Facts, Line, Send
from stateful.foreign.order import TOLD, At, Do, Order, Spot, Step, Then
from stateful.foreign.said import key_of, payload_of, statement_of
from stateful.foreign.shim import Control
from stateful.spoken import clean, shown

HOLDS_MAX = 10_000
"""So often is a worker held during one request at the most: no call has nearly as many effects and statements."""
BLOCKED_SECONDS = 1.5
"""A call that has not answered for so long while another worker is held is taken to wait for it."""
LEASE_MARGIN_MS = 250
"""Beyond a lease that runs out in real time, and a quarter of it."""
ADVANCES_MS = {"lease": 0, "expiry": 86_400_000}


@define
class Worker:
    """A process of the system, and the call that it has in hand."""

    number: int
    channel: Channel
    hello: Hello
    requests: int = 0
    call: Call | None = None
    step: Step | None = None
    entered: int = 0
    holds: int = 0
    held: dict[str, Any] | None = None
    frozen: bool = False
    control: Control | None = None
    """Of its file operations, where they are counted."""


@define
class Stage:
    """Runs orders of one adapter, each in a folder of its own that is gone afterwards."""

    adapter: Adapter
    scratch: Path
    every_statement: bool = False
    shim: Path | None = None
    """The library that counts file operations, if they are to be counted."""
    workers: dict[int, Worker] = field(factory=dict)
    facts: Facts = field(init=False)
    is_stopped: bool = False
    _resting: bool = False
    _clock_ms: int = 0
    _receipts: dict[str, str] = field(factory=dict)
    _folder: Path = field(init=False)

    def run(self, order: Order) -> Facts:
        """Run an order and bring the system to rest. Trouble with the adapter ends it and is told in the facts."""
        self.facts = Facts(order)
        self._resting, self._clock_ms, self._receipts = False, 0, {}
        with self._new_folder():
            try:
                for step in order.steps:
                    self.do(step)
                self._resting = True
                rest.bring(self)
            except AdapterError as error:
                self.facts.trouble = str(error)
            finally:
                for number in list(self.workers):
                    self._end(number)
        return self.facts

    def stop(self) -> None:
        """End the order that another thread runs, wherever it is: nobody wants to know any more."""
        self.is_stopped = True
        for worker in list(self.workers.values()):
            worker.channel.kill()

    @contextmanager
    def _new_folder(self) -> Iterator[None]:
        import tempfile

        self._folder = Path(tempfile.mkdtemp(prefix="system-", dir=self.scratch))
        try:
            yield
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    # -- workers ----------------------------------------------------------------------------------------------

    def _worker(self, number: int) -> Worker:
        worker = self.workers.get(number)
        if self.is_stopped:
            raise AdapterError("it was interrupted")
        if worker is None:
            if Ability.TWO_PROCESSES not in self.adapter.hello.abilities:
                for other in list(self.workers):
                    self.close(other)
            control = Control(self._folder.with_suffix(f".w{number}")) if self.shim else None
            more = control.environment(self.shim, self._folder) if control and self.shim else None
            try:
                channel, hello = self.adapter.open(self._folder, f"w{number}", more)
            except AdapterError:
                if control is not None:
                    control.close()
                raise
            worker = self.workers[number] = Worker(number, channel, hello, control=control)
            if self._clock_ms and Ability.ADVANCE in hello.abilities:
                self._ask(worker, Step(Do.ADVANCE, number), {"ms": self._clock_ms})
        return worker

    def _end(self, number: int) -> None:
        worker = self.workers.pop(number)
        worker.channel.close()
        self.facts.left_behind += worker.channel.left_behind
        if worker.control is not None:
            worker.control.close()

    def close(self, number: int) -> None:
        """End a worker in order, if it has nothing in hand; else it is killed."""
        worker = self.workers[number]
        try:
            if worker.call is None and not worker.frozen:
                self._ask(worker, Step(Do.CLOSE, number), {})
        except DiedError:
            pass  # it had nothing in hand: how it ends is its own affair
        finally:
            self._end(number)

    # -- steps ------------------------------------------------------------------------------------------------

    def do(self, step: Step) -> None:
        """Do one step, and write down what came of it. Raises AdapterError."""
        label = step.label
        if step.at is At.STATEMENT and step.then is Then.HOLD:
            self._open_others()
        if step.do in {Do.KILL, Do.CLOSE, Do.FREEZE, Do.THAW}:
            told = self._to_process(step)
        elif step.do is Do.ADVANCE:
            told = self._advance(step)
        elif step.do is Do.GO_ON:
            told = self._go_on(step)
        else:
            worker = self._worker(step.worker)
            if worker.call is not None:
                self._settle(worker)  # it was blocked: what it says now comes first
            told = self._ask(self._worker(step.worker), step, self._given(step))
        executed = self._executed(step)
        if not self._resting:
            self.facts.steps.append(executed)
        self.facts.lines.append(Line(executed.label if not self._resting else label, told, self._resting))

    def _open_others(self) -> None:
        """Have everybody open before one is held, maybe in a transaction: whom it blocks can wait in a call.

        At an effect nobody does so, as an opening that recovers is to meet a call that is running.
        """
        if Ability.TWO_PROCESSES in self.adapter.hello.abilities:
            for number in sorted({s.worker for s in self.facts.order.steps}):
                self._worker(number)

    def _executed(self, step: Step) -> Step:
        """The step with the statement named at which it was stopped, so that a replay finds it again."""
        if step.at is At.STATEMENT and self.facts.spots:
            sql, nth = self.facts.spots[-1]
            return evolve(step, spot=Spot(step.spot.number, sql, nth))
        return step

    def _to_process(self, step: Step) -> str:
        worker = self.workers.get(step.worker)
        if worker is None:
            return "it is not running"
        if step.do is Do.KILL:
            self._die(worker, "by a kill")
            return "killed"
        if step.do is Do.CLOSE:
            self.close(step.worker)
            return "closed"
        if step.do is Do.FREEZE:
            worker.channel.freeze()
        else:
            worker.channel.thaw()
        worker.frozen = step.do is Do.FREEZE
        return "stopped" if worker.frozen else "going on"

    def _die(self, worker: Worker, where: str) -> str:
        if worker.call is not None:
            worker.call.died = where
        self._end(worker.number)
        self.facts.tick()
        return "killed"

    def _given(self, step: Step) -> dict[str, Any]:
        """What the adapter's method is called with."""
        key = {"key": f"k{step.key}"} if step.key else {}
        if step.do is Do.START:
            return {**key, "payload": PAYLOADS[step.payload]}
        if step.do is Do.DECIDE:
            return {**key, "payload": PAYLOADS[step.payload or "p1"], "verdict": step.choice or "grant"}
        if step.do is Do.RECONCILE:
            return {**key, "happened": step.choice == "happened"}
        return key

    def _advance(self, step: Step) -> str:
        hello = self.adapter.hello
        ms = ADVANCES_MS[step.choice] or hello.lease_ms * 5 // 4 + LEASE_MARGIN_MS
        if Ability.ADVANCE not in hello.abilities:
            time.sleep(ms / 1000)  # a real lease, which nothing but real time ends; such orders are marked slow
            return f"waited {ms} ms"
        self._clock_ms += ms
        if step.choice == "expiry":
            self.facts.expired_at = self.facts.tick()
        for worker in [w for w in self.workers.values() if not w.frozen and w.call is None]:
            told = self._ask(worker, Step(Do.ADVANCE, worker.number), {"ms": ms})
            if not told.startswith("done"):
                raise AdapterError(f"it was asked to set its clock {ms} ms forward, and answered {told}")
        return f"{ms} ms later"

    def _go_on(self, step: Step) -> str:
        worker = self.workers.get(step.worker)
        if worker is None or worker.call is None:
            return "it has nothing in hand"
        if worker.frozen:
            worker.channel.thaw()
            worker.frozen = False
        worker.step = step
        held, worker.held = worker.held, None
        if held is not None:
            self._release(worker, held)
        return self._drive(worker)

    def _settle(self, worker: Worker) -> None:
        """Let a worker end what it has in hand."""
        self._go_on(Step(Do.GO_ON, worker.number))

    # -- one request --------------------------------------------------------------------------------------------

    def _ask(self, worker: Worker, step: Step, given: dict[str, Any]) -> str:
        worker.requests += 1
        worker.step, worker.entered, worker.holds, worker.held = step, 0, 0, None
        if not self._resting:
            self.facts.spots_at = len(self.facts.spots)
        worker.call = Call(
            self.facts.tick(), step.do, worker.number, step.key, step.payload, step.choice, self._resting
        )
        if step.do in TOLD:
            self.facts.calls.append(worker.call)
        if worker.control is not None:
            worker.control.arm(step.spot.number if step.at is At.FILE else 0)
        try:
            worker.channel.send({"id": worker.requests, "do": str(step.do), "with": given, "arm": self._arm(step)})
            return self._drive(worker)
        except DiedError:
            if worker.control is None or not worker.control.has_fired:
                raise
            return self._die(worker, "before a file operation")

    def _arm(self, step: Step) -> dict[str, Any]:
        if self.every_statement and not self._resting:
            return {"every_statement": True}
        if step.at is not At.STATEMENT:
            return {}
        spot = step.spot
        return {"sql": spot.sql, "nth": spot.nth} if spot.sql else {"statement": spot.number}

    def _drive(self, worker: Worker) -> str:
        """Answer what the worker asks until its call ends, or until the place is reached that the step is about."""
        others_held = any(w.held or w.frozen for w in self.workers.values() if w is not worker)
        while True:
            try:
                message = worker.channel.receive(BLOCKED_SECONDS if others_held else self.adapter.patience)
            except SilentError:
                if others_held:
                    return "it waits for the other"
                raise
            self._check(worker, message)
            if "held" not in message:
                return self._ended(worker, message)
            stop = self._at(worker, message)
            if stop:
                return stop

    def _check(self, worker: Worker, message: dict[str, Any]) -> None:
        line, number = message["line"], message.get("id")
        if "error" in message:
            raise AdapterError(f"line {line}: it says {shown(message['error'])}")
        is_before = isinstance(number, int) and 0 < number < worker.requests
        if number != worker.requests and not (is_before and "held" in message):  # a thread may outlast its request
            which = "it has answered that one before" if is_before else ""
            raise AdapterError(
                f"line {line} is about request {shown(number)}, and request {worker.requests} was asked"
                f"{'; ' + which if which else ''}; answer each request once, in turn"
            )

    def _ended(self, worker: Worker, message: dict[str, Any]) -> str:
        call = worker.call
        assert call is not None
        outcome = message.get("outcome")
        if not isinstance(outcome, str) or outcome not in OUTCOMES:
            raise AdapterError(
                f"line {message['line']}: the outcome is {shown(outcome)}; it is one of {', '.join(sorted(OUTCOMES))}"
            )
        call.outcome, call.reason, call.result = outcome, clean(str(message.get("reason", ""))), message.get("result")
        call.told_at = self.facts.tick()
        if worker.control is not None and not self._resting:
            self.facts.file_operations = worker.control.count
        if worker.step is not None and worker.step.at and worker.step.do is not Do.GO_ON:
            self.facts.missed = True
        worker.call = None
        said = f"{outcome}: {call.reason}" if call.reason else outcome
        return said if call.result is None else f"{said} {shown(call.result)}"

    def _at(self, worker: Worker, message: dict[str, Any]) -> str:
        """A worker stands at a place: what is done there; empty if it was let go on."""
        point, step, call = message["held"], worker.step, worker.call
        assert step is not None
        assert call is not None
        worker.holds += 1
        if worker.holds > HOLDS_MAX:
            raise AdapterError(
                f"line {message['line']}: it has been held {HOLDS_MAX:,} times during one request; "
                "see whether the system sends in an endless loop"
            )
        if point == At.STATEMENT:
            self._count_statement(message)
        elif point == At.ENTER:
            self._enter(worker, message)
        elif point != At.EXIT:
            places = f"{At.ENTER}, {At.EXIT}, {At.STATEMENT}"
            raise AdapterError(f"line {message['line']}: it is held at {shown(point)}; it can be held at {places}")
        if step.at == point and (point == At.STATEMENT or worker.entered == step.effect):
            return self._stop(worker, message, step)
        self._release(worker, message)
        return ""

    def _stop(self, worker: Worker, message: dict[str, Any], step: Step) -> str:
        place = {At.ENTER: "before the send", At.EXIT: "after the send", At.STATEMENT: "before a statement"}[step.at]
        if step.at is At.STATEMENT:
            self.facts.spots.append(statement_of(message))
        if step.then is Then.KILL:
            return self._die(worker, place)
        worker.step = Step(Do.GO_ON, worker.number)
        if step.then is Then.HOLD:
            worker.held = message
            return "held"
        self._continue(worker, message, {"raise": "the sink does not answer"})
        return self._drive(worker)

    def _count_statement(self, message: dict[str, Any]) -> None:
        if self.every_statement:
            self.facts.spots.append(statement_of(message))

    def _enter(self, worker: Worker, message: dict[str, Any]) -> None:
        key, payload = key_of(message), payload_of(message)
        worker.entered += 1
        assert worker.call is not None
        worker.call.last_entry = self.facts.tick()
        self.facts.entries.append(Entry(worker.call.last_entry, worker.number, key, payload))

    def _release(self, worker: Worker, message: dict[str, Any]) -> None:
        """Let go on; if it stands before a send, the sink acts first."""
        answer = {}
        if message["held"] == At.ENTER:
            answer = {"receipt": self._act(worker, message)}
        self._continue(worker, message, answer)

    def _continue(self, worker: Worker, message: dict[str, Any], answer: dict[str, Any]) -> None:
        if not isinstance(message.get("n"), int):
            raise AdapterError(f'line {message["line"]}: it is held without a number "n" to be continued by')
        worker.channel.send({"continue": message["n"], **answer})

    def _act(self, worker: Worker, message: dict[str, Any]) -> str:
        """The sink acts: it counts every send, and answers one whose id it knows with the first one's receipt."""
        effect_id = message.get("effect_id")
        name = "" if effect_id is None else str(effect_id)
        receipt = f"r{len(self.facts.sends) + 1}"
        if name:
            receipt = self._receipts.setdefault(name, receipt)
        key, payload = key_of(message), payload_of(message)
        self.facts.sends.append(Send(self.facts.tick(), worker.number, key, payload, name, receipt, self._resting))
        return receipt

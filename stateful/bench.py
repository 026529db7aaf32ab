"""The bench: it does one step of a failure order to a real subject, and tells what came of it.

A subject's processes (one for the clients, one a worker) live in this process, each behind a gate of its own. What a
worker would keep in its head between two calls (tokens, answers, permits) is kept here, so that a death loses it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from attrs import define, field

from impl.approvals import digest_of, signed
from impl.protocol import Answer, Decision, Files, Json, Overdue, Permit, Request, Site, StoppedError
from impl.sqlite import RealFiles, SqliteSink
from model.actions import AGAIN, DEATHS, REORDERED, WALL_OFFSETS_MS, Action, Step, Verb
from model.contracts import Contracts, Limits
from model.step import Model
from model.words import Kind, Outcome, Reply, Stores
from stateful.boundaries import Crash, Gate, GatedConnection, GatedFiles
from stateful.clock import LogicalClock, SharedTime
from stateful.faults import ScriptedSink
from stateful.medium import FolderMedium
from stateful.spoken import clean, raised, shown
from stateful.subject import Subject

PAYLOADS: dict[str, Json] = {
    "p1": {"room": "101", "guest": {"nights": 2, "name": "Ada"}},
    "p2": {"room": "101", "guest": {"nights": 3, "name": "Ada"}},
}
"""What the model's payload names stand for."""
SUBMITTED: dict[str, Json] = {**PAYLOADS, REORDERED: {"guest": {"name": "Ada", "nights": 2}, "room": "101"}}
"""What clients hand in."""
DIGESTS = {name: digest_of(payload) for name, payload in PAYLOADS.items()}
APPROVER_KEYS = {"alice": b"alice-signs-with-this", "mallory": b"mallory-has-a-key-too"}
FORGED_KEY = b"not-the-key-of-anybody"
SINK_FILE = Path("sink") / "sink.sqlite3"
CLIENT = -1
NUMBER_MAX = 2**63 - 1
"""The greatest that SQLite can store."""
OK = Outcome(Kind.OK)
KILLED = Outcome(Kind.KILLED)


class SubjectFailedError(Exception):
    """The subject raised, or answered with something that is no answer."""


def _check(fields: str, value: Any, fits: bool, what: str, action: Action) -> None:
    if not fits:
        raise SubjectFailedError(f"it answered {fields}={shown(value)} to {action.label!r}, which is no {what}")


def _stopped(error: StoppedError) -> Outcome:
    """A dispatcher that stops has refused: it says so by an exception, as a constructor has no other way."""
    return Outcome(Kind.REFUSED, clean(f"stopped: {error}"))


def _place(store: str, call: str) -> str:
    """A boundary in a few words: ``before COMMIT of ledger.sqlite3``."""
    words = call.split()
    return f"before {' '.join(words[:3])}{' ...' if len(words) > 3 else ''} of {store}"


def _is_number(value: Any, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= NUMBER_MAX


def _check_answer(answer: Any, action: Action) -> None:
    """Raise SubjectFailedError unless it is an answer in each of its fields."""
    if not isinstance(answer, Answer) or not isinstance(answer.kind, Kind):
        raise SubjectFailedError(f"it answered {shown(answer)} to {action.label!r}, which is no impl.Answer")
    granted = action.verb is Verb.CLAIM and answer.kind is Kind.OK
    _check("kind", answer.kind, answer.kind is not Kind.KILLED, "answer of a living process", action)
    _check("reason", answer.reason, isinstance(answer.reason, str), "reason (a str)", action)
    _check("token", answer.token, _is_number(answer.token, 1 if granted else 0), "token (a positive int)", action)
    _check("receipt", answer.receipt, isinstance(answer.receipt, str), "receipt (a str)", action)
    _check("count", answer.count, _is_number(answer.count), "count (an int, 0 or more)", action)


def _check_permit(permit: Permit, action: Action) -> None:
    """Raise SubjectFailedError unless it is the right to send a request in each of its fields."""
    request = permit.request
    if not isinstance(request, Request):
        raise SubjectFailedError(
            f"it answered request={shown(request)} to {action.label!r}, which is no impl.Request"
        )
    _check("request.key", request.key, isinstance(request.key, str), "key (a str)", action)
    _check("request.token", request.token, _is_number(request.token), "token (a positive int)", action)
    late = request.not_after_ms
    _check("request.not_after_ms", late, late is None or _is_number(late), "time (an int or None)", action)


def _check_overdue(one: Any, action: Action) -> None:
    """Raise SubjectFailedError unless it is something overdue in each of its fields."""
    if not isinstance(one, Overdue):
        raise SubjectFailedError(f"it answered {shown(one)} to {action.label!r}, which is no impl.Overdue")
    _check("key", one.key, isinstance(one.key, str), "key (a str)", action)
    _check("token", one.token, _is_number(one.token), "token (a positive int)", action)
    _check("expiry_ms", one.expiry_ms, _is_number(one.expiry_ms), "time (an int, 0 or more)", action)


@cache
def key_name(index: int) -> str:
    """The operation key that stands for a key's index."""
    return f"k{index + 1}"


@lru_cache(maxsize=4096)
def _signed(
    key: str, digest: str, approver: str, verdict: str, expiry_ms: int, revision: int, secret: bytes
) -> Decision:
    """What an approver hands in. The same word is signed again and again, order after order."""
    return signed(Decision(key, digest, approver, verdict, expiry_ms, revision), secret)


@define
class Process:
    """One process of the subject: its gate, its clock, its connections, and what it has in its head."""

    name: str
    clock: LogicalClock
    gate: Gate
    tokens: list[int]
    answers: list[Answer | None]
    receipts: list[str]
    other_settings: bool = False
    dispatcher: Any = None
    sink: Any = None
    connections: list[GatedConnection] = field(factory=list)
    permit: tuple[int, Permit] | None = None
    overdue: tuple[Overdue, ...] | None = None

    def forget(self) -> None:
        """Lose what is not stored."""
        keys = len(self.tokens)
        self.tokens, self.answers, self.receipts = [0] * keys, [None] * keys, [""] * keys
        self.permit, self.overdue, self.dispatcher, self.sink = None, None, None, None


class Bench:
    """Runs steps on a subject. ``reset`` first; then ``do`` step by step.

    ``receipts`` must return, per key index, the receipts that the sink holds, in order: answers are told in ordinals.
    """

    def __init__(
        self,
        subject: Subject,
        model: Model,
        medium: FolderMedium,
        *,
        time: SharedTime | None = None,
        new_gate: Callable[[], Gate] = Gate,
        files: Files | None = None,
        gated_files: Callable[[Files, Gate], Files] = GatedFiles,
        new_class: Callable[[], Any] | None = None,
    ) -> None:
        self.subject = subject
        self.model = model
        self.medium = medium
        self.time = time or SharedTime()
        self.contracts: Contracts = subject.relaxed(model.contracts)
        self.limits: Limits = model.limits
        self._sink_path = medium.folder / SINK_FILE
        self._new_gate = new_gate
        self._files = files or RealFiles()
        self._gated_files = gated_files
        self._new_class = new_class or (lambda: subject.make)
        self._has_template = False
        self._stores = model.first().stores
        self.processes: list[Process] = []
        self.place = ""
        """Where the last step's process died."""

    # -- lifecycle --------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Back to empty stores, time 0, and every process freshly started."""
        self.end()
        self.time.now_ms = 0
        if not self._has_template:
            self.medium.restore({})
            (self.medium.folder / SINK_FILE).parent.mkdir(parents=True, exist_ok=True)
            first = self.new_process("client")
            self._open_first(first)
            self.end_process(first)
            self.medium.keep_template()
            self._has_template = True
        else:
            self.medium.put_back()
        self.processes = [self.new_process(f"w{i + 1}") for i in range(self.model.workers)] + [
            self.new_process("client")
        ]
        for process in self.processes:
            self._open_first(process)

    def forget_template(self) -> None:
        """Start from empty stores at the next reset, whatever template is kept now."""
        self._has_template = False

    def end(self) -> None:
        """Close every process."""
        for process in self.processes:
            self.end_process(process)
        self.processes = []

    def new_process(self, name: str) -> Process:
        """A process that has not been opened yet and has nothing in its head."""
        keys = self.model.keys
        clock = LogicalClock(self.time)
        return Process(name, clock, self._new_gate(), [0] * keys, [None] * keys, [""] * keys)

    def open(self, process: Process) -> None:
        """Start a process: its sink client and its dispatcher, on the stores as they are. Raises StoppedError."""
        gate = process.gate

        def connect(path: Path) -> Any:
            connection = self.medium.connect(gate, path)
            process.connections.append(connection)  # type: ignore[arg-type]  # always gated
            return connection

        sink = SqliteSink(self._sink_path, connect, process.clock, self.contracts)
        process.sink = ScriptedSink(sink)
        site = Site(
            folder=self.medium.folder,
            worker=process.name,
            contracts=self.contracts,
            limits=self.limits,
            clock=process.clock,
            files=self._gated_files(self._files, gate),
            sink=process.sink,
            connect=connect,
            approver_keys=APPROVER_KEYS,
            lease_ms=self.limits.other_lease_ms if process.other_settings else self.limits.lease_ms,
            live_settings={"approval": "advisory"} if process.other_settings else {},
        )
        process.dispatcher = self._call(self._new_class(), site)
        if self.subject.is_remote:
            process.connections.append(process.dispatcher.remote)

    def _open_first(self, process: Process) -> None:
        """Start a process on empty stores, which nobody may refuse to start on."""
        try:
            self.open(process)
        except StoppedError as error:
            raise SubjectFailedError(f"it raised {raised(error)}") from error

    def end_process(self, process: Process) -> None:
        """What a death leaves of a process: open transactions roll back, and its head is empty."""
        for connection in process.connections:
            connection.drop()
        process.connections = []
        process.forget()
        process.gate.dead = True  # whatever still refers to the dead incarnation gets nowhere
        process.gate = self._new_gate()

    def detach(self) -> None:
        """Close every connection and keep every head: nothing may be open when this process forks."""
        for process in self.processes:
            for connection in process.connections:
                connection.drop()
            process.connections = []
            process.dispatcher = process.sink = None
        self.medium.let_go()

    def attach(self, process: Process, gate: Gate | None = None) -> None:
        """Open a detached process again, with the head that it has."""
        process.gate = gate or self._new_gate()
        self.open(process)

    # -- steps ------------------------------------------------------------------------------------------------

    def do(self, step: Step, at_ms: int, receipts: Callable[[int], list[str]]) -> Outcome:
        """Do one step. ``at_ms`` is where time goes, for an *advance*.

        Raises SubjectFailedError if the subject raises or answers nonsense.
        """
        action = step.action
        if action.verb is Verb.ADVANCE:
            self.time.now_ms = at_ms
            return OK
        if action.verb is Verb.JUMP_WALL:
            self.processes[action.worker].clock.wall_offset_ms = WALL_OFFSETS_MS[action.choice]
            return OK
        if action.verb is Verb.POWER_CUT:
            return self._power_cut(action.choice)
        if action.verb is Verb.KILL:
            self.end_process(self.processes[action.worker])
            return KILLED
        process = self.processes[action.worker]
        if process.dispatcher is None and action.verb is not Verb.RESTART:
            try:
                self.open(process)  # it was detached
            except StoppedError as error:
                return _stopped(error)
        process.gate.arm(step.kill_at)
        outcome = self._answered(process, action, receipts)
        self.place = _place(*process.gate.last) if process.gate.dead else "right after it" if step.kill_at else ""
        if step.kill_at or process.gate.dead:  # a swallowed crash is a crash all the same
            self.end_process(process)
            if action.worker == CLIENT:
                self.open(process)
            return KILLED
        return outcome

    def _power_cut(self, lost: str) -> Outcome:
        """Every process dies; the stores come back as they are on disk, and a client opens them first."""
        files = self.medium.left_by_power_cut(lost)  # before anybody lets go: that may write
        for process in self.processes:
            self.end_process(process)
        if files is not None:
            self.medium.come_back(files)
        self.open(self.processes[CLIENT])
        return KILLED

    def _answered(self, process: Process, action: Action, receipts: Callable[[int], list[str]]) -> Outcome:
        try:
            return self.perform(process, action, receipts)
        except Crash:
            return KILLED
        except SubjectFailedError:
            if process.gate.dead:  # what it says or raises after its death is nothing
                return KILLED
            raise

    def perform(self, process: Process, action: Action, receipts: Callable[[int], list[str]]) -> Outcome:
        """Do one action in one process; a crash goes through."""
        key = action.key
        if action.verb is Verb.WAKE and process.permit is not None:
            key = process.permit[0]
        try:
            answer = _DO[action.verb](self, process, action, key)
        except StoppedError as error:
            if process.gate.dead:
                raise Crash from error
            return _stopped(error)
        if process.gate.dead:  # a swallowed crash is a crash all the same, and what it says afterwards is nothing
            raise Crash
        _check_answer(answer, action)
        value = answer.token or answer.count
        if answer.receipt:
            known = receipts(key)
            value = known.index(answer.receipt) + 1 if answer.receipt in known else -1
        return Outcome(answer.kind, clean(answer.reason), value)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except StoppedError:
            raise
        except Exception as error:
            raise SubjectFailedError(f"it raised {raised(error)}") from error

    def _decision(self, key: int, verdict: str, digest: str, approver: str, secret: bytes) -> Decision:
        expiry_ms = self.time.now_ms + self.limits.approval_ms
        return _signed(key_name(key), digest, approver, verdict, expiry_ms, self._stores.revision, secret)

    def know_stores(self, stores: Stores) -> None:
        """What the approver sees before it decides: the policy revision and the digest under each key."""
        self._stores = stores

    def _submit(self, process: Process, action: Action, key: int) -> Any:
        return self._call(process.dispatcher.submit, key_name(key), SUBMITTED[action.choice])

    def _approve(self, process: Process, action: Action, key: int) -> Any:
        if action.choice == AGAIN:
            return self._call(process.dispatcher.decide, self._last_grant(key))
        approver = self.limits.approvers[0]
        decision = self._decision(key, "grant", DIGESTS[action.choice], approver, APPROVER_KEYS[approver])
        return self._call(process.dispatcher.decide, decision)

    def _last_grant(self, key: int) -> Decision:
        """The very decision that the ledger holds, signed as it was."""
        approval = self._stores.slots[key].approval
        assert approval is not None
        digest, approver = DIGESTS.get(approval.digest, approval.digest), approval.approver
        secret = APPROVER_KEYS.get(approver, FORGED_KEY)
        return _signed(key_name(key), digest, approver, "grant", approval.expiry_ms, approval.revision, secret)

    def _deny(self, process: Process, action: Action, key: int) -> Any:
        return self._verdict(process, key, "deny")

    def _revoke(self, process: Process, action: Action, key: int) -> Any:
        return self._verdict(process, key, "revoke")

    def _verdict(self, process: Process, key: int, verdict: str) -> Any:
        approver = self.limits.approvers[0]
        decision = self._decision(key, verdict, self._digest(key), approver, APPROVER_KEYS[approver])
        return self._call(process.dispatcher.decide, decision)

    def _digest(self, key: int) -> str:
        intent = self._stores.slots[key].intent
        return DIGESTS.get(intent.digest, DIGESTS["p1"]) if intent else DIGESTS["p1"]

    def _forge(self, process: Process, action: Action, key: int) -> Any:
        by_intruder = action.choice == "approver"
        approver = self.limits.intruder if by_intruder else self.limits.approvers[0]
        secret = APPROVER_KEYS[approver] if by_intruder else FORGED_KEY
        return self._call(
            process.dispatcher.decide, self._decision(key, "grant", self._digest(key), approver, secret)
        )

    def _bump_policy(self, process: Process, action: Action, key: int) -> Any:
        return self._call(process.dispatcher.set_policy, self._stores.revision + 1)

    def _cancel(self, process: Process, action: Action, key: int) -> Any:
        return self._call(process.dispatcher.cancel, key_name(key))

    def _claim(self, process: Process, action: Action, key: int) -> Any:
        answer = self._call(process.dispatcher.claim, key_name(key))
        _check_answer(answer, action)
        if answer.kind is Kind.OK:
            process.tokens[key], process.answers[key] = answer.token, None
        return answer

    def _renew(self, process: Process, action: Action, key: int) -> Any:
        return self._call(process.dispatcher.renew, key_name(key), process.tokens[key])

    def _release(self, process: Process, action: Action, key: int) -> Any:
        return self._call(process.dispatcher.release, key_name(key), process.tokens[key])

    def _dispatch(self, process: Process, action: Action, key: int) -> Any:
        process.sink.reply = Reply(action.choice)
        answer = self._call(process.dispatcher.dispatch, key_name(key), process.tokens[key])
        return self._learn(process, key, answer, action)

    def _stall(self, process: Process, action: Action, key: int) -> Any:
        permit = self._call(process.dispatcher.authorise, key_name(key), process.tokens[key])
        if isinstance(permit, Permit):
            _check_permit(permit, action)
            process.permit = (key, permit)
            return Answer(Kind.OK)
        return self._learn(process, key, permit, action)

    def _wake(self, process: Process, action: Action, key: int) -> Any:
        if process.permit is None:
            return Answer(Kind.REFUSED, "nothing was frozen")
        permit, process.permit = process.permit[1], None
        process.sink.reply = Reply(action.choice)
        return self._learn(process, key, self._call(process.dispatcher.apply, permit), action)

    @staticmethod
    def _learn(process: Process, key: int, answer: Any, action: Action) -> Any:
        _check_answer(answer, action)
        if answer.kind is not Kind.REFUSED:
            process.answers[key] = answer
            process.receipts[key] = answer.receipt or process.receipts[key]
        return answer

    def _acknowledge(self, process: Process, action: Action, key: int) -> Any:
        told = process.answers[key] or Answer(Kind.UNKNOWN, "no answer")
        answer = self._call(process.dispatcher.acknowledge, key_name(key), process.tokens[key], told)
        if isinstance(answer, Answer) and answer.kind in {Kind.OK, Kind.REPLAYED}:
            process.answers[key] = None  # it is known to be recorded
        return answer

    def _checkpoint(self, process: Process, action: Action, key: int) -> Any:
        return self._call(process.dispatcher.checkpoint, key_name(key), process.tokens[key], process.receipts[key])

    def _reconcile(self, process: Process, action: Action, key: int) -> Any:
        answer = self._call(process.dispatcher.reconcile, key_name(key), process.tokens[key])
        _check_answer(answer, action)
        if answer.kind in {Kind.OK, Kind.REPLAYED}:
            process.answers[key] = None
            process.receipts[key] = answer.receipt or process.receipts[key]
        return answer

    def _reap_read(self, process: Process, action: Action, key: int) -> Any:
        overdue = self._call(process.dispatcher.overdue)
        try:
            process.overdue = tuple(overdue)
        except TypeError as error:
            raise SubjectFailedError(
                f"it answered {shown(overdue)} to {action.label!r}, which is no sequence"
            ) from error
        except Exception as error:
            raise SubjectFailedError(f"it raised {raised(error)}") from error
        for one in process.overdue:
            _check_overdue(one, action)
        return Answer(Kind.OK, count=len(process.overdue))

    def _reap_apply(self, process: Process, action: Action, key: int) -> Any:
        overdue, process.overdue = process.overdue or (), None
        return self._call(process.dispatcher.reap, overdue)

    def _restart(self, process: Process, action: Action, key: int) -> Any:
        before = process.name, process.other_settings
        if action.choice == "new-name":
            process.name = process.name.removesuffix("b") if process.name.endswith("b") else process.name + "b"
        process.other_settings = action.choice == "other-settings"
        try:
            self.open(process)
        except StoppedError:
            process.name, process.other_settings = before
            raise
        return Answer(Kind.OK)


_DO: dict[Verb, Callable[[Bench, Process, Action, int], Any]] = {
    verb: getattr(Bench, f"_{verb}") for verb in Verb if verb not in {Verb.ADVANCE, Verb.JUMP_WALL, *DEATHS}
}

"""Failure orders of a system that is called: the same events as anywhere, in few words that any system understands."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from attrs import asdict, evolve, field, frozen

from model.claims import Ability


class Do(StrEnum):
    """What is done."""

    START = "start"
    """Call the system with a key and a payload."""
    GO_ON = "go-on"
    """Let a worker that is held, or frozen inside a call, go on to the end of its call."""
    RECOVER = "recover"
    """Bring on what earlier processes left."""
    DECIDE = "decide"
    CANCEL = "cancel"
    RECONCILE = "reconcile"
    OBSERVE = "observe"
    ADVANCE = "advance"
    """Set the clock forward, or wait where the system has none that can be set."""
    KILL = "kill"
    CLOSE = "close"
    """End a worker's process in order."""
    FREEZE = "freeze"
    """SIGSTOP."""
    THAW = "thaw"
    """SIGCONT."""


class At(StrEnum):
    """Where inside a call something is done to its worker."""

    NOWHERE = ""
    ENTER = "effect-enter"
    """It is about to send."""
    EXIT = "effect-exit"
    """The sink has acted, and the answer is on its way."""
    FILE = "file-operation"
    """It is about to write, sync, truncate, rename or unlink a file of its own: only to be killed there."""
    STATEMENT = "statement"
    """A connection of its is about to run a statement."""


class Then(StrEnum):
    """What is done there."""

    NOTHING = ""
    KILL = "kill"
    HOLD = "hold"
    """Let other steps come in between."""
    FAIL = "fail"
    """The sink does not answer: the effect raises, before it has acted at the entry, after it at the exit."""


TOLD = (Do.START, Do.RECOVER, Do.DECIDE, Do.CANCEL, Do.RECONCILE)
"""What a caller is told something about that counts."""


class OrderError(ValueError):
    """A step of a stored order is none: the message says which, why, and what to do."""


@frozen
class Spot:
    """A statement to be found again: the n-th that a call runs, or the n-th with this text, its literals taken out.

    The text is what makes a replay sure where threads of the system's own run statements too.
    """

    number: int = 0
    sql: str = ""
    nth: int = 0


@frozen
class Step:
    """One step. ``worker``, ``key`` are numbers from 1; ``payload`` is ``p1`` or ``p2``, ``choice`` a verdict or so."""

    do: Do
    worker: int = 1
    key: int = 0
    payload: str = ""
    choice: str = ""
    at: At = At.NOWHERE
    then: Then = Then.NOTHING
    spot: Spot = field(factory=Spot)
    effect: int = 1
    """Which entry into the effect ``at`` means, counted from this step's beginning."""

    @property
    def label(self) -> str:
        """The step in words."""
        words = [f"w{self.worker}:", str(self.do).replace("-", " ")]
        words += [f"k{self.key}"] * bool(self.key) + [self.payload] * bool(self.payload)
        words += [self.choice] * bool(self.choice)
        return " ".join(words) + self._ending()

    def _ending(self) -> str:
        if not self.then:
            return ""
        done = {Then.KILL: "killed", Then.HOLD: "held", Then.FAIL: "the sink does not answer"}[self.then]
        if self.at is At.STATEMENT:
            text = f" {self.spot.sql[:60]!r}" if self.spot.sql else ""
            return f", {done} before statement {self.spot.number or self.spot.nth}{text}"
        if self.at is At.FILE:
            return f", {done} before file operation {self.spot.number}"
        which = f" {self.effect}" if self.effect > 1 else ""
        place = {At.ENTER: "before the send", At.EXIT: "after the send"}[self.at]
        return f", {done} {place}{which}"

    def to_json(self) -> dict[str, Any]:
        """As an object; what is not said is left out."""
        plain = asdict(self, filter=lambda a, v: a.name in {"do", "worker"} or (bool(v) and v != a.default))
        if self.spot == Spot():
            plain.pop("spot", None)
        return {k: str(v) if isinstance(v, StrEnum) else v for k, v in plain.items()}


@frozen
class Order:
    """Steps, under a name that says what they are for. What an adapter lacks an ability for is not run on it."""

    name: str
    steps: tuple[Step, ...]
    needs: frozenset[Ability] = frozenset()
    slow: bool = False
    """Whether it waits in real time on a system whose clock cannot be set."""

    def with_steps(self, steps: Iterable[Step]) -> Order:
        """The same order with other steps."""
        return evolve(self, steps=tuple(steps))


FIELDS = ("do", "worker", "key", "payload", "choice", "at", "then", "spot", "effect")
SPOT_MAX = 100_000
CHOICES = {Do.DECIDE: ("grant", "deny"), Do.RECONCILE: ("happened", "not"), Do.ADVANCE: ("lease", "expiry")}
KEYED = (Do.START, Do.DECIDE, Do.CANCEL, Do.RECONCILE, Do.OBSERVE)
STOPPABLE = (*TOLD, Do.GO_ON)


def step_from_json(raw: Any, where: str) -> Step:
    """A step from an object. Raises OrderError naming the place, the reason and the remedy."""
    if not isinstance(raw, dict):
        raise OrderError(f'{where} is {json.dumps(raw)}, not an object such as {{"do": "kill", "worker": 1}}')
    strangers = [name for name in raw if name not in FIELDS]
    if strangers:
        raise OrderError(f"{where} has no field {strangers[0]!r}; the fields are {', '.join(FIELDS)}")
    try:
        do, at, then = Do(str(raw.get("do"))), At(raw.get("at", "")), Then(raw.get("then", ""))
    except ValueError as error:
        raise OrderError(f"{where}: {error}; what can be done is {', '.join(Do)}") from error
    payload, choice = raw.get("payload", ""), raw.get("choice", "")
    worker, key, effect = (_number(raw, name, where) for name in ("worker", "key", "effect"))
    step = Step(do, worker, key, payload, choice, at, then, effect=effect)
    _check(step, where)
    return evolve(step, spot=_spot(raw.get("spot", {}), where))


def _number(raw: dict[str, Any], name: str, where: str) -> int:
    least = 0 if name == "key" else 1
    value = raw.get(name, least)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 9:
        raise OrderError(f"{where}: {name} is {value!r}; it is a number from {least} to 9")
    return value


def _check(step: Step, where: str) -> None:
    """Raise OrderError unless the parts of a step go together."""
    if step.payload not in ("", "p1", "p2") or (step.do is Do.START and not step.payload):
        raise OrderError(f"{where}: payload is {step.payload!r}; it is p1 or p2")
    choices = CHOICES.get(step.do, ("",))
    if step.choice not in choices:
        raise OrderError(
            f"{where}: {step.do} with choice {step.choice!r}; it is {' or '.join(choices) or 'left out'}"
        )
    if step.do in KEYED and not step.key:
        raise OrderError(f"{where}: {step.do} names no key; give one, a number from 1 to 9")
    if bool(step.at) != bool(step.then):
        raise OrderError(f'{where}: "at" says where and "then" says what; give both or neither')
    if step.at and step.do not in STOPPABLE:
        raise OrderError(f"{where}: {step.do} is never stopped at {step.at}; leave out at and then")
    if step.at is At.FILE and step.then is not Then.KILL:
        raise OrderError(f"{where}: at {step.at} a process can only be killed, and not {step.then}")


def _spot(raw: Any, where: str) -> Spot:
    try:
        spot = Spot(**raw)
    except TypeError as error:
        raise OrderError(f'{where}: spot is {raw!r}; it is an object of "number", "sql" and "nth"') from error
    numbers = (spot.number, spot.nth)
    if not isinstance(spot.sql, str) or not all(type(n) is int and 0 <= n <= SPOT_MAX for n in numbers):
        raise OrderError(f'{where}: spot is {raw!r}; "number" and "nth" are numbers, and "sql" is a text')
    return spot

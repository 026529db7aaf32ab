"""Traces: a failure order as versioned JSON that depends on no engine and no library's version."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from model.actions import ALPHABET, Alphabet, Step, UnknownActionError, Verb
from model.contracts import Contracts, UnknownContractError, contracts_from
from model.properties import PROPERTIES
from stateful import spoken
from stateful.attempts.plan import FIELD as ATTEMPTS
from stateful.attempts.plan import Plan, PlanError, plan_from_json
from stateful.power.cut import FIELD as CUT
from stateful.power.cut import Cut, CutError, cut_from_json
from stateful.schedules import written
from stateful.schedules.program import Scheduled
from stateful.schedules.written import ScheduleError, schedule_from_json, schedule_to_json

FORMAT = "survives-trace"
VERSION = 5
"""Of a trace with a limit on permits; one of attempts is written as version 4, one with a power cut as version 3, one
with lanes as version 2, others as version 1, which older ones read."""
NEWEST = 6
"""Version 6 is of a foreign system, and has a reader of its own."""
SURVIVED = "survived"
PERMITS = "permits"
FIELDS = (
    "format",
    "version",
    "subject",
    "mistake",
    "contracts",
    "workers",
    "keys",
    PERMITS,
    "steps",
    *written.FIELDS,
    CUT,
    ATTEMPTS,
    "expect",
)
KILL_AT_MAX = 10_000
"""No operation has nearly as many boundaries."""
PERMITS_MAX = 1_000
COUNT_MAX = 9
"""Labels have one digit for a worker and a key."""


class TraceError(ValueError):
    """A trace cannot be read: the message says where, why, and what to do."""


@frozen
class Trace:
    """A failure order: on which subject, under which contracts, which steps, and what is to come of it.

    ``expect`` is the identifier of the property that it breaks, or ``survived``. ``mistake`` names the seeded mistake
    that the subject had, or is empty. With ``scheduled``, the steps lead up to lanes that run side by side; with
    ``cut``, the power fails in the middle of them. With ``attempts`` there are no steps: one operation is run on a
    virtual clock. ``permits`` is how many keys may be in hand at once, None where there is no limit.
    """

    subject: str
    contracts: Contracts
    steps: tuple[Step, ...]
    expect: str
    mistake: str = ""
    workers: int = 2
    keys: int = 2
    scheduled: Scheduled | None = None
    cut: Cut | None = None
    attempts: Plan | None = None
    permits: int | None = None

    @property
    def version(self) -> int:
        """The first version that has all that this trace has."""
        parts = ((5, self.permits), (4, self.attempts), (3, self.cut), (2, self.scheduled))
        return next((version for version, part in parts if part is not None), 1)

    def to_json(self) -> dict[str, Any]:
        """The trace as a JSON document."""
        lanes = schedule_to_json(self.scheduled, step_to_json) if self.scheduled is not None else {}
        return {
            "format": FORMAT,
            "version": self.version,
            "subject": self.subject,
            "mistake": self.mistake,
            "contracts": self.contracts.to_json(),
            "workers": self.workers,
            "keys": self.keys,
            **({PERMITS: self.permits} if self.permits is not None else {}),
            "steps": [step_to_json(s) for s in self.steps],
            **lanes,
            **({CUT: self.cut.to_json()} if self.cut is not None else {}),
            **({ATTEMPTS: self.attempts.to_json()} if self.attempts is not None else {}),
            "expect": self.expect,
        }

    def write(self, path: Path) -> None:
        """Write the trace, one step a line so that two traces can be compared by eye."""
        document = self.to_json()
        lists = {
            name: document.pop(name)
            for name in ("steps", "lanes", "schedule", CUT, ATTEMPTS, "expect")
            if name in document
        }
        head = json.dumps(document, indent=2).removesuffix("\n}")
        body = "".join(f",\n  {json.dumps(name)}: {_lines(value)}" for name, value in lists.items())
        path.write_text(f"{head}{body}\n}}\n", "utf-8")


def _lines(value: Any, indent: str = "  ") -> str:
    """JSON with one line for each member of a list, and for each list of an object."""
    if isinstance(value, list) and value:
        inner = f",\n{indent}  ".join(json.dumps(one) for one in value)
        return f"[\n{indent}  {inner}\n{indent}]"
    if isinstance(value, dict) and value:
        inner = f",\n{indent}  ".join(
            f"{json.dumps(name)}: {_lines(one, indent + '  ')}" for name, one in value.items()
        )
        return f"{{\n{indent}  {inner}\n{indent}}}"
    return json.dumps(value)


def step_to_json(step: Step) -> dict[str, Any]:
    """One step as a JSON object."""
    action = step.action
    out: dict[str, Any] = {"do": str(action.verb)}
    if action.worker >= 0:
        out["worker"] = f"w{action.worker + 1}"
    if action.key >= 0:
        out["key"] = f"k{action.key + 1}"
    if action.choice:
        out[ALPHABET[action.verb].choice] = action.choice
    if step.kill_at:
        out["kill_at"] = step.kill_at
    return out


def step_from_json(raw: Any, where: str, alphabet: Alphabet) -> Step:
    """One step from a JSON object. Raises UnknownActionError naming the place, the reason and the remedy."""
    if not isinstance(raw, dict):
        raise UnknownActionError(
            f'{where} is {json.dumps(raw)}, not an object such as {{"do": "kill", "worker": "w1"}}'
        )
    rest = dict(raw)
    kill_at = rest.pop("kill_at", 0)
    if isinstance(kill_at, bool) or not isinstance(kill_at, int) or not 0 <= kill_at <= KILL_AT_MAX:
        raise UnknownActionError(
            f"{where}: kill_at is {spoken.shown(kill_at)}; it is a boundary's number, from 1 to {KILL_AT_MAX:,}"
        )
    verb = rest.pop("do", None)
    if not isinstance(verb, str) or verb not in set(Verb):
        raise UnknownActionError(f"{where}: there is no action {verb!r}; the actions are {', '.join(Verb)}")
    form = ALPHABET[Verb(verb)]
    words = [verb, rest.pop("worker", None), rest.pop("key", None), rest.pop(form.choice, None)]
    label = " ".join(str(w) for w in words if w is not None)
    if rest:
        raise UnknownActionError(f"{where}: {verb} takes no {', '.join(map(repr, rest))}")
    if label not in alphabet.by_label:
        near = [a.label for a in alphabet.by_verb[Verb(verb)]]
        shown = ", ".join(near[:8]) + (", ..." if len(near) > 8 else "")
        raise UnknownActionError(f"{where}: there is no {label!r}; one of {shown}")
    if kill_at and not form.stores:
        raise UnknownActionError(f"{where}: {label!r} touches no store, so that no process can die inside it")
    return Step(alphabet.by_label[label], kill_at)


def read_trace(path: Path) -> Trace:
    """The trace in a file. Raises TraceError naming the file, the reason and the remedy."""
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"trace {path}: cannot be read: {error}") from error
    try:
        document = json.loads(text, object_pairs_hook=_once_each)
    except json.JSONDecodeError as error:
        raise TraceError(
            f"trace {path} is torn or no JSON: {error.msg} at line {error.lineno}, column {error.colno}; "
            "take the file from the run's folder again"
        ) from error
    except RecursionError as error:
        raise TraceError(f"trace {path} is no trace: it is nested too deeply") from error
    except TraceError as error:
        raise TraceError(f"trace {path}: {error}") from error
    except ValueError as error:  # a number with thousands of digits
        raise TraceError(f"trace {path} is no trace: {error}") from error
    try:
        return trace_from_json(document)
    except (TraceError, ScheduleError, CutError, PlanError, UnknownActionError, UnknownContractError) as error:
        raise TraceError(f"trace {path}: {error}") from error


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names all differ. Raises TraceError for one that does not."""
    out: dict[str, Any] = {}
    for name, value in pairs:
        if name in out:
            raise TraceError(f"{name!r} is there twice in one object; leave one of them")
        out[name] = value
    return out


def trace_from_json(document: Any) -> Trace:
    """The trace in a JSON document. Raises TraceError, or what its parts raise."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise TraceError(f'this is no trace: its "format" is not {FORMAT!r}')
    version = _version(document)
    _refuse_strangers(document)
    workers, keys = (_count(document, name) for name in ("workers", "keys"))
    choices = document.get("contracts", {})
    if not isinstance(choices, dict):
        raise TraceError(f'"contracts" is {choices!r}, not an object of choices')
    raw_steps = document.get("steps")
    if not isinstance(raw_steps, list):
        raise TraceError('"steps" is missing or no list; the file is torn')
    alphabet = Alphabet(workers, keys)
    expect = document.get("expect")
    if not isinstance(expect, str) or (expect != SURVIVED and expect not in PROPERTIES):
        raise TraceError(f'"expect" is {expect!r}; it is {SURVIVED!r} or one of {", ".join(PROPERTIES)}')
    for name in ("subject", "mistake"):
        if not isinstance(document.get(name, ""), str):
            raise TraceError(f'"{name}" is {document[name]!r}, not a string')
    trace = Trace(
        subject=document.get("subject", ""),
        contracts=contracts_from(choices),
        steps=tuple(step_from_json(raw, f"step {n}", alphabet) for n, raw in enumerate(raw_steps, start=1)),
        expect=expect,
        mistake=document.get("mistake", ""),
        workers=workers,
        keys=keys,
        permits=_count(document, PERMITS, PERMITS_MAX) if PERMITS in document else None,
    )
    return _with_more(trace, document, version)


def _with_more(trace: Trace, document: dict[str, Any], version: int) -> Trace:
    """The trace with its lanes, or its power cut, if it has some; where the version knows all that there is."""
    has_lanes = "lanes" in document or "schedule" in document
    kinds = (
        (' "lanes" and no "schedule"', has_lanes, 2),
        (' "cut"', CUT in document, 3),
        (' "attempts"', ATTEMPTS in document, 4),
        (' "permits"', PERMITS in document, 5),
    )
    for name, has, since in kinds:
        if has and version < since:
            raise TraceError(f"a trace of version {version} has no{name}; its version is {since}")
    if version == 4 and ATTEMPTS not in document:
        raise TraceError('a trace of version 4 is one of attempts, and has no "attempts"; the file is torn')
    if ATTEMPTS in document:
        if has_lanes or CUT in document or trace.steps or PERMITS in document:
            raise TraceError(
                'a trace of attempts has neither steps, nor lanes, nor a cut, nor permits; take them out, or "attempts"'
            )
        return evolve(trace, attempts=plan_from_json(document[ATTEMPTS]))
    if has_lanes and CUT in document:
        raise TraceError('a trace has lanes or a cut, not both; take "lanes" and "schedule" out, or "cut"')
    if has_lanes:
        alphabet = Alphabet(trace.workers, trace.keys)
        return evolve(trace, scheduled=schedule_from_json(document, trace.workers, alphabet, step_from_json))
    return evolve(trace, cut=cut_from_json(document[CUT])) if CUT in document else trace


def _version(document: dict[str, Any]) -> int:
    version = document.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise TraceError(f"version {version!r} is not a trace version; this survives reads versions 1 to {NEWEST}")
    if version > VERSION:
        raise TraceError(
            f"version {version} is of the future; this survives reads versions 1 to {NEWEST}: update survives"
        )
    return version


def _refuse_strangers(document: dict[str, Any]) -> None:
    for name in document:
        if name not in FIELDS:
            close = difflib.get_close_matches(name, FIELDS, n=1)
            remedy = f"did you mean {close[0]!r}?" if close else f"the fields are {', '.join(FIELDS)}"
            raise TraceError(f"there is no field {name!r}; {remedy}")


def _count(document: dict[str, Any], name: str, most: int = COUNT_MAX) -> int:
    value = document.get(name, 2)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise TraceError(f'"{name}" is {value!r}; it is a number from 1 to {most:,}')
    return value

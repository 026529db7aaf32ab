"""Lanes and schedules in a trace: written as JSON, read with an error that names the place and the remedy."""

from __future__ import annotations

import json
from typing import Any, TypeGuard

from model.actions import Action, Alphabet, Step, Verb
from stateful.schedules.program import BUSY, KILL, LANE_VERBS, RUN, Scheduled, Turn, lane_name
from stateful.schedules.program import TIME as MOVED

FIELDS = ("lanes", "schedule")
ADVANCE = str(Verb.ADVANCE)
_DOES = (RUN, KILL, BUSY, ADVANCE)
NUMBER_MAX = 10_000


class ScheduleError(ValueError):
    """Lanes or a schedule cannot be read: the message says where, why, and what to do."""


def schedule_to_json(scheduled: Scheduled, step_to_json: Any) -> dict[str, Any]:
    """The two fields of a trace."""
    lanes = {lane_name(i): [step_to_json(Step(a)) for a in calls] for i, calls in enumerate(scheduled.lanes)}
    return {"lanes": lanes, "schedule": [_turn_to_json(turn, step_to_json) for turn in scheduled.turns]}


def _turn_to_json(turn: Turn, step_to_json: Any) -> dict[str, Any]:
    if turn.move is not None:
        moved: dict[str, Any] = step_to_json(Step(turn.move))
        return moved
    out: dict[str, Any] = {"do": turn.do, "lane": turn.name}
    if turn.do == RUN:
        place = {"call": turn.call, "boundary": turn.boundary, "before": turn.before}
        out["until"] = "end" if turn.is_at_end else place
    return out


def schedule_from_json(document: dict[str, Any], workers: int, alphabet: Alphabet, step_from_json: Any) -> Scheduled:
    """The lanes and the schedule of a trace's document. Raises ScheduleError or UnknownActionError."""
    lanes, turns = document.get("lanes"), document.get("schedule")
    names = [lane_name(i) for i in range(workers)]
    if not isinstance(lanes, dict) or not set(lanes) <= set(names):
        raise ScheduleError(
            f'"lanes" is {_shown(lanes)}; it is an object with a list of calls for {", ".join(names)}'
        )
    if not isinstance(turns, list):
        raise ScheduleError('"schedule" is missing or no list; a trace with "lanes" has one')
    calls = tuple(_lane(name, i, lanes.get(name, []), alphabet, step_from_json) for i, name in enumerate(names))
    while calls and not calls[-1]:
        calls = calls[:-1]
    return Scheduled(
        calls, tuple(_turn(raw, n, len(calls), alphabet, step_from_json) for n, raw in enumerate(turns, 1))
    )


def _lane(name: str, index: int, raw: Any, alphabet: Alphabet, step_from_json: Any) -> tuple[Action, ...]:
    if not isinstance(raw, list):
        raise ScheduleError(f"lane {name} is {_shown(raw)}, not a list of calls")
    out = []
    for number, one in enumerate(raw, start=1):
        where = f"lane {name}, call {number}"
        step: Step = step_from_json(one, where, alphabet)
        action = step.action
        if step.kill_at:
            raise ScheduleError(f"{where}: a call in a lane has no kill_at; let the schedule kill the lane")
        if action.verb not in LANE_VERBS:
            can = ", ".join(sorted(LANE_VERBS))
            raise ScheduleError(f"{where}: {action.verb} is no call that a lane makes; it makes {can}")
        if action.worker not in {-1, index}:
            raise ScheduleError(f"{where}: {action.label!r} is another worker's; lane {name} is {name}'s process")
        out.append(action)
    return tuple(out)


def _turn(raw: Any, number: int, lanes: int, alphabet: Alphabet, step_from_json: Any) -> Turn:
    where = f"turn {number} of the schedule"
    if not isinstance(raw, dict) or raw.get("do") not in _DOES:
        raise ScheduleError(f"{where} is {_shown(raw)}; its do is one of {', '.join(_DOES)}")
    if raw["do"] == ADVANCE:
        step: Step = step_from_json(raw, where, alphabet)
        return Turn(MOVED, move=step.action)
    names = [lane_name(i) for i in range(lanes)]
    if raw.get("lane") not in names:
        raise ScheduleError(f"{where}: there is no lane {_shown(raw.get('lane'))}; one of {', '.join(names)}")
    strange = set(raw) - {"do", "lane"} - ({"until"} if raw["do"] == RUN else set())
    if strange:
        raise ScheduleError(f"{where}: {raw['do']} takes no {', '.join(map(repr, sorted(strange)))}")
    lane = names.index(raw["lane"])
    if raw["do"] != RUN or raw.get("until") == "end":
        return Turn(raw["do"], lane)
    call, boundary, before = _place(raw.get("until"), where)
    return Turn(RUN, lane, call, boundary, before)


def _place(raw: Any, where: str) -> tuple[int, int, str]:
    if isinstance(raw, dict) and set(raw) <= {"call", "boundary", "before"}:
        call, boundary, before = raw.get("call"), raw.get("boundary"), raw.get("before", "")
        if _is_number(call) and _is_number(boundary) and isinstance(before, str):
            return call, boundary, before
    raise ScheduleError(
        f'{where}: until is {_shown(raw)}; it is "end", or a call and a boundary, numbers from 1 to {NUMBER_MAX:,}'
    )


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= NUMBER_MAX


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:80]} ..."

"""The tool boundary: each call has one result, each operation at most one effect, counted in the tool's own list."""

from __future__ import annotations

import asyncio
import json
import math
import re
import sqlite3
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from attrs import evolve

from impl.approvals import digest_of, signed
from impl.protocol import Decision, SinkAnswer, Site, Verdict
from impl.runner import Policy, PolicyError
from impl.sqlite import RealFiles, SqliteDispatcher
from impl.tools import (
    BadScopeError,
    BadToolNameError,
    BadToolSchemaError,
    BudgetError,
    Code,
    Found,
    NameTakenError,
    NotAsyncError,
    NotAToolError,
    StaleTokenError,
    Status,
    Tool,
    ToolBoundary,
    ToolBusyError,
    ToolRefusedError,
)
from model.contracts import Contracts, Durability, Limits
from model.words import State
from stateful.attempts.given import Longest, LoopClock
from stateful.virtual import VirtualLoop

CONTRACTS = Contracts(durability=Durability.OFF)  # nobody cuts the power here, and a sync takes time
KEYS = {"alice": b"a" * 32}
ROOM = {
    "type": "object",
    "properties": {"room": {"type": "string"}, "nights": {"type": "integer", "minimum": 1}},
    "required": ["room"],
    "additionalProperties": False,
}
CALL = {"id": "call_1", "name": "book_room", "arguments": {"room": "Lakeview", "nights": 2}}
KEY = "run-7/call_1"
BOOKED = {"booking": 1}


class Hotel:
    """A tool that binds keys as a sink does. ``script`` says what each request meets, in turn."""

    def __init__(self):
        self.effects = []
        self.asked = []
        self.looked = 0
        self.script = []
        self.cleaned = 0
        self.hides = False

    async def book(self, request):
        self.asked.append(request)
        step = self.script.pop(0) if self.script else self.act
        await asyncio.sleep(0.001)
        try:
            return await step(request)
        except asyncio.CancelledError:
            self.cleaned += 1
            raise

    async def look_up(self, request):
        self.looked += 1
        await asyncio.sleep(0.001)
        if self.hides:
            raise ConnectionError("no route")
        numbers = [n for n, (key, _arguments) in enumerate(self.effects, 1) if key == request.key]
        return Found({"booking": numbers[0]}) if numbers else None

    async def act(self, request):
        known = [n for n, (key, _arguments) in enumerate(self.effects, 1) if key == request.key]
        if not known:
            self.effects.append((request.key, request.arguments))
        return {"booking": known[0] if known else len(self.effects)}

    async def act_and_hang(self, request):
        await self.act(request)
        await asyncio.Event().wait()

    async def hang(self, request):
        await asyncio.Event().wait()

    def raising(self, error, *, acts=False):
        async def step(request):
            if acts:
                await self.act(request)
            raise error

        return step

    def answering(self, value):
        async def step(request):
            await self.act(request)
            return value

        return step


class House:
    """A ledger, a hotel and a boundary on a virtual clock; ``restart`` ends the one process and starts another."""

    def __init__(self, folder):
        self.folder = folder
        self.loop = VirtualLoop()
        self.hotel = Hotel()
        self.limits = Limits()
        self.has_lookup = True
        self.boundary = self.dispatcher = None

    def restart(self, **changes):
        self.close()
        clock = LoopClock(self.loop)
        site = Site(
            self.folder, "w1", CONTRACTS, self.limits, clock, RealFiles(), None, sqlite3.connect, KEYS, 100, {}
        )
        self.dispatcher = SqliteDispatcher(evolve(site, **changes))
        self.boundary = ToolBoundary(self.dispatcher, [self.tool()], draws=Longest(), scope="run-7")
        return self

    def tool(self):
        return Tool("book_room", ROOM, self.hotel.book, self.hotel.look_up if self.has_lookup else None)

    def approve(self, raw=CALL, verdict="grant"):
        payload = {"tool": raw["name"], "arguments": raw["arguments"]}
        key = self.boundary.key_of(raw["id"])
        self.dispatcher.submit(key, payload)
        decision = Decision(key, digest_of(payload), "alice", verdict, 10_000, self.dispatcher.policy_revision())
        return self.dispatcher.decide(signed(decision, KEYS["alice"]))

    def run(self, work):
        return self.loop.run_until_complete(work)

    def call(self, raw=CALL, **changes):
        return self.run(self.boundary.call(raw | changes if changes else raw))

    def standing(self, key=KEY):
        return self.dispatcher.ledger.standing(key)

    def intents(self):
        connection = sqlite3.connect(self.folder / "ledger.sqlite3")
        count = connection.execute("SELECT count(*) FROM intents").fetchone()[0]
        connection.close()
        return count

    def close(self):
        if self.dispatcher is not None:
            self.dispatcher.close()


@pytest.fixture
def fresh(tmp_path):
    """A house in which nothing was asked for yet."""
    house = House(tmp_path).restart()
    yield house
    house.close()


@pytest.fixture
def house(fresh):
    """A house in which the call is approved."""
    fresh.approve()
    return fresh


@pytest.fixture
def dumb(fresh):
    """The same, with a tool that cannot be asked what became of a call."""
    fresh.has_lookup = False
    fresh.restart().approve()
    return fresh


# -- the straight way ---------------------------------------------------------------------------------------------


def test_an_approved_call_is_carried_out(house):
    """The tool is given key, arguments, token and deadline, acts once, and its answer comes back."""
    result = house.call()
    assert (Status.DONE, BOOKED, 1, None) == (result.status, result.value, result.attempts, result.error)
    assert [(KEY, CALL["arguments"])] == house.hotel.effects
    (request,) = house.hotel.asked
    assert (KEY, CALL["arguments"], 1, 600) == (request.key, request.arguments, request.token, request.not_after_ms)


def test_a_result_is_json(house):
    """A result says in JSON what is known, and leaves out what is not."""
    told = house.call().to_json()
    assert {"id", "name", "status", "key", "digest", "receipt", "value", "attempts"} == set(told)
    assert ("call_1", "book_room", "done", BOOKED) == (told["id"], told["name"], told["status"], told["value"])
    assert told == json.loads(json.dumps(told))


def test_arguments_may_be_json_text(house):
    """Arguments as an object and as its JSON text are the same call."""
    house.call()
    result = house.call(arguments='{"nights": 2.0, "room": "Lakeview"}')
    assert (Status.REPLAYED, BOOKED) == (result.status, result.value)
    assert 1 == len(house.hotel.effects)


def test_a_call_made_again_is_replayed(house):
    """The same id with the same arguments has the first answer, and the tool is not asked for another."""
    first = house.call()
    assert evolve(first, status=Status.REPLAYED) == house.call()
    assert 1 == len(house.hotel.asked)


def test_a_replay_after_a_restart_has_the_value(house):
    """The first answer stands in the ledger, and a boundary in another process returns it."""
    first = house.call()
    assert evolve(first, status=Status.REPLAYED) == house.restart().call()
    assert 1 == len(house.hotel.asked)


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}, "r-1", [1, {"a": None}], 1e300])
def test_any_json_is_an_answer(house, value):
    """Whatever JSON a tool answers comes back as it is, the empty values too."""
    house.hotel.script = [house.hotel.answering(value)]
    result = house.call()
    assert (Status.DONE, value) == (result.status, result.value)
    assert "value" in result.to_json()


def test_the_key_knows_scope_and_id_alone(house):
    """Another scope makes another operation of the same id, and no two pairs share a key."""
    other = ToolBoundary(house.dispatcher, [house.tool()], draws=Longest(), scope="run-8")
    assert ("run-7/call_1", "run-8/call_1") == (house.boundary.key_of("call_1"), other.key_of("call_1"))
    with pytest.raises(BadScopeError, match="without '/'"):
        ToolBoundary(house.dispatcher, [], draws=Longest(), scope="run/7")


# -- refused before anything is stored ----------------------------------------------------------------------------

DEEP = json.loads("[" * 80 + "]" * 80)
CYCLE: dict = {}
CYCLE["room"] = CYCLE
MALFORMED = {
    "no object": ("book it", Code.NOT_A_CALL, ""),
    "nothing": (None, Code.NOT_A_CALL, ""),
    "no id": ({"name": "book_room", "arguments": {"room": "a"}}, Code.BAD_ID, "/id"),
    "a number as id": (CALL | {"id": 1}, Code.BAD_ID, "/id"),
    "an empty id": (CALL | {"id": ""}, Code.BAD_ID, "/id"),
    "a long id": (CALL | {"id": "x" * 201}, Code.BAD_ID, "/id"),
    "half a character as id": (CALL | {"id": "\ud800"}, Code.BAD_ID, "/id"),
    "a line break in the id": (CALL | {"id": "a\nb"}, Code.BAD_ID, "/id"),
    "another field": (CALL | {"deadline": 5}, Code.UNKNOWN_FIELD, "/deadline"),
    "no name": ({"id": "call_1", "arguments": {}}, Code.UNKNOWN_TOOL, "/name"),
    "a list as name": (CALL | {"name": ["book_room"]}, Code.UNKNOWN_TOOL, "/name"),
    "another name": (CALL | {"name": "book_rom"}, Code.UNKNOWN_TOOL, "/name"),
    "no arguments": ({"id": "call_1", "name": "book_room"}, Code.BAD_ARGUMENTS, "/arguments"),
    "a list": (CALL | {"arguments": []}, Code.BAD_ARGUMENTS, "/arguments"),
    "the text of a list": (CALL | {"arguments": "[]"}, Code.BAD_ARGUMENTS, "/arguments"),
    "half of the JSON": (CALL | {"arguments": '{"room": "La'}, Code.BAD_ARGUMENTS, "/arguments"),
    "no text": (CALL | {"arguments": ""}, Code.BAD_ARGUMENTS, "/arguments"),
    "NaN in the text": (CALL | {"arguments": '{"room": NaN}'}, Code.BAD_ARGUMENTS, "/arguments"),
    "a number beyond all": (CALL | {"arguments": '{"nights": 1e999}'}, Code.BAD_ARGUMENTS, "/arguments"),
    "a number of 5000 digits": (
        CALL | {"arguments": f'{{"nights": {"9" * 5000}}}'},
        Code.BAD_ARGUMENTS,
        "/arguments",
    ),
    "a name twice": (CALL | {"arguments": '{"room": "a", "room": "b"}'}, Code.BAD_ARGUMENTS, "/arguments"),
    "brackets without end": (CALL | {"arguments": "[" * 100_000}, Code.BAD_ARGUMENTS, "/arguments"),
    "NaN": (CALL | {"arguments": {"nights": math.nan}}, Code.BAD_ARGUMENTS, "/arguments"),
    "a set": (CALL | {"arguments": {"room": {1}}}, Code.BAD_ARGUMENTS, "/arguments"),
    "a number as a name": (CALL | {"arguments": {1: "a"}}, Code.BAD_ARGUMENTS, "/arguments"),
    "half a character": (CALL | {"arguments": {"room": "\ud800"}}, Code.BAD_ARGUMENTS, "/arguments"),
    "half a character as a name": (CALL | {"arguments": {"\ud800": 1}}, Code.BAD_ARGUMENTS, "/arguments"),
    "a number that no double holds": (CALL | {"arguments": {"nights": 2**53}}, Code.BAD_ARGUMENTS, "/arguments"),
    "a float that reads back as such": (CALL | {"arguments": {"nights": 1e20}}, Code.BAD_ARGUMENTS, "/arguments"),
    "itself in itself": (CALL | {"arguments": CYCLE}, Code.BAD_ARGUMENTS, "/arguments"),
    "too deep": (CALL | {"arguments": {"room": DEEP}}, Code.BAD_ARGUMENTS, "/arguments"),
    "one name is missing": (CALL | {"arguments": {}}, Code.AGAINST_SCHEMA, "/arguments"),
    "one name too many": (CALL | {"arguments": {"room": "a", "x": 1}}, Code.AGAINST_SCHEMA, "/arguments"),
    "another type": (CALL | {"arguments": {"room": 5}}, Code.AGAINST_SCHEMA, "/arguments/room"),
    "too little": (CALL | {"arguments": {"room": "a", "nights": 0}}, Code.AGAINST_SCHEMA, "/arguments/nights"),
    "two things at once": (CALL | {"arguments": {"room": 5, "nights": 0}}, Code.AGAINST_SCHEMA, None),
    "a deadline of 0": (CALL | {"deadline_ms": 0}, Code.BAD_DEADLINE, "/deadline_ms"),
    "a deadline below 0": (CALL | {"deadline_ms": -1}, Code.BAD_DEADLINE, "/deadline_ms"),
    "no number as deadline": (CALL | {"deadline_ms": math.nan}, Code.BAD_DEADLINE, "/deadline_ms"),
    "a deadline without end": (CALL | {"deadline_ms": math.inf}, Code.BAD_DEADLINE, "/deadline_ms"),
    "a truth as deadline": (CALL | {"deadline_ms": True}, Code.BAD_DEADLINE, "/deadline_ms"),
    "a text as deadline": (CALL | {"deadline_ms": "5"}, Code.BAD_DEADLINE, "/deadline_ms"),
    "a deadline that no row holds": (CALL | {"deadline_ms": 2**63}, Code.BAD_DEADLINE, "/deadline_ms"),
}


@pytest.mark.parametrize(("raw", "code", "path"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_call_is_refused(fresh, raw, code, path):
    """A malformed call has one error with code, message, remedy and path; nothing is stored and nothing sent."""
    result = fresh.run(fresh.boundary.call(raw))
    assert (Status.REFUSED, code) == (result.status, result.error.code)
    assert path in (result.error.path, None)
    assert result.error.message
    assert result.error.remedy
    assert ([], 0) == (fresh.hotel.asked, fresh.intents())
    json.dumps(result.to_json()).encode()


def test_a_refusal_names_the_call(fresh):
    """A refusal carries the id and the name that it is about, as far as there are any."""
    told = fresh.call(name="book_rom").to_json()
    assert ("call_1", "book_rom", "refused") == (told["id"], told["name"], told["status"])
    assert {"code", "message", "remedy", "path"} == set(told["error"])
    told = fresh.run(fresh.boundary.call(7)).to_json()
    assert (None, None) == (told["id"], told["name"])


def test_a_refusal_says_what_the_schema_asks_for(fresh):
    """The remedy quotes the part of the schema that a value is against."""
    assert 'the schema asks for {"type": "string"} here' == fresh.call(arguments={"room": 5}).error.remedy


@pytest.mark.parametrize(("length", "shown"), [(300, "x" * 300), (301, "x" * 300 + "...")])
def test_what_is_shown_is_cut_after_300_characters(fresh, length, shown):
    """What is just as long as is allowed is shown whole."""

    class Long:
        def __repr__(self):
            return "x" * length

    refusal = fresh.run(fresh.boundary.call(CALL | {"deadline_ms": Long()})).error
    assert f"deadline_ms is {shown}, not a positive, whole number of milliseconds" == refusal.message


def test_what_shows_itself_as_half_a_character_is_told_as_an_escape(fresh):
    """What cannot be written as UTF-8 stands in the message all the same."""

    class Odd:
        def __repr__(self):
            return "\ud800"

    refusal = fresh.run(fresh.boundary.call(CALL | {"deadline_ms": Odd()})).error
    assert "deadline_ms is \\ud800, not a positive, whole number of milliseconds" == refusal.message


def test_a_refusal_is_short(fresh):
    """A refusal does not repeat all that was wrong: it goes back into a model's context."""
    result = fresh.call(arguments={"room": ["Lakeview"] * 1_000, "nights": 2})
    assert Code.AGAINST_SCHEMA is result.error.code
    assert 1_000 > len(json.dumps(result.to_json()))


def test_close_names_are_told(fresh):
    """An unknown tool or field is told with those that were probably meant."""
    assert "did you mean 'book_room'?" in fresh.call(name="book_rom").error.message
    assert "did you mean 'deadline_ms'?" in fresh.call(deadline=5).error.message


def test_what_is_checked_is_what_is_sent(house):
    """A harness that changes its object after the check changes nothing about the call."""
    raw = json.loads(json.dumps(CALL))

    async def meddled():
        task = asyncio.ensure_future(house.boundary.call(raw))
        await asyncio.sleep(0)
        raw["arguments"]["room"] = "Basement"
        return await task

    assert Status.DONE is house.run(meddled()).status
    assert [(KEY, CALL["arguments"])] == house.hotel.effects


def test_other_arguments_under_an_id_are_refused(house):
    """An id stands for its first arguments: before it was carried out, after it, and after a restart."""
    changed = CALL | {"arguments": {"room": "Basement"}}
    before = house.call(changed).error
    house.call()
    after = house.call(changed).error
    restarted = house.restart().call(changed).error
    assert [(Code.CHANGED_CALL, "/id")] * 3 == [(one.code, one.path) for one in (before, after, restarted)]
    assert [(KEY, CALL["arguments"])] == house.hotel.effects


# -- approval -----------------------------------------------------------------------------------------------------


def test_without_approval_nothing_is_sent(fresh):
    """An unapproved call is refused with zero effects, and done when it is made again after the grant."""
    result = fresh.call()
    assert (Status.REFUSED, Code.NOT_APPROVED, 0) == (result.status, result.error.code, result.attempts)
    assert [] == fresh.hotel.asked
    assert digest_of({"tool": "book_room", "arguments": CALL["arguments"]}) == result.digest
    fresh.approve()
    assert Status.DONE is fresh.call().status
    assert 1 == len(fresh.hotel.effects)


def test_why_a_call_is_not_approved_is_said_once(house):
    """The reason is said as it is where nobody has decided, and after "not approved" where somebody has."""
    assert "not approved" == house.call(id="call_2").error.message
    house.approve(verdict="revoke")
    assert "not approved: approval is revoked" == house.call().error.message


def test_a_denied_call_is_refused(fresh):
    """A denial is final, and has zero effects."""
    fresh.approve(verdict="deny")
    result = fresh.call()
    assert (Status.REFUSED, Code.DENIED) == (result.status, result.error.code)
    assert [] == fresh.hotel.asked


# -- attempts -----------------------------------------------------------------------------------------------------


def test_a_busy_tool_is_tried_again(house):
    """A 429 is tried again, not before the tool has asked for it, and has one effect."""
    house.hotel.script = [house.hotel.raising(ToolBusyError("429", 200))]
    result = house.call()
    assert (Status.DONE, 2, 1) == (result.status, result.attempts, len(house.hotel.effects))
    assert 200 <= house.loop.now_ms < 300


@pytest.mark.parametrize("advice", [math.nan, math.inf, 10**400, -5, 0, "soon", None])
def test_useless_advice_is_passed_over(house, advice):
    """A time to wait that is none is no advice: the call is tried again as without it."""
    house.hotel.script = [house.hotel.raising(ToolBusyError("429", advice))]
    assert Status.DONE is house.call().status
    assert 50 > house.loop.now_ms


def test_the_budget_is_durable(house):
    """A tool that is always busy is asked as often as the limit says, and never again, after a restart either."""
    house.hotel.script = [house.hotel.raising(ToolBusyError("429"))] * 9
    result = house.call()
    assert (Status.FAILED, Code.ATTEMPTS_SPENT, 3) == (result.status, result.error.code, result.attempts)
    again = house.restart().call()
    assert (Status.FAILED, Code.ENDED) == (again.status, again.error.code)
    assert (3, []) == (len(house.hotel.asked), house.hotel.effects)


def test_a_refusal_of_the_tool_is_final(house):
    """A 400 is not tried again, and its words come back."""
    house.hotel.script = [house.hotel.raising(ToolRefusedError("no such room"))]
    result = house.call()
    assert (Status.FAILED, Code.TOOL_REFUSED, 1) == (result.status, result.error.code, result.attempts)
    assert "no such room" in result.error.message
    assert [] == house.hotel.effects


def test_a_timeout_after_the_effect_is_replayed(house):
    """A tool that acts and hangs is sent the same key again, acts no second time, and its first answer comes back."""
    house.hotel.script = [house.hotel.act_and_hang]
    result = house.call()
    assert (Status.DONE, BOOKED, 2) == (result.status, result.value, result.attempts)
    assert ([KEY, KEY], 1, 1) == (
        [one.key for one in house.hotel.asked],
        len(house.hotel.effects),
        house.hotel.cleaned,
    )


def test_a_timeout_of_the_last_attempt_is_looked_up(house):
    """When the budget is spent on silence the tool is asked what became of it, and that is the result."""
    house.hotel.script = [house.hotel.act_and_hang] * 3
    result = house.call()
    assert (Status.REPLAYED, BOOKED, 3) == (result.status, result.value, result.attempts)
    assert (1, 1) == (len(house.hotel.effects), house.hotel.looked)


def test_silence_without_an_effect_fails(house):
    """When the budget is spent on silence and the tool knows of no effect, the call has failed."""
    house.hotel.script = [house.hotel.hang] * 3
    result = house.call()
    assert (Status.FAILED, Code.ATTEMPTS_SPENT, []) == (result.status, result.error.code, house.hotel.effects)


def test_unknown_stays_unknown_until_the_tool_answers(house):
    """While the tool cannot be asked the call is unknown, also after a restart; then its answer is found, not made."""
    house.hotel.hides = True
    house.hotel.script = [house.hotel.act_and_hang] * 3
    assert Status.UNKNOWN is house.call().status
    assert Status.UNKNOWN is house.restart().call().status
    house.hotel.hides = False
    result = house.call()
    assert (Status.REPLAYED, BOOKED) == (result.status, result.value)
    assert (3, 1) == (len(house.hotel.asked), len(house.hotel.effects))


def test_a_tool_without_lookup_stays_unknown(dumb):
    """A tool that cannot be asked is sent to once; what nobody answered is unknown, not failed, and not sent again."""
    dumb.hotel.script = [dumb.hotel.act_and_hang]
    results = [dumb.call(), dumb.call(), dumb.restart().call()]
    assert [(Status.UNKNOWN, Code.NO_ANSWER, 1)] * 3 == [(r.status, r.error.code, r.attempts) for r in results]
    assert (1, 1) == (len(dumb.hotel.asked), len(dumb.hotel.effects))
    assert "at the tool itself" in results[0].error.remedy


def test_a_tool_without_lookup_may_be_busy(dumb):
    """A tool that says that it has not acted is tried again, though it cannot be asked."""
    dumb.hotel.script = [dumb.hotel.raising(ToolBusyError)]
    assert (Status.DONE, 2) == (dumb.call().status, dumb.standing().attempts)


@pytest.mark.parametrize("error", [ValueError("torn page"), KeyError("room"), RuntimeError()])
def test_an_exception_leaves_the_outcome_open(dumb, error):
    """After an exception that no tool should raise nobody knows whether it acted."""
    dumb.hotel.script = [dumb.hotel.raising(error, acts=True)]
    result = dumb.call()
    assert (Status.UNKNOWN, Code.TOOL_RAISED, State.UNKNOWN) == (
        result.status,
        result.error.code,
        dumb.standing().state,
    )
    assert type(error).__name__ in result.error.message
    assert 1 == len(dumb.hotel.asked)


def test_an_exception_is_looked_up(house):
    """A tool that acted and then broke is asked, not sent to again."""
    house.hotel.script = [house.hotel.raising(ValueError("torn page"), acts=True)]
    result = house.call()
    assert (Status.REPLAYED, BOOKED, 1) == (result.status, result.value, len(house.hotel.asked))


def test_an_exception_without_an_effect_may_be_called_again(house):
    """Where the tool knows of no effect the call is refused with the tool's words, and may be made again."""
    house.hotel.script = [house.hotel.raising(ValueError("torn page"))]
    result = house.call()
    assert (Status.REFUSED, Code.TOOL_RAISED) == (result.status, result.error.code)
    assert Status.DONE is house.call().status


@pytest.mark.parametrize(
    "value",
    [{1, 2}, object(), math.nan, b"r-1", {1: 2}, "\ud800", SinkAnswer(Verdict.DONE, "r-1")],
    ids=["set", "object", "nan", "bytes", "number as key", "half a surrogate", "an answer"],
)
def test_an_answer_that_is_no_json_is_not_understood(dumb, value):
    """A tool whose answer is no JSON has acted: the outcome is open, and the error names the type."""
    dumb.hotel.script = [dumb.hotel.answering(value)]
    result = dumb.call()
    assert (Status.UNKNOWN, Code.BAD_ANSWER, 1) == (result.status, result.error.code, result.attempts)
    assert type(value).__name__ in result.error.message
    assert 1 == len(dumb.hotel.effects)


def test_an_answer_that_is_no_json_is_looked_up(house):
    """A tool whose answer is no JSON is asked what became of the call, and not sent to again."""
    house.hotel.script = [house.hotel.answering({1, 2})]
    result = house.call()
    assert (Status.REPLAYED, BOOKED, 1) == (result.status, result.value, len(house.hotel.asked))


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit(3)])
def test_an_interrupt_passes_through(house, error):
    """What would end the program does, after the ledger has recorded that nobody knows what became of the call."""
    house.hotel.script = [house.hotel.raising(error, acts=True)]
    with pytest.raises(error if isinstance(error, type) else type(error)):
        house.call()
    assert (State.UNKNOWN, 0) == (house.standing().state, house.hotel.looked)
    assert (Status.REPLAYED, BOOKED, 1) == (house.call().status, house.call().value, len(house.hotel.effects))


def test_a_stale_tool_call_is_not_taken_for_a_no(house):
    """A tool that has seen a newer token has not refused the call for good."""
    house.hotel.script = [house.hotel.raising(StaleTokenError)]
    assert Status.REFUSED is house.call().status
    assert Status.DONE is house.call().status


# -- deadline and budgets -----------------------------------------------------------------------------------------


def test_a_call_brings_its_deadline_forward(house):
    """No attempt starts at or after the call's own deadline, however much budget is left."""
    raw = CALL | {"id": "call_2", "deadline_ms": 30}

    async def approved():
        await house.boundary.call(raw)
        house.approve({name: raw[name] for name in ("id", "name", "arguments")})
        return await house.boundary.call(raw)

    house.hotel.script = [house.hotel.raising(ToolBusyError("429", 25))] * 9
    result = house.run(approved())
    assert (Status.EXPIRED, Code.EXPIRED) == (result.status, result.error.code)
    assert {30} == {one.not_after_ms for one in house.hotel.asked}
    assert ([], 30) == (house.hotel.effects, house.loop.now_ms)


@pytest.mark.parametrize(("now_ms", "stored"), [(49, 1), (50, 0), (51, 0)])
def test_a_deadline_that_has_come_is_refused(fresh, now_ms, stored):
    """At its deadline, or after it, a new call is refused before anything is stored; one tick before it is not."""
    raw = CALL | {"deadline_ms": 50}
    fresh.loop.stall(now_ms * 1000)
    code = fresh.call(raw).error.code
    assert (Code.NOT_APPROVED if stored else Code.BAD_DEADLINE, stored) == (code, fresh.intents())
    assert [] == fresh.hotel.asked


def test_a_late_replay_is_a_replay(house):
    """A call that was carried out in time is replayed after its deadline too."""
    raw = CALL | {"deadline_ms": 500}
    house.call(raw)
    house.loop.stall(700_000)
    assert Status.REPLAYED is house.call(raw).status


@pytest.mark.parametrize("value", [2**53, 10**5000], ids=["by one", "by far"])
def test_a_deadline_too_late_names_the_latest(fresh, value):
    """A deadline that is too late is refused with the latest that would be taken; that one is."""
    error = fresh.call(deadline_ms=value).error
    assert Code.BAD_DEADLINE is error.code
    assert "later than 9007199254740991:" in error.message
    assert "no later than 9007199254740991," in error.remedy
    assert Code.NOT_APPROVED is fresh.call(deadline_ms=9007199254740991).error.code


@pytest.mark.parametrize("field", ["attempt_ms", "backoff_ms", "backoff_max_ms", "grace_ms"])
@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan])
def test_a_policy_has_positive_times(field, value):
    """A time that is not positive and finite is no policy."""
    with pytest.raises(PolicyError, match=field):
        Policy(**{field: value})


@pytest.mark.parametrize("field", ["max_attempts", "deadline_ms"])
@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, 1.5, True])
def test_a_budget_is_a_positive_whole_number(fresh, field, value):
    """A boundary is not built on limits under which nothing, or anything, could be done."""
    with pytest.raises(BudgetError, match=field):
        fresh.restart(limits=evolve(Limits(), **{field: value}))
    with pytest.raises(BudgetError, match="lease_ms"):
        fresh.restart(lease_ms=value)


# -- side by side -------------------------------------------------------------------------------------------------


def test_calls_run_side_by_side(house):
    """Two calls take no longer than one, and each has its own result."""
    other = CALL | {"id": "call_2"}
    house.approve(other)

    async def both():
        return await asyncio.gather(house.boundary.call(CALL), house.boundary.call(other))

    results = house.run(both())
    assert [("call_1", Status.DONE), ("call_2", Status.DONE)] == [(one.id, one.status) for one in results]
    assert (2, 1) == (len(house.hotel.effects), house.loop.now_ms)


def test_one_call_made_twice_at_once_is_one_operation(house):
    """The same call made while it is under way waits for it, and has the same answer."""

    async def both():
        return await asyncio.gather(*(house.boundary.call(CALL) for _ in range(3)))

    results = house.run(both())
    assert [Status.DONE, Status.REPLAYED, Status.REPLAYED] == [one.status for one in results]
    assert {1} == {one.value["booking"] for one in results}
    assert 1 == len(house.hotel.asked)


def test_a_call_that_is_cancelled_has_no_effect(house):
    """A cancelled call is interrupted, cleans up, and ends as cancelled for both; another is left alone."""
    other = CALL | {"id": "call_2"}
    house.approve(other)
    house.hotel.script = [house.hotel.hang]

    async def cancelled():
        calls = [asyncio.ensure_future(house.boundary.call(one)) for one in (CALL, other)]
        await asyncio.sleep(0.005)
        return await house.boundary.cancel("call_1"), *await asyncio.gather(*calls)

    told, first, second = house.run(cancelled())
    assert [Status.CANCELLED, Status.CANCELLED, Status.DONE] == [told.status, first.status, second.status]
    assert ([f"run-7/{other['id']}"], 1) == ([key for key, _ in house.hotel.effects], house.hotel.cleaned)
    assert Status.CANCELLED is house.restart().call().status


def test_a_cancellation_that_comes_too_late_tells_of_the_effect(house):
    """A call that has had its effect is replayed to whoever cancels it."""
    house.call()
    told = house.run(house.boundary.cancel("call_1"))
    assert (Status.REPLAYED, BOOKED) == (told.status, told.value)


def cancelled_at(house, turn):
    """What a canceller is told who comes before a turn of the loop, or after the last, and all results of the call."""
    results, cancels, start = [], [], house.loop.turns

    def cancel():
        cancels.append(house.loop.create_task(house.boundary.cancel("call_1")))

    async def both():
        task = asyncio.ensure_future(house.boundary.call(CALL))
        task.add_done_callback(lambda done: results.append(done.result()))
        await asyncio.wait({task})
        house.loop.at_turn = None
        if not cancels:
            cancel()
        return await cancels[0]

    house.loop.at_turn = lambda now: cancel() if now == start + turn else None
    return house.run(both()), results


@pytest.mark.parametrize("hangs", [False, True])
@pytest.mark.parametrize("turn", range(1, 24))
def test_a_cancellation_at_any_turn_has_one_truth(house, turn, hangs):
    """Whenever a call is cancelled it has one result, and that agrees with the effects and with the ledger."""
    house.hotel.script = [house.hotel.act_and_hang] * hangs
    told, (result,) = cancelled_at(house, turn)
    assert {"done": 1, "replayed": 1, "cancelled": 0}[result.status] == len(house.hotel.effects)
    assert told.status in {result.status, Status.REPLAYED}
    assert {1: State.COMPLETED, 0: State.CANCELLED}[len(house.hotel.effects)] is house.standing().state


@pytest.mark.parametrize("hangs", [False, True])
@pytest.mark.parametrize("turn", range(1, 24))
def test_a_cancellation_without_lookup_is_never_a_guess(dumb, turn, hangs):
    """A call to a tool that cannot be asked is cancelled only where nothing was sent, and else unknown or done."""
    dumb.hotel.script = [dumb.hotel.act_and_hang] * hangs
    _told, (result,) = cancelled_at(dumb, turn)
    expected = {
        Status.DONE: (State.COMPLETED, 1, 1),
        Status.CANCELLED: (State.CANCELLED, 0, 0),
        Status.UNKNOWN: (State.UNKNOWN, 1, len(dumb.hotel.effects)),
    }
    standing = dumb.standing()
    assert expected[result.status] == (standing.state, standing.attempts, len(dumb.hotel.effects))


def test_what_was_never_called_cannot_be_cancelled(fresh):
    """A cancellation of an unknown id, or of none, is refused with one error."""
    told = fresh.run(fresh.boundary.cancel("call_9"))
    assert (Status.REFUSED, Code.UNKNOWN_CALL) == (told.status, told.error.code)
    assert Code.BAD_ID is fresh.run(fresh.boundary.cancel(None)).error.code


def test_an_interrupted_harness_may_ask_again(house):
    """A task that is cancelled has no result; the operation lives on, and its next call has the one effect."""
    house.hotel.script = [house.hotel.act_and_hang]

    async def interrupted():
        task = asyncio.ensure_future(house.boundary.call(CALL))
        await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.wait({task})
        return task.cancelled()

    assert True is house.run(interrupted())
    assert BOOKED == house.restart().call().value
    assert (1, 1) == (len(house.hotel.effects), house.hotel.cleaned)


def test_a_busy_ledger_is_waited_for(fresh):
    """A ledger that another process writes to is asked again, for a while."""
    other = sqlite3.connect(fresh.folder / "ledger.sqlite3", isolation_level=None)

    async def held(ms):
        other.execute("BEGIN IMMEDIATE")
        fresh.loop.call_later(ms / 1000, partial(other.execute, "ROLLBACK"))
        return await fresh.boundary.call(CALL)

    assert Code.NOT_APPROVED is fresh.run(held(100)).error.code
    assert Code.LEDGER is fresh.run(held(10_000)).error.code
    other.close()


def test_a_ledger_out_of_reach_leaves_the_outcome_open(house):
    """Where the ledger cannot be written after the send the call is unknown; the next one finds what became of it."""
    other = sqlite3.connect(house.folder / "ledger.sqlite3", isolation_level=None)

    async def act_and_lock(request):
        other.execute("BEGIN IMMEDIATE")
        return await house.hotel.act(request)

    house.hotel.script = [act_and_lock]
    result = house.call()
    assert (Status.UNKNOWN, Code.LEDGER) == (result.status, result.error.code)
    assert (Status.REFUSED, Code.LEDGER) == (house.call().status, house.call().error.code)
    other.close()
    house.loop.stall(house.loop.now_us + 100_000)
    assert (Status.REPLAYED, BOOKED, 1) == (house.call().status, house.call().value, len(house.hotel.effects))


# -- what is documented -------------------------------------------------------------------------------------------


def test_the_documents_script_prints_what_it_says(tmp_path):
    """The script in docs/tools.md runs as it stands, and prints what stands under it."""
    text = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()
    script, printed = (re.search(rf"```{kind}\n(.*?)```", text, re.DOTALL)[1] for kind in ("python", "text"))
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (printed, "", 0) == (done.stdout, done.stderr, done.returncode)


def test_the_document_names_every_word():
    """Every status and every code has its place in the tables of docs/tools.md."""
    text = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()
    assert [] == [str(word) for word in (*Status, *Code) if f"`{word}`" not in text]


# -- what can be offered ------------------------------------------------------------------------------------------


async def nothing(request):
    """A tool that does nothing."""


@pytest.mark.parametrize("name", ["", "book room", "x" * 65, "a/b", None, 7])
def test_a_name_can_be_called(name):
    """A name that a model could not call is refused."""
    with pytest.raises(BadToolNameError, match=r"rename it"):
        Tool(name, ROOM, nothing)


def test_a_name_is_given_once(house):
    """Two tools of one name are refused."""
    with pytest.raises(NameTakenError, match="book_room"):
        ToolBoundary(house.dispatcher, [house.tool(), house.tool()], draws=Longest(), scope="s")


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        (5, r"tools is 5, .*: .*; give a list"),
        (Tool("t", ROOM, nothing), r"tools is Tool\(name='t'\), .*: .*; give a list"),
        ([5], r"tools\[0\] is 5, not a Tool: .*; make it Tool\("),
        ([Tool("t", ROOM, nothing), nothing], r"tools\[1\] is <function nothing .*, not a Tool: .*; make it"),
        ({"t": Tool("t", ROOM, nothing)}, r"tools\[0\] is 't', not a Tool: .*; make it"),
        ([Tool], r"tools\[0\] is <class .*, not a Tool: .*; make it"),
    ],
    ids=["a number", "one tool", "a number in it", "a function", "a dict", "the class"],
)
def test_what_is_no_tool_is_told(house, tools, said):
    """What is no list of tools is refused with the value, the reason and what would be right."""
    with pytest.raises(NotAToolError, match=said):
        ToolBoundary(house.dispatcher, tools, draws=Longest(), scope="s")


@pytest.mark.parametrize("call", [print, None, len, Hotel])
def test_an_effect_is_async(call):
    """An effect, or a lookup, that could not be interrupted is refused."""
    with pytest.raises(NotAsyncError, match="async def"):
        Tool("t", ROOM, call)
    if call is not None:
        with pytest.raises(NotAsyncError, match="async def"):
            Tool("t", ROOM, nothing, call)


class Callable:
    """An object whose call is a coroutine function."""

    async def __call__(self, request):
        return await nothing(request)


@pytest.mark.parametrize("call", [nothing, partial(nothing), Callable()])
def test_what_is_async_is_taken(call):
    """Functions, methods, partials and objects are taken, where calling them is async."""
    assert call is Tool("t", ROOM, call, call).effect


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (None, "not a dict"),
        (True, "not a dict"),
        ({"type": "string"}, "always an object"),
        ({"type": "object", "required": "room"}, r"not valid at \$.required"),
        ({"properties": {"a": {"type": "text"}}}, r"not valid at \$.properties.a.type"),
        ({"properties": {"a": {"pattern": "("}}}, r"not valid at \$.properties.a.pattern"),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "not in it"),
        ({"properties": {"a": {"$ref": "https://example.com/a"}}}, "nothing is fetched"),
        ({"$schema": "https://example.com/schema"}, "not known"),
        ({"default": {1, 2}}, "not JSON"),
        ({"default": math.nan}, "not JSON"),
    ],
)
def test_a_schema_is_checked_when_it_is_offered(schema, reason):
    """A schema that is none, or could not be used, is refused with the place and the reason."""
    with pytest.raises(BadToolSchemaError, match=reason):
        Tool("t", schema, nothing)


def test_a_schema_is_copied():
    """A schema that is changed after it was offered changes no check."""
    schema = {"required": ["a"]}
    tool = Tool("t", schema, nothing)
    schema["required"].clear()
    assert False is tool.validator.is_valid({})


def test_a_schema_that_refers_to_itself_without_end_is_told(house):
    """A call is refused, not broken off, where its tool's schema cannot be used."""
    tool = Tool("loop", {"$ref": "#"}, nothing)
    boundary = ToolBoundary(house.dispatcher, [tool], draws=Longest(), scope="s")
    result = house.run(boundary.call({"id": "1", "name": "loop", "arguments": {}}))
    assert (Status.REFUSED, Code.AGAINST_SCHEMA) == (result.status, result.error.code)

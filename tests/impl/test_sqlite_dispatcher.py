"""The SQLite dispatcher: one operation, one transaction; its gate, its leases, and its files when they are wrong."""

from __future__ import annotations

import ast
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from attrs import evolve

import impl.sqlite
from impl.approvals import digest_of, signed
from impl.protocol import (
    Answer,
    Decision,
    Dispatcher,
    NoAnswerError,
    Overdue,
    Permit,
    Request,
    SinkAnswer,
    Site,
    Verdict,
)
from impl.sqlite import (
    BusyStoreError,
    DamagedCheckpointError,
    DamagedStoreError,
    RealFiles,
    SqliteDispatcher,
    SqliteSink,
    UnavailableStoreError,
)
from impl.sqlite.store import code_of, is_busy, make_folder
from model.contracts import ApprovalGate, Contracts, Deadline, Fencing, Limits
from model.words import Capability, Kind

ROOM, CAR = {"book": "room"}, {"book": "car"}
KEYS = {"alice": b"a" * 32, "mallory": b"m" * 32}


class StoppedClock:
    """A clock that stands still until it is set."""

    def __init__(self):
        self.at_ms = 0

    def now_ms(self):
        return self.at_ms

    def wall_ms(self):
        return self.at_ms


class ScriptedSink:
    """The real sink behind a line that can be cut, or a sink that gives one scripted answer."""

    def __init__(self, real):
        self.real = real
        self.lost_request = self.lost_answer = False
        self.scripted = None
        self.seen = []

    def apply(self, request):
        self.seen.append(request)
        if self.lost_request:
            raise NoAnswerError
        answer = self.scripted or self.real.apply(request)
        if self.lost_answer:
            raise NoAnswerError
        return answer

    def lookup(self, key, payload, token):
        if self.lost_request:
            raise NoAnswerError
        return self.scripted or self.real.lookup(key, payload, token)


class House:
    """A folder with a ledger, a sink and a checkpoint, and the people around it."""

    def __init__(self, folder, **choices):
        self.contracts = Contracts(**choices)
        self.clock = StoppedClock()
        self.folder = folder
        sink_path = folder / "sink" / "sink.sqlite3"
        self.sink = ScriptedSink(SqliteSink(sink_path, sqlite3.connect, self.clock, self.contracts))
        self.opened = [self.sink.real]

    def site(self, worker="w1", connect=sqlite3.connect):
        return Site(
            folder=self.folder,
            worker=worker,
            contracts=self.contracts,
            limits=Limits(),
            clock=self.clock,
            files=RealFiles(),
            sink=self.sink,
            connect=connect,
            approver_keys=KEYS,
            lease_ms=100,
            live_settings={},
        )

    def worker(self, name="w1", connect=sqlite3.connect):
        self.opened.append(SqliteDispatcher(self.site(name, connect)))
        return self.opened[-1]

    def decision(self, payload=ROOM, verdict="grant", approver="alice", revision=1):
        expiry_ms = self.clock.at_ms + 250
        decision = Decision("k1", digest_of(payload), approver, verdict, expiry_ms, revision)
        return signed(decision, KEYS[approver])

    def row(self, table, columns="*"):
        connection = sqlite3.connect(self.folder / "ledger.sqlite3")
        row = connection.execute(f"SELECT {columns} FROM {table} WHERE key = 'k1'").fetchone()  # noqa: S608
        connection.close()
        return row

    def close(self):
        for one in self.opened:
            one.close()


@pytest.fixture
def build(tmp_path):
    """Build houses under given contracts."""
    houses = []

    def build_house(**choices):
        houses.append(House(tmp_path, **choices))
        return houses[-1]

    yield build_house
    for house in houses:
        house.close()


@pytest.fixture
def house(build):
    """A house under the default contracts."""
    return build()


def ready(house, name="w1"):
    """A worker that has submitted, approved and claimed k1 and may send."""
    worker = house.worker(name)
    worker.submit("k1", ROOM)
    worker.decide(house.decision())
    return worker, worker.claim("k1").token


def test_it_is_a_dispatcher_with_every_capability(house):
    """The protocol is met, and everything is declared."""
    assert isinstance(house.worker(), Dispatcher)
    assert SqliteDispatcher.capabilities == frozenset(Capability)


def test_a_wish_becomes_one_recorded_effect(house):
    """Submit, approve, claim, dispatch, acknowledge, checkpoint: the straight way through the house."""
    worker, token = ready(house)
    answer = worker.dispatch("k1", token)
    assert answer == Answer(Kind.OK, receipt="r-1")
    assert worker.acknowledge("k1", token, answer) == Answer(Kind.OK)
    assert worker.checkpoint("k1", token, "r-1") == Answer(Kind.OK)
    assert house.row("intents", "state, attempts, receipt, token_high") == ("completed", 1, "r-1", 1)
    assert house.row("leases") is None
    assert worker.dispatch("k1", token) == Answer(Kind.REPLAYED, receipt="r-1")


def test_a_changed_payload_is_refused_after_a_restart(house):
    """The key holds its first payload."""
    house.worker().submit("k1", ROOM)
    worker = house.worker()
    assert worker.submit("k1", CAR).kind is Kind.REFUSED
    assert worker.submit("k1", dict(reversed(ROOM.items()))).kind is Kind.REPLAYED


@pytest.mark.parametrize("payload", [object(), float("nan"), 2**60, "\ud800"])
def test_a_payload_that_is_not_json_is_refused(house, payload):
    """What has no canonical form has no digest."""
    answer = house.worker().submit("k1", payload)
    assert answer.kind is Kind.REFUSED
    assert "not canonical JSON" in answer.reason
    assert house.row("intents") is None


def test_tokens_rise_across_release_and_expiry(house):
    """A token is never granted twice."""
    worker, token = ready(house)
    worker.release("k1", token)
    assert worker.claim("k1").token == token + 1
    house.clock.at_ms = 100
    assert house.worker("w2").claim("k1").token == token + 2


@pytest.mark.parametrize(("now_ms", "kind"), [(99, Kind.REFUSED), (100, Kind.OK), (101, Kind.OK)])
def test_a_lease_bars_others_until_its_expiry(house, now_ms, kind):
    """At its expiry a lease is no longer valid."""
    ready(house)
    house.clock.at_ms = now_ms
    assert house.worker("w2").claim("k1").kind is kind


@pytest.mark.parametrize(("now_ms", "kind"), [(99, Kind.OK), (100, Kind.REFUSED), (101, Kind.REFUSED)])
def test_a_lease_is_renewed_only_while_it_is_valid(house, now_ms, kind):
    """Whoever slept too long has to claim anew."""
    worker, token = ready(house)
    house.clock.at_ms = now_ms
    assert worker.renew("k1", token).kind is kind


def test_a_former_owner_changes_nothing(house):
    """Every write of an older token is refused."""
    old, token = ready(house)
    answer = old.dispatch("k1", token)
    house.clock.at_ms = 100
    house.worker("w2").claim("k1")
    before = house.row("intents"), house.row("leases")
    answers = [
        old.renew("k1", token),
        old.release("k1", token),
        old.dispatch("k1", token),
        old.acknowledge("k1", token, answer),
        old.checkpoint("k1", token, "r-1"),
        old.reconcile("k1", token),
    ]
    assert [a.reason for a in answers] == ["lease is gone"] * 6
    assert (house.row("intents"), house.row("leases")) == before
    assert not (house.folder / "checkpoint" / "checkpoint.json").exists()


def test_a_takeover_fences_the_former_owner_off_before_it_is_granted(house):
    """Whoever froze between authorising and sending is refused by the sink, though the new owner has sent nothing."""
    old, token = ready(house)
    permit = old.authorise("k1", token)
    house.clock.at_ms = 100
    house.worker("w2").claim("k1")
    assert old.apply(permit) == Answer(Kind.ERROR, "stale")


def test_a_takeover_waits_for_the_sink(house):
    """While the sink is silent nobody is granted a key that may be in flight."""
    old, token = ready(house)
    old.authorise("k1", token)
    house.clock.at_ms = 100
    house.sink.lost_request = True
    before = house.row("intents"), house.row("leases")
    assert house.worker("w2").claim("k1") == Answer(Kind.UNKNOWN, "no answer")
    assert (house.row("intents"), house.row("leases")) == before


def test_a_takeover_that_was_outrun_is_refused(house):
    """The token that the sink was told of must be the one that is granted."""
    old, token = ready(house)
    old.authorise("k1", token)
    house.clock.at_ms = 100
    slow, fast = house.worker("w2"), house.worker("w3")
    request = slow.ledger.claim("k1")
    fast.release("k1", fast.claim("k1").token)
    assert slow.ledger.take_over("k1", request.token).kind is Kind.REFUSED


def test_attempts_are_counted_before_the_send(house):
    """A worker that dies between authorising and sending has used an attempt."""
    worker, token = ready(house)
    assert isinstance(worker.authorise("k1", token), Permit)
    assert house.row("intents", "state, attempts") == ("dispatching", 1)
    assert house.row("approvals", "status") == ("spent",)


def test_attempts_are_bounded(house):
    """The third attempt is the last, and is the end of it."""
    worker, token = ready(house)
    house.sink.scripted = SinkAnswer(Verdict.TRANSIENT)
    for _ in range(3):
        answer = worker.dispatch("k1", token)
        assert answer == Answer(Kind.ERROR, "transient")
        worker.acknowledge("k1", token, answer)
    assert house.row("intents", "state, attempts") == ("failed", 3)
    assert len(house.sink.seen) == 3


def test_the_request_carries_the_stored_payload_and_deadline(build):
    """What is sent is read from the ledger."""
    house = build()
    worker, token = ready(house)
    worker.dispatch("k1", token)
    assert house.sink.seen == [Request("k1", ROOM, token, 600)]


@pytest.mark.parametrize(("asked_ms", "stored_ms"), [(599, 599), (600, 600), (601, 600)])
def test_a_client_brings_its_deadline_forward(house, asked_ms, stored_ms):
    """An intent's deadline is its client's or the limit's, whichever is sooner, and a second submission moves neither."""
    worker = house.worker()
    worker.submit("k1", ROOM, asked_ms)
    worker.submit("k1", ROOM, 1)
    assert (stored_ms,) == house.row("intents", "deadline_ms")


def test_without_an_absolute_deadline_none_is_sent(build):
    """A limit of each attempt bounds nothing at the sink."""
    house = build(deadline=Deadline.PER_ATTEMPT)
    worker, token = ready(house)
    worker.dispatch("k1", token)
    assert house.sink.seen[0].not_after_ms is None


@pytest.mark.parametrize("scripted", [SinkAnswer(Verdict.DONE), SinkAnswer(Verdict.ABSENT)])
def test_an_unclear_answer_is_unknown(house, scripted):
    """Neither a receipt nor a clear no: the outcome stays open, and is recorded so."""
    worker, token = ready(house)
    house.sink.scripted = scripted
    answer = worker.dispatch("k1", token)
    assert answer == Answer(Kind.UNKNOWN, f"unclear answer {scripted.verdict.value}")
    worker.acknowledge("k1", token, answer)
    assert house.row("intents", "state, in_doubt") == ("unknown", 1)
    house.sink.scripted = SinkAnswer(Verdict.LATE)
    assert worker.reconcile("k1", token).kind is Kind.UNKNOWN


def test_a_lost_answer_is_reconciled(house):
    """Silence is neither success nor failure until the sink is asked."""
    worker, token = ready(house)
    house.sink.lost_answer = True
    answer = worker.dispatch("k1", token)
    assert answer == Answer(Kind.UNKNOWN, "no answer")
    worker.acknowledge("k1", token, answer)
    house.sink.lost_request = True
    assert worker.reconcile("k1", token).kind is Kind.UNKNOWN
    house.sink.lost_request = False
    assert worker.reconcile("k1", token) == Answer(Kind.REPLAYED, receipt="r-1")
    assert house.row("intents", "state, receipt") == ("completed", "r-1")


def test_a_found_effect_without_a_receipt_settles_nothing(house):
    """Who says that it has acted and cannot name the effect is asked again."""
    worker, token = ready(house)
    house.sink.lost_answer = True
    worker.acknowledge("k1", token, worker.dispatch("k1", token))
    house.sink.scripted = SinkAnswer(Verdict.DONE)
    assert worker.reconcile("k1", token) == Answer(Kind.UNKNOWN, "no answer")
    assert house.row("intents", "state, receipt") == ("unknown", "")


def test_an_effect_of_another_payload_ends_the_intent(house):
    """No attempt can succeed where the sink holds the key for something else, so none of those left is made."""
    worker, token = ready(house)
    house.sink.lost_answer = True
    worker.acknowledge("k1", token, worker.dispatch("k1", token))
    house.sink.scripted = SinkAnswer(Verdict.CONFLICT)
    assert worker.reconcile("k1", token) == Answer(Kind.OK)
    assert house.row("intents", "state, attempts") == ("failed", 1)


def test_a_lost_request_gives_the_approval_back(house):
    """An approval that was spent on nothing may be used again."""
    worker, token = ready(house)
    house.sink.lost_request = True
    worker.dispatch("k1", token)
    house.sink.lost_request = False
    assert worker.reconcile("k1", token) == Answer(Kind.OK)
    assert house.row("intents", "state, cleaned") == ("pending", 0)
    assert house.row("approvals", "status") == ("granted",)


def test_a_cancellation_that_came_in_time_has_cleaned_up_once(house):
    """It was only noted while a send was open; the sink knows of no effect, so it wins, and its clean-up is on record."""
    worker, token = ready(house)
    house.sink.lost_request = True
    worker.dispatch("k1", token)
    assert worker.cancel("k1").kind is Kind.UNKNOWN
    house.sink.lost_request = False
    assert worker.reconcile("k1", token) == Answer(Kind.OK)
    assert house.row("intents", "state, cleaned, in_doubt") == ("cancelled", 1, 0)
    assert house.row("leases") is None


@pytest.mark.parametrize("change", [{"signature": "0" * 64}, {"expiry_ms": 9999}, {"revision": 2}, {"key": "k2"}])
def test_a_decision_that_was_tampered_with_stays_at_the_door(house, change):
    """The signature covers every word of a decision."""
    worker = house.worker()
    worker.submit("k1", ROOM)
    worker.submit("k2", ROOM)
    assert worker.decide(evolve(house.decision(), **change)).reason == "signature does not match"
    assert house.row("approvals") is None


def test_an_intruder_who_signs_properly_stays_at_the_door(house):
    """To hold a key is not to be an approver."""
    worker = house.worker()
    worker.submit("k1", ROOM)
    assert worker.decide(house.decision(approver="mallory")).reason == "not an approver"


def test_an_unknown_verdict_is_refused(house):
    """Only grant, deny and revoke mean anything."""
    worker = house.worker()
    worker.submit("k1", ROOM)
    assert worker.decide(house.decision(verdict="perhaps")).kind is Kind.REFUSED


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE approvals SET signature = ''",
        "UPDATE approvals SET expiry_ms = 100000",
        "UPDATE approvals SET approver = 'mallory'",
    ],
)
def test_a_row_that_was_tampered_with_does_not_open_the_gate(house, tampering):
    """The stored approval is authenticated again before the send."""
    worker, token = ready(house)
    with sqlite3.connect(house.folder / "ledger.sqlite3") as connection:
        connection.execute(tampering)
    connection.close()
    assert worker.dispatch("k1", token).reason == "approval is not authentic"
    assert house.sink.seen == []


def test_a_trusted_caller_is_not_asked_for_a_signature(build):
    """Under the caller contract any stored grant opens the gate."""
    house = build(approval=ApprovalGate.CALLER)
    worker = house.worker()
    worker.submit("k1", ROOM)
    worker.decide(evolve(house.decision(CAR, approver="mallory"), signature=""))
    assert worker.dispatch("k1", worker.claim("k1").token).kind is Kind.OK


def test_an_older_policy_does_not_come_back(house):
    """Old approvals stay invalid."""
    worker = house.worker()
    assert worker.set_policy(2) == Answer(Kind.OK, count=2)
    assert worker.set_policy(1).kind is Kind.REFUSED
    assert worker.policy_revision() == 2


def test_the_policy_in_force_may_be_set_again(house):
    """A revision that is no older than the one in force is accepted."""
    worker = house.worker()
    worker.set_policy(2)
    assert worker.set_policy(2) == Answer(Kind.OK, count=2)


def test_a_denial_comes_too_late_for_what_is_in_flight(house):
    """A denied operation whose send may have acted is not ended: only the sink can say what became of it."""
    worker, token = ready(house)
    house.sink.lost_answer = True
    worker.acknowledge("k1", token, worker.dispatch("k1", token))
    assert worker.decide(house.decision(verdict="deny")).kind is Kind.UNKNOWN
    assert house.row("intents", "state") == ("unknown",)


def test_advice_against_it_does_not_end_an_intent(build):
    """Where approvals are advice, a denial is noted, and the intent stays pending."""
    house = build(approval=ApprovalGate.ADVISORY)
    worker = house.worker()
    worker.submit("k1", ROOM)
    assert worker.decide(house.decision(verdict="deny")).kind is Kind.UNKNOWN
    assert house.row("intents", "state") == ("pending",)


@pytest.mark.parametrize("seen", [Overdue("k1", 1, 90), Overdue("k1", 2, 100)])
def test_what_is_overdue_but_not_as_it_was_seen_is_not_reaped(house, seen):
    """A lease that has run out since is left to whoever sees it now: its token or its expiry is another."""
    worker, _ = ready(house)
    house.clock.at_ms = 100
    assert worker.reap((seen,)) == Answer(Kind.OK)
    assert house.row("leases", "token") == (1,)


def test_a_takeover_asks_for_the_payload_that_is_stored(house):
    """The sink is asked about the former owner's payload, which it holds its key to."""
    worker, token = ready(house)
    house.sink.lost_answer = True
    worker.dispatch("k1", token)
    house.clock.at_ms = 100
    asked = []
    house.sink.lookup = lambda *arguments: (asked.append(arguments), SinkAnswer(Verdict.ABSENT))[1]
    house.worker("w2").claim("k1")
    assert asked == [("k1", ROOM, 2)]


def test_a_renewed_lease_is_not_reaped(house):
    """What was seen overdue is looked at again before it is cleared."""
    worker, _ = ready(house)
    house.clock.at_ms = 100
    seen = worker.overdue()
    assert [(o.key, o.token, o.expiry_ms) for o in seen] == [("k1", 1, 100)]
    house.worker("w2").claim("k1")
    assert worker.reap(seen) == Answer(Kind.OK)
    house.clock.at_ms = 200
    assert worker.reap(worker.overdue()) == Answer(Kind.OK, count=1)


def test_a_busy_ledger_refuses_and_changes_nothing(house):
    """While another connection holds the lock, every answer is a refusal."""
    worker, token = ready(house)
    before = house.row("intents"), house.row("leases")
    other = sqlite3.connect(house.folder / "ledger.sqlite3", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    answers = [
        worker.submit("k1", ROOM),
        worker.claim("k1"),
        worker.renew("k1", token),
        worker.dispatch("k1", token),
        worker.reconcile("k1", token),
        worker.checkpoint("k1", token, ""),
        worker.cancel("k1"),
        worker.reap(()),
    ]
    assert set(answers) == {Answer(Kind.REFUSED, "busy")}
    assert worker.overdue() == ()
    with pytest.raises(BusyStoreError):
        worker.policy_revision()
    other.close()
    assert (house.row("intents"), house.row("leases")) == before


class FailingConnection(sqlite3.Connection):
    """A connection whose n-th statement, counted from now, raises instead of running, and all later ones too."""

    fail_at = 0
    error: BaseException = RuntimeError("planted")

    def execute(self, *args):
        self.fail_at -= 1
        if self.fail_at == 0 or self.fail_at < -1000:
            self.fail_at = -1000
            raise self.error
        return super().execute(*args)


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), sqlite3.OperationalError("disk I/O error"), RuntimeError("planted")]
)
def test_an_error_at_any_statement_undoes_the_operation_and_passes_as_it_is(house, error):
    """Fail at the first statement, the second, until none is left: a claim happens wholly or not at all."""
    house.worker().submit("k1", ROOM)
    for n in range(1, 20):
        worker = house.worker(connect=lambda path: sqlite3.connect(path, factory=FailingConnection))
        before = house.row("intents"), house.row("leases")
        worker.ledger._connection.error = error
        worker.ledger._connection.fail_at = n
        raised = None
        try:
            worker.claim("k1")
        except BaseException as caught:  # noqa: BLE001  # whatever was planted
            raised = caught
        worker.close()
        if raised is None:
            break
        assert raised is error
        assert (house.row("intents"), house.row("leases")) == before
    assert n == 6


def test_a_failure_before_anything_was_written_is_a_refusal(house):
    """Storage that fails at the first statement after BEGIN has stored nothing, and nobody need doubt it."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    worker = house.worker(connect=lambda path: sqlite3.connect(path, factory=FailingConnection))
    worker.ledger._connection.error, worker.ledger._connection.fail_at = error, 2
    assert worker.submit("k1", ROOM) == Answer(Kind.REFUSED, "ledger.sqlite3: storage failed (disk I/O error)")


def test_time_is_read_under_the_lock(house):
    """A worker that waited for the lock judges by the time at which it got it."""
    order = []

    class Listening(sqlite3.Connection):
        def execute(self, *args):
            order.append(args[0].split()[0])
            return super().execute(*args)

    worker, token = ready(house)
    worker = house.worker(connect=lambda path: sqlite3.connect(path, factory=Listening))
    house.clock.now_ms = lambda: order.append("now") or 0
    order.clear()
    worker.renew("k1", token)
    assert order == ["BEGIN", "now", "SELECT", "INSERT", "COMMIT"]


def test_opening_an_existing_store_takes_three_statements(house):
    """Incarnations are short and many."""
    seen = []

    class Listening(sqlite3.Connection):
        def execute(self, *args):
            seen.append(args[0])
            return super().execute(*args)

    house.worker()
    house.worker(connect=lambda path: sqlite3.connect(path, factory=Listening))
    assert len(seen) == 3


def test_without_fencing_a_former_owner_may_acknowledge(build):
    """The weaker contract is kept as it is, so that its price can be seen."""
    house = build(fencing=Fencing.CLAIM_ONLY)
    old, token = ready(house)
    answer = old.dispatch("k1", token)
    house.clock.at_ms = 100
    house.worker("w2").claim("k1")
    assert old.acknowledge("k1", token, answer) == Answer(Kind.OK)


def test_a_ledger_that_is_no_database_is_refused_and_kept(house):
    """An empty ledger in its place would forget every intent."""
    path = house.folder / "ledger.sqlite3"
    path.write_bytes(b"garbage" * 1000)
    with pytest.raises(DamagedStoreError, match="not a database") as caught:
        house.worker()
    assert str(path) in str(caught.value)
    assert path.read_bytes() == b"garbage" * 1000


def test_a_schema_from_the_future_is_refused(house):
    """A newer program may keep promises in tables that this one does not know."""
    house.worker().close()
    connection = sqlite3.connect(house.folder / "ledger.sqlite3")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(DamagedStoreError, match="schema version 99, and this program knows 1"):
        house.worker()


def test_a_ledger_that_is_refused_is_let_go_of(house):
    """What was opened is closed again where the file turns out to be another program's."""
    house.worker().close()
    with closing(sqlite3.connect(house.folder / "ledger.sqlite3")) as connection:
        connection.execute("PRAGMA user_version = 99")
    opened = []

    def noted(path):
        opened.append(sqlite3.connect(path))
        return opened[-1]

    with pytest.raises(DamagedStoreError, match="schema version 99"):
        house.worker(connect=noted)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        opened[-1].execute("SELECT 1")


def test_an_error_without_a_code_is_told_by_its_words():
    """A driver that sets no code says in words that a lock is taken; anything else has the code 0."""
    assert is_busy(sqlite3.OperationalError("database is locked"))
    assert not is_busy(sqlite3.OperationalError("no such table: leases"))
    assert 0 == code_of(sqlite3.OperationalError("database is locked"))


def test_a_death_while_the_schema_is_made_leaves_no_half_of_it(house):
    """Whoever opens the file next makes the whole schema."""
    connections = []

    def connect(n, path):
        connections.append(sqlite3.connect(path, factory=FailingConnection))
        connections[-1].error, connections[-1].fail_at = KeyboardInterrupt(), n
        return connections[-1]

    for n in range(1, 20):
        died = False
        try:
            house.worker(connect=partial(connect, n)).close()
        except KeyboardInterrupt:
            died = True
        connections.pop().close()  # as the system does for a dead process
        worker = house.worker()
        assert worker.submit("k1", ROOM) == Answer(Kind.OK)
        worker.close()
        (house.folder / "ledger.sqlite3").unlink()
        if not died:
            break
    assert 8 < n < 19


def test_a_torn_checkpoint_stops_the_worker(house):
    """The ledger's lock is given back, and the file is left for somebody to look at."""
    worker, token = ready(house)
    path = house.folder / "checkpoint" / "checkpoint.json"
    path.write_bytes(b'{"keys":{"k1"')
    with pytest.raises(DamagedCheckpointError, match="torn"):
        worker.checkpoint("k1", token, "r-1")
    assert worker.renew("k1", token) == Answer(Kind.OK)


def test_a_folder_that_cannot_be_made_is_named(house):
    """Nobody, root included, makes folders under /proc."""
    with pytest.raises(UnavailableStoreError, match="/proc/nowhere"):
        SqliteDispatcher(evolve(house.site(), folder=Path("/proc/nowhere")))


def test_a_folder_that_somebody_makes_meanwhile_is_there(tmp_path, monkeypatch):
    """Between the look and the making another process may have been faster, which is no error."""
    looks = iter([False, True])
    monkeypatch.setattr(Path, "is_dir", lambda path: next(looks))
    assert make_folder(tmp_path)


def test_only_a_folder_is_synced_as_one(tmp_path):
    """Whoever takes a file for a folder has made no name durable, and is told."""
    path = tmp_path / "file"
    RealFiles().write_new(path, b"")
    with pytest.raises(NotADirectoryError):
        RealFiles().sync_folder(path)


def test_a_ledger_that_may_only_be_read_is_named(house):
    """A read-only disk is the operator's to mend: the first write is refused, and says which file it was."""
    house.worker().close()
    reading = house.worker(connect=lambda path: sqlite3.connect(f"file:{path}?mode=ro", uri=True))
    reason = "ledger.sqlite3: cannot be opened for writing (attempt to write a readonly database)"
    assert Answer(Kind.REFUSED, reason) == reading.submit("k1", ROOM)


def test_it_does_not_know_the_models_transition_function():
    """Of the model it shares words and contracts alone."""
    known = set()
    for path in Path(impl.sqlite.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                known.add(node.module)
            elif isinstance(node, ast.Import):
                known |= {alias.name for alias in node.names}
    assert {m for m in known if m.split(".")[0] in {"model", "stateful"}} == {"model.words", "model.contracts"}

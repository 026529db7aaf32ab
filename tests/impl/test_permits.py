"""Permits in SQLite: counted and taken with the claim, given back with the lease, and free without a limit."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from attrs import evolve

from impl.protocol import Site
from impl.sqlite import RealFiles, SqliteDispatcher, SqliteSink
from model.contracts import Contracts, Limits
from model.words import Kind

ROOM = {"book": "room"}
TABLES = "SELECT name FROM sqlite_master WHERE name = 'permits'"


class StoppedClock:
    """A clock that stands still until it is set."""

    at_ms = 0

    def now_ms(self):
        return self.at_ms

    def wall_ms(self):
        return self.at_ms


@pytest.fixture
def clock():
    return StoppedClock()


@pytest.fixture
def opened(tmp_path, clock):
    """A dispatcher on one folder, for each limit and worker that is asked for; closed in the end."""
    said, made = [], []

    def connect(path):
        connection = sqlite3.connect(path, timeout=0)
        connection.set_trace_callback(said.append)
        return connection

    def make(permits, worker="w1"):
        sink = SqliteSink(tmp_path / "sink.sqlite3", connect, clock, Contracts())
        made.append(sink)
        limits = Limits(permits=permits)
        site = Site(
            folder=tmp_path,
            worker=worker,
            contracts=Contracts(),
            limits=limits,
            clock=clock,
            files=RealFiles(),
            sink=sink,
            connect=connect,
            approver_keys={},
            lease_ms=limits.lease_ms,
            live_settings={},
        )
        made.append(SqliteDispatcher(site))
        made[-1].said = said
        return made[-1]

    yield make
    for one in made:
        one.close()


def rows(folder, sql):
    with closing(sqlite3.connect(folder / "ledger.sqlite3")) as ledger:
        return [row[0] for row in ledger.execute(sql)]


def submitted(dispatcher, *keys):
    for key in keys:
        dispatcher.submit(key, ROOM)
    return dispatcher


def test_the_limit_is_kept_between_workers(opened, tmp_path):
    """What one worker has in hand bars another from a second key, and the permit is on disk."""
    first, second = submitted(opened(1), "a", "b"), opened(1, "w2")
    granted = first.claim("a")
    refused = second.claim("b")

    assert (Kind.OK, Kind.REFUSED, "no permit left") == (granted.kind, refused.kind, refused.reason)
    assert ["a"] == rows(tmp_path, "SELECT key FROM permits")


def test_a_permit_that_came_back_is_taken_by_another(opened, tmp_path):
    """A release gives it back, in the transaction that drops the lease."""
    first, second = submitted(opened(1), "a", "b"), opened(1, "w2")
    first.release("a", first.claim("a").token)

    assert [] == rows(tmp_path, "SELECT key FROM permits")
    assert Kind.OK is second.claim("b").kind


def test_a_lease_that_ran_out_holds_none(opened, clock, tmp_path):
    """Its permit stays until somebody clears it away, and does not count; the reaper takes it with the lease."""
    one = submitted(opened(1), "a", "b")
    one.claim("a")
    clock.at_ms = 100

    assert Kind.OK is one.claim("b").kind
    assert ["a", "b"] == rows(tmp_path, "SELECT key FROM permits")
    one.reap(one.overdue())
    assert ["b"] == rows(tmp_path, "SELECT key FROM permits")


def test_without_a_limit_nothing_is_paid(opened, tmp_path):
    """There is no table, and no statement names permits; with a limit the same calls do."""
    submitted(opened(None), "a", "b").claim("a")
    spared = rows(tmp_path, TABLES), [sql for sql in opened(None).said if "permits" in sql]
    limited = opened(1)
    limited.claim("b")

    assert ([], []) == spared
    assert ["permits"] == rows(tmp_path, TABLES)
    assert [sql for sql in limited.said if "FROM permits" in sql]


def test_who_is_at_work_when_the_limit_is_set_has_a_permit(opened, tmp_path):
    """The leases that there are count from then on, and each gives its permit back like any other."""
    token = submitted(opened(None), "a", "b").claim("a").token
    limited = opened(1, "w2")

    assert ["a"] == rows(tmp_path, "SELECT key FROM permits")
    assert Kind.REFUSED is limited.claim("b").kind
    limited.release("a", token)
    assert Kind.OK is limited.claim("b").kind


def test_two_permits_are_two(opened):
    """The third key is refused, and a key that is taken over needs no second permit."""
    one = submitted(opened(2), "a", "b", "c")
    kinds = [one.claim(key).kind for key in ("a", "b", "c")]

    assert [Kind.OK, Kind.OK, Kind.REFUSED] == kinds


def test_the_limit_is_read_where_it_is_given(opened):
    """Each site says how many permits there are; a greater limit opens at once what a smaller one refused."""
    small, large = submitted(opened(1), "a", "b"), opened(2, "w2")
    small.claim("a")

    assert [Kind.REFUSED, Kind.OK] == [one.claim("b").kind for one in (small, large)]
    assert evolve(small.site.limits, permits=2) == large.site.limits

"""The SQLite sink: it binds a key to a payload, fences older tokens, and counts what reaches it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from impl.approvals import digest_of
from impl.protocol import NoAnswerError, Request, SinkAnswer, Verdict
from impl.sqlite import DamagedStoreError, SqliteSink, UnavailableStoreError
from model.contracts import Contracts, Durability, Fencing, Idempotency

ROOM, CAR = {"book": "room"}, {"book": "car"}


class StoppedClock:
    """A clock that stands still until it is set."""

    def __init__(self):
        self.at_ms = 0

    def now_ms(self):
        return self.at_ms

    def wall_ms(self):
        return self.at_ms


@pytest.fixture
def clock():
    """One clock a test."""
    return StoppedClock()


@pytest.fixture
def opened(tmp_path, clock):
    """Open sinks under given contracts on one file."""
    sinks = []

    def open_sink(**choices):
        sinks.append(SqliteSink(tmp_path / "sink" / "sink.sqlite3", sqlite3.connect, clock, Contracts(**choices)))
        return sinks[-1]

    yield open_sink
    for sink in sinks:
        sink.close()


def rows(sink, table):
    """A table's rows, as an oracle reads them."""
    return sink._connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608  # our own table


def test_an_effect_is_stored_with_its_own_digest(opened, clock):
    """The sink computes the digest itself and names the effect by its row."""
    clock.at_ms = 7
    sink = opened()
    assert sink.apply(Request("k1", ROOM, 2)) == SinkAnswer(Verdict.DONE, "r-1")
    assert rows(sink, "effects") == [(1, "k1", digest_of(ROOM), '{"book":"room"}', 2, 7, "r-1")]
    assert rows(sink, "keys") == [("k1", 1, 2, 0)]


def test_a_repetition_is_answered_with_the_first_receipt(opened):
    """The key is bound to its first effect, by meaning and not by spelling, across restarts too."""
    opened().apply(Request("k1", {"a": 1, "b": 2}, 1))
    sink = opened()
    assert sink.apply(Request("k1", {"b": 2.0, "a": 1}, 2)) == SinkAnswer(Verdict.REPLAYED, "r-1")
    assert len(rows(sink, "effects")) == 1


def test_another_payload_is_a_conflict_and_does_not_raise_the_fence(opened):
    """A changed payload is refused, and only counted."""
    sink = opened()
    sink.apply(Request("k1", ROOM, 1))
    assert sink.apply(Request("k1", CAR, 5)) == SinkAnswer(Verdict.CONFLICT)
    assert rows(sink, "keys") == [("k1", 2, 1, 0)]


@pytest.mark.parametrize("idempotency", [Idempotency.CLIENT, Idempotency.NONE])
def test_without_binding_every_request_acts(opened, idempotency):
    """A sink that does not bind keys books twice."""
    sink = opened(idempotency=idempotency)
    receipts = [sink.apply(Request("k1", payload, 1)).receipt for payload in (ROOM, CAR, ROOM)]
    assert receipts == ["r-1", "r-2", "r-3"]
    assert sink.lookup("k1", CAR, 1) == SinkAnswer(Verdict.DONE, "r-2")


def test_an_older_token_is_stale(opened):
    """The fence rises with each effect."""
    sink = opened()
    sink.apply(Request("k1", ROOM, 3))
    assert sink.apply(Request("k1", ROOM, 2)) == SinkAnswer(Verdict.STALE)
    assert sink.apply(Request("k2", ROOM, 1)).verdict is Verdict.DONE


@pytest.mark.parametrize("fencing", [Fencing.CLAIM_ONLY, Fencing.NONE])
def test_without_fencing_an_older_token_acts(opened, fencing):
    """A sink that does not fence lets a sleeper in."""
    sink = opened(fencing=fencing, idempotency=Idempotency.NONE)
    sink.lookup("k1", ROOM, 3)
    assert sink.apply(Request("k1", ROOM, 2)).verdict is Verdict.DONE
    assert rows(sink, "keys") == [("k1", 1, 0, 0)]


def test_a_lookup_fences_off_what_is_still_in_flight(opened):
    """After ABSENT an older request can no longer make it untrue."""
    sink = opened()
    assert sink.lookup("k1", ROOM, 2) == SinkAnswer(Verdict.ABSENT)
    assert sink.apply(Request("k1", ROOM, 1)) == SinkAnswer(Verdict.STALE)
    assert sink.lookup("k1", ROOM, 1) == SinkAnswer(Verdict.STALE)


def test_a_lookup_finds_the_effect_or_the_conflict(opened):
    """A lookup tells the asked payload's effect from another's."""
    sink = opened()
    sink.apply(Request("k1", ROOM, 1))
    assert sink.lookup("k1", ROOM, 1) == SinkAnswer(Verdict.DONE, "r-1")
    assert sink.lookup("k1", CAR, 1) == SinkAnswer(Verdict.CONFLICT)


@pytest.mark.parametrize(("now_ms", "verdict"), [(9, Verdict.DONE), (10, Verdict.LATE), (11, Verdict.LATE)])
def test_nothing_starts_at_or_after_its_time(opened, clock, now_ms, verdict):
    """The instant itself is too late."""
    clock.at_ms = now_ms
    assert opened().apply(Request("k1", ROOM, 1, not_after_ms=10)).verdict is verdict


def test_a_rejection_is_counted_and_the_first_permanent_one_is_remembered(opened):
    """A transient rejection counts the call alone."""
    sink = opened()
    request = Request("k1", ROOM, 1)
    verdicts = [sink.reject(request, permanent).verdict for permanent in (False, True, True)]
    assert verdicts == [Verdict.TRANSIENT, Verdict.PERMANENT, Verdict.PERMANENT]
    assert rows(sink, "keys") == [("k1", 3, 0, 2)]


def test_a_permanent_rejection_comes_after_what_is_known(opened):
    """A stale token is stale and a known key is replayed, whatever a new effect would be told."""
    sink = opened()
    sink.apply(Request("k1", ROOM, 2))
    assert sink.reject(Request("k1", ROOM, 1), permanent=True) == SinkAnswer(Verdict.STALE)
    assert sink.reject(Request("k1", ROOM, 2), permanent=True) == SinkAnswer(Verdict.REPLAYED, "r-1")
    assert sink.reject(Request("k1", CAR, 2), permanent=True) == SinkAnswer(Verdict.CONFLICT)


def test_a_busy_sink_is_silent(opened, tmp_path):
    """While another connection holds the lock nobody learns anything."""
    sink = opened()
    other = sqlite3.connect(sink.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(NoAnswerError):
        sink.apply(Request("k1", ROOM, 1))
    with pytest.raises(NoAnswerError):
        sink.lookup("k1", ROOM, 1)
    other.close()
    assert sink.apply(Request("k1", ROOM, 1)).verdict is Verdict.DONE


@pytest.mark.parametrize(
    ("durability", "journal", "synchronous"),
    [
        (Durability.DELETE_EXTRA, "delete", 3),
        (Durability.WAL_FULL, "wal", 2),
        (Durability.WAL_NORMAL, "wal", 1),
        (Durability.OFF, "delete", 0),
    ],
)
def test_durability_is_what_the_contract_says_after_a_reopening_too(opened, durability, journal, synchronous):
    """Journal and syncs are set for a new file and for an old one."""
    for _ in range(2):
        sink = opened(durability=durability)
        asked = [sink._connection.execute(f"PRAGMA {p}").fetchone()[0] for p in ("journal_mode", "synchronous")]
        assert asked == [journal, synchronous]


def test_a_file_that_is_no_database_is_refused_and_kept(opened, tmp_path):
    """What is not ours is not replaced by an empty database."""
    path = tmp_path / "sink" / "sink.sqlite3"
    path.parent.mkdir()
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(DamagedStoreError, match="not a database"):
        opened()
    assert path.read_bytes() == b"not a database at all" * 100


def test_another_programs_database_is_refused_and_kept(opened, tmp_path):
    """A database with tables and without our version is somebody else's."""
    path = tmp_path / "sink" / "sink.sqlite3"
    path.parent.mkdir()
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE theirs (id)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(DamagedStoreError, match="another program"):
        opened(durability=Durability.WAL_FULL)
    assert path.read_bytes() == before


def test_a_folder_that_cannot_be_made_is_named(clock):
    """Nobody, root included, makes folders under /proc."""
    with pytest.raises(UnavailableStoreError, match="/proc/nowhere"):
        SqliteSink(Path("/proc/nowhere/sink.sqlite3"), sqlite3.connect, clock, Contracts())

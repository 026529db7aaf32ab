"""What is recorded is what was done: a log with everything applied is the real files, byte for byte."""

from __future__ import annotations

from contextlib import closing

import pytest

from stateful.boundaries import Gate
from stateful.storage.disk import Disk
from stateful.storage.log import Create, Delete, Log, Rename, Sync, SyncFolder, Truncate, Write
from stateful.storage.medium import RecordingMedium
from stateful.storage.ways import Way

JOURNALS = ["DELETE", "TRUNCATE", "PERSIST", "WAL"]


@pytest.mark.parametrize("journal", JOURNALS)
def test_several_connections_are_recorded_in_one_log(recorded, journal) -> None:
    """Three connections to one database, and one to another, with a rolled back transaction in between."""
    db = recorded(journal, "FULL")
    second, third, other = db.connect(), db.connect(), db.connect("other.sqlite3")
    log = db.medium.start_recording()
    other.execute("CREATE TABLE t (n)")
    for key in range(1, 13):
        connection = (db.connection, second, third)[key % 3]
        if key % 4 == 0:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO a VALUES (?, ?)", (key, "x" * 9_000))
            connection.execute("ROLLBACK")
        db.add(key, connection)
        other.execute("INSERT INTO t VALUES (?)", (key,))
        assert [] == db.medium.strays(log)
    second.execute("VACUUM")

    assert [] == db.medium.strays(log)
    assert {Write, Sync} <= set(map(type, log.operations))


@pytest.mark.parametrize("journal", JOURNALS)
def test_closing_is_recorded(recorded, journal) -> None:
    """The last connection to close checkpoints and removes a write-ahead log: that is in the record too."""
    db = recorded(journal, "FULL")
    log = db.medium.start_recording()
    db.add(1)
    db.connection.close_for_good()

    assert [] == db.medium.strays(log)
    assert ("WAL" == journal) == any(isinstance(o, Delete) and o.path.endswith("-wal") for o in log.operations)


def test_a_checkpoint_of_the_log_is_recorded(recorded) -> None:
    """Pages that go from a write-ahead log to the database are writes to the database."""
    db = recorded("WAL", "FULL")
    log = db.medium.start_recording()
    for key in range(1, 6):
        db.add(key)
    database = log.inode_of("a.sqlite3")
    db.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    assert [] == db.medium.strays(log)
    assert Sync(database) in log.operations
    assert any(isinstance(o, Write) and o.inode == database for o in log.operations)
    assert Truncate(log.inode_of("a.sqlite3-wal"), 0) in log.operations


def test_a_commit_over_two_databases_has_a_super_journal(recorded) -> None:
    """The journal that ties two databases together is created, written and deleted in the record."""
    db = recorded("DELETE", "FULL")
    db.connect("other.sqlite3").execute("CREATE TABLE t (n)")
    db.connection.execute("ATTACH ? AS other", (str(db.medium.folder / "other.sqlite3"),))
    log = db.medium.start_recording()
    db.connection.execute("BEGIN")
    db.connection.execute("INSERT INTO a VALUES (1, 'x')")
    db.connection.execute("INSERT INTO other.t VALUES (1)")
    db.connection.execute("COMMIT")

    assert any(isinstance(o, Create) and "-mj" in o.path for o in log.operations)
    assert [] == db.medium.strays(log)


def test_only_what_is_done_while_recording_is_recorded(recorded) -> None:
    """Recording can be started and stopped; connections stay open, and each log has a base of its own."""
    db = recorded("WAL", "FULL")
    logs = []
    for key in range(1, 7):
        log = db.medium.start_recording()
        db.add(key)
        db.medium.stop_recording()
        logs.append((log, db.medium.snapshot()))
        db.add(key + 10)  # not recorded

    assert [True] * 6 == [Disk.after(log).files() == files for log, files in logs]
    assert log.base != logs[0][0].base


def test_a_file_that_lost_its_name_before_is_not_mistaken(recorded) -> None:
    """A connection that still has a deleted file open does not write to the one that has taken its name."""
    db = recorded("WAL", "FULL")
    path = db.medium.folder / "a.sqlite3-wal"
    path.unlink()
    path.write_bytes(b"another")
    log = db.medium.start_recording()
    db.add(1)

    assert b"another" == path.read_bytes() == Disk.after(log).files()["a.sqlite3-wal"]
    assert any(isinstance(o, Write) for o in log.operations)


@pytest.mark.parametrize("ways", [(Way.CTYPES, Way.CTYPES), (Way.APSW, Way.APSW), (Way.CTYPES, Way.APSW)])
def test_recorders_know_nothing_of_each_other(ways) -> None:
    """Each has a log and a VFS of its own."""
    if Way.APSW in ways:
        pytest.importorskip("apsw")
    with closing(RecordingMedium(way=ways[0])) as one, closing(RecordingMedium(way=ways[1])) as two:
        logs = one.start_recording(), two.start_recording()
        for medium in (one, two):
            connection = medium.connect(Gate(), medium.folder / "a.sqlite3")
            connection.execute("CREATE TABLE t (n)")
            connection.close_for_good()
            if medium is one:
                one.stop_recording()
        assert [True, True] == [
            Disk.after(log).files() == m.snapshot() for log, m in zip(logs, (one, two), strict=True)
        ]
        assert one.recorder.plan is two.recorder.plan is None


@pytest.mark.parametrize(("journal", "folder_syncs"), [("DELETE", 2), ("TRUNCATE", 1), ("PERSIST", 1), ("WAL", 0)])
def test_folders_are_synced_when_sqlite_does(recorded, in_strace, journal, folder_syncs) -> None:
    """The record of a second commit under EXTRA has the very system calls that the kernel saw, folders included."""
    db = recorded(journal, "EXTRA")
    db.connection.execute("PRAGMA wal_autocheckpoint = 1000")
    db.connection.execute("INSERT INTO a VALUES (1, 'x')")
    log = db.medium.start_recording()
    db.connection.execute("INSERT INTO a VALUES (2, 'x')")
    visible = (Sync, SyncFolder, Delete)

    assert in_strace(journal) == [type(o).__name__ for o in log.operations if isinstance(o, visible)]
    assert folder_syncs == sum(isinstance(o, SyncFolder) for o in log.operations)


def test_a_rename_and_a_new_file_are_recorded(recorded) -> None:
    """The file layer records what the checkpoint does, in the same log, and does it."""
    medium = recorded().medium
    folder = medium.folder / "checkpoint"
    folder.mkdir()
    log = medium.start_recording()
    for data in (b"one", b"two"):
        medium.files.write_new(folder / "draft", data)
        medium.files.sync(folder / "draft")
        medium.files.rename(folder / "draft", folder / "real")
        medium.files.sync_folder(folder)
    medium.files.write_new(folder / "real", b"in place")

    first, second = 2, 3
    assert [
        Create("checkpoint/draft", first),
        Write(first, 0, b"one"),
        Sync(first),
        Rename("checkpoint/draft", "checkpoint/real", first),
        SyncFolder("checkpoint"),
        Create("checkpoint/draft", second),
        Write(second, 0, b"two"),
        Sync(second),
        Rename("checkpoint/draft", "checkpoint/real", second),
        SyncFolder("checkpoint"),
        Truncate(second, 0),
        Write(second, 0, b"in place"),
    ] == log.operations
    assert b"in place" == medium.files.read(folder / "real")
    assert [] == medium.strays(log)


def test_a_file_elsewhere_is_none_of_ours(recorded, tmp_path) -> None:
    """Files outside the recorded folder are written and not recorded."""
    medium = recorded().medium
    log = medium.start_recording()
    medium.files.write_new(tmp_path / "a", b"x")
    medium.files.sync(tmp_path / "a")
    medium.files.rename(tmp_path / "a", tmp_path / "b")
    medium.files.sync_folder(tmp_path)

    assert b"x" == (tmp_path / "b").read_bytes()
    assert [] == log.operations


def test_who_writes_behind_the_record_is_found_out(recorded) -> None:
    """A file that somebody wrote without the file layer is a stray."""
    medium = recorded().medium
    log = medium.start_recording()
    (medium.folder / "secret").write_bytes(b"x")

    assert ["secret"] == medium.strays(log)


def test_an_operation_is_told_in_words() -> None:
    """Each kind of operation in a few words."""
    log = Log({"a": b""})
    inode = log.create("x/b")
    log.write(inode, 3, b"1234")
    log.truncate(inode, 1)
    log.sync(inode)
    log.forget(inode)
    log.rename("x/b", "x/c")
    log.delete("a")
    log.sync_folder("x")
    log.sync_folder("")
    log.mark("told")

    assert [
        "create x/b",
        "write 4 bytes at 3 of x/b",
        "truncate x/b to 1 bytes",
        "sync x/b",
        "a failed sync lets go of what x/b had pending",
        "rename x/b to x/c",
        "delete a",
        "sync the folder x",
        "sync the folder .",
        "mark 'told'",
    ] == [log.tell(n) for n in range(len(log))]

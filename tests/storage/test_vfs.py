"""The way into SQLite: the right library or none, and never a crash of the interpreter."""

from __future__ import annotations

import _sqlite3
import ctypes
import sqlite3
import threading
from pathlib import Path

import pytest

from stateful.boundaries import Gate
from stateful.storage import abi
from stateful.storage.abi import UnsupportedStorageError
from stateful.storage.medium import RecordingMedium
from stateful.storage.ways import Way


def test_it_is_the_modules_own_library() -> None:
    """The functions that are found belong to the library that is mapped for the module, not to another of its name."""
    address = ctypes.cast(abi.load().sqlite3_vfs_register, ctypes.c_void_p).value
    assert address is not None
    lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    homes = [
        line[-1]
        for line in lines
        if len(line) > 5 and int(line[0].partition("-")[0], 16) <= address < int(line[0].partition("-")[2], 16)
    ]

    assert ["sqlite3"] == ["sqlite3" for home in homes if "sqlite3" in Path(home).name]


def test_sqlite_knows_the_vfs(recorded) -> None:
    """A connection is opened through the recorder, and no longer when it is closed."""
    db = recorded()
    db.connect("b.sqlite3")
    db.medium._entry.vfs.close()

    with pytest.raises(sqlite3.Error, match="no such vfs"):
        db.connect("c.sqlite3")


def test_without_a_way_in_it_says_why_and_what_to_do(monkeypatch) -> None:
    """Where SQLite is linked statically its functions are out of reach: the value, the reason, the remedy."""
    monkeypatch.setattr(abi, "_candidates", lambda: iter([("libc", "libc.so.6")]))

    with pytest.raises(
        UnsupportedStorageError, match=r"cannot be reached.*sqlite3_vfs_find.*; run this with a Python"
    ):
        abi.load()


def test_another_library_of_the_same_version_is_refused(monkeypatch) -> None:
    """A library with another source is not the module's, whatever its version says."""

    class Another:
        def __getattr__(self, name):
            return getattr(ours, name)

        sqlite3_sourceid = staticmethod(lambda: b"2099-01-01 another")

    ours = abi.load()
    monkeypatch.setattr(abi.ctypes, "CDLL", lambda path: Another())
    monkeypatch.setattr(abi, "_declare", lambda library: None)

    with pytest.raises(UnsupportedStorageError, match=f"it is SQLite {sqlite3.sqlite_version} .2099-01-01 another"):
        abi.load()


def test_a_copy_of_the_same_library_is_refused(monkeypatch) -> None:
    """A library that equals the module's in version and source, and has a list of its own, is no way in."""

    class Copy:
        def __getattr__(self, name):
            return getattr(ours, name)

        sqlite3_vfs_register = staticmethod(lambda vfs, default: 0)

    ours = abi.load()
    monkeypatch.setattr(abi, "load", Copy)

    with pytest.raises(UnsupportedStorageError, match=r"uses a copy of its own .no such vfs"):
        RecordingMedium(way=Way.CTYPES)


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
@pytest.mark.parametrize("closes", ["", "medium.close(); del medium; gc.collect()"])
def test_a_connection_may_outlive_its_recorder(in_python, tmp_path, way, journal, closes) -> None:
    """Whatever is closed first, or never, the interpreter ends as it should, with nothing on stderr."""
    script = """
import gc, sys
from pathlib import Path
from stateful.boundaries import Gate
from stateful.storage.medium import RecordingMedium
from stateful.storage.ways import Way
medium = RecordingMedium(Path(sys.argv[3]), way=Way(sys.argv[4]))
connection = medium.connect(Gate(), medium.folder / "a.sqlite3")
connection.execute("PRAGMA journal_mode = " + sys.argv[1]).fetchall()
connection.execute("CREATE TABLE t (n)")
connection.execute("BEGIN")
connection.execute("INSERT INTO t VALUES (1)")
medium.start_recording()
exec(sys.argv[2])
connection.execute("INSERT INTO t VALUES (2)")
connection.execute("ROLLBACK")
print("done")
"""
    assert "done\n" == in_python(script, journal, closes, tmp_path, way)


def test_a_folder_may_be_reached_by_a_symbolic_link(tmp_path, way) -> None:
    """SQLite names files by their real path; the record does not care."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    medium = RecordingMedium(tmp_path / "link", way=way)
    log = medium.start_recording()
    connection = medium.connect(Gate(), medium.folder / "a.sqlite3")
    connection.execute("CREATE TABLE t (n)")
    medium.files.write_new(medium.folder / "b", b"x")
    medium.files.sync_folder(medium.folder)

    assert ("a.sqlite3", "b") == (log.path_of(log.inode_of("a.sqlite3")), log.path_of(log.inode_of("b")))
    assert [] == medium.strays(log)
    connection.close_for_good()
    medium.close()


def test_threads_are_recorded_in_the_order_in_which_they_write(recorded) -> None:
    """Several threads with databases of their own: the log is what is on the disk all the same."""
    medium = recorded().medium
    log = medium.start_recording()

    def work(name: str) -> None:
        connection = medium.connect(Gate(), medium.folder / name)
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("CREATE TABLE t (n)")
        for n in range(30):
            connection.execute("INSERT INTO t VALUES (?)", (n,))
        connection.close_for_good()

    threads = [threading.Thread(target=work, args=(f"{n}.sqlite3",)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [] == medium.strays(log)
    assert len(log) > 3 * 30 * 5


def test_the_module_is_loaded() -> None:
    """The look-up goes through the extension module, which has a file where SQLite is not built in."""
    assert getattr(_sqlite3, "__file__", None) in {path for _, path in abi._candidates()}

"""A state becomes exactly its files, and no more is written than has changed."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from stateful.storage.crashes import Crashes
from stateful.storage.materialise import damage, materialise, opened


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_folder_holds_the_files_and_nothing_else(fast) -> None:
    """Folders are made, and files that do not belong go."""
    (fast / "stray").write_bytes(b"x")
    (fast / "inner").mkdir()
    (fast / "inner" / "stray").write_bytes(b"x")
    files = {"a": b"1", "deep/er/b": b"2", "empty": b""}
    materialise(files, fast)

    assert files == files_in(fast)


def test_one_state_after_another(recorded, fast) -> None:
    """Each state of a log is put over the one before, whatever a reader has done to it in between."""
    previous = None
    log = recorded("DELETE", "NORMAL").transactions(2)
    for number, state in enumerate(Crashes(log)):
        materialise(state.files, fast, previous)
        previous = state.files
        assert dict(state.files) == files_in(fast)
        if number % 2:
            damage(fast / "a.sqlite3")  # may roll a journal back
    assert number > 100


@pytest.mark.parametrize("change", [lambda p: p.write_bytes(b"two"), lambda p: p.unlink(), lambda p: p.touch()])
def test_what_a_reader_has_changed_is_written_again(fast, change) -> None:
    """A file of the same size, written in the same instant, is seen to be another."""
    files = {"a": b"one"}
    materialise(files, fast)
    change(fast / "a")
    materialise(files, fast, files)

    assert files == files_in(fast)


def test_what_has_not_changed_is_left_alone(fast) -> None:
    """The file that is the same in both states is not opened: its inode's times stay what they were."""
    first, second = {"a": b"one", "b": b"one"}, {"a": b"one", "b": b"two"}
    materialise(first, fast)
    before = (fast / "a").stat().st_ctime_ns
    (fast / "a").chmod(0o400)
    changed = (fast / "a").stat().st_ctime_ns
    materialise(second, fast, first)

    assert changed == (fast / "a").stat().st_ctime_ns >= before
    assert second == files_in(fast)


def test_damage_is_told(fast) -> None:
    """A whole database has none; one with a page of something else says what SQLite says."""
    path = fast / "a.sqlite3"
    with closing(opened(path)) as connection:
        connection.execute("CREATE TABLE t (n)")
        connection.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(2_000)])
    assert "" == damage(path)

    content = bytearray(path.read_bytes())
    content[4096:8192] = bytes(4096)
    path.write_bytes(content)

    assert damage(path)


def test_what_is_no_database_is_damage(fast) -> None:
    """SQLite's own refusal is the reason."""
    (fast / "a.sqlite3").write_bytes(b"no database at all" * 100)

    assert "file is not a database" == damage(fast / "a.sqlite3")

"""The disk's rules, each once, on logs of a few operations that are written by hand."""

from __future__ import annotations

import pytest

from stateful.storage.crashes import Crashes
from stateful.storage.disk import Disk
from stateful.storage.log import Log


def durable(log: Log) -> dict[str, bytes]:
    """The files if nothing of what is pending survives."""
    return Disk.after(log).files(())


def everything(log: Log) -> dict[str, bytes]:
    """The files if all of it survives, as in the page cache."""
    return Disk.after(log).files()


def test_what_was_there_is_durable() -> None:
    """The base of a log survives whatever comes."""
    assert {"a": b"old"} == durable(Log({"a": b"old"}))


def test_a_write_is_lost_unless_its_file_was_synced() -> None:
    """A write is pending, and a sync of its file makes it durable."""
    log = Log({"a": b"old"})
    log.write(log.inode_of("a"), 0, b"new")

    assert {"a": b"old"} == durable(log)
    assert {"a": b"new"} == everything(log)

    log.sync(log.inode_of("a"))

    assert {"a": b"new"} == durable(log)


def test_a_sync_is_of_one_file() -> None:
    """Syncing one file leaves another's data pending."""
    log = Log({"a": b"old", "b": b"old"})
    for path in "ab":
        log.write(log.inode_of(path), 0, b"new")
    log.sync(log.inode_of("a"))

    assert {"a": b"new", "b": b"old"} == durable(log)


def test_a_write_after_the_sync_is_pending() -> None:
    """A sync covers what came before it alone."""
    log = Log({"a": b"old"})
    log.sync(log.inode_of("a"))
    log.write(log.inode_of("a"), 0, b"new")

    assert {"a": b"old"} == durable(log)


def test_a_gap_reads_as_zeros() -> None:
    """A write behind the end fills up with zeros."""
    log = Log({"a": b"1"})
    log.write(log.inode_of("a"), 3, b"4")

    assert {"a": b"1\0\x004"} == everything(log)


def test_a_created_file_is_lost_unless_its_folder_was_synced() -> None:
    """To sync a file does not make its name durable; to sync its folder does."""
    log = Log({})
    inode = log.create("a")
    log.write(inode, 0, b"new")
    log.sync(inode)

    assert {} == durable(log)

    log.sync_folder("")

    assert {"a": b"new"} == durable(log)


def test_a_name_without_its_data_is_an_empty_file() -> None:
    """To sync the folder does not make the data durable."""
    log = Log({})
    log.write(log.create("a"), 0, b"new")
    log.sync_folder("")

    assert {"a": b""} == durable(log)


def test_each_folder_has_its_own_sync() -> None:
    """Syncing a folder does nothing for the folders in it, and nothing for the one that it is in."""
    log = Log({})
    log.create("a")
    log.create("inner/b")
    log.sync_folder("inner")

    assert {"inner/b": b""} == durable(log)

    log.sync_folder("")

    assert {"a": b"", "inner/b": b""} == durable(log)


def test_a_deleted_file_comes_back_unless_its_folder_was_synced() -> None:
    """The unlinking of a name is pending until its folder is synced."""
    log = Log({"a": b"old"})
    log.delete("a")

    assert {"a": b"old"} == durable(log)
    assert {} == everything(log)

    log.sync_folder("")

    assert {} == durable(log)


def test_a_rename_is_lost_unless_its_folder_was_synced() -> None:
    """A rename is atomic and pending: both names are old, or both are new."""
    log = Log({"draft": b"new", "a": b"old"})
    log.rename("draft", "a")

    assert [{"draft": b"new", "a": b"old"}, {"a": b"new"}] == [durable(log), everything(log)]

    log.sync_folder("")

    assert {"a": b"new"} == durable(log)


def test_a_rename_may_arrive_before_the_data() -> None:
    """A draft that was not synced may take the name with nothing in it."""
    log = Log({"a": b"old"})
    log.write(log.create("draft"), 0, b"new")
    log.rename("draft", "a")
    log.sync_folder("")

    assert {"a": b""} == durable(log)


def test_a_rename_between_folders_needs_both_syncs() -> None:
    """Nothing promises more than what both folders were synced for."""
    log = Log({"one/a": b"data"})
    log.rename("one/a", "two/a")
    log.sync_folder("two")

    assert {"one/a": b"data"} == durable(log)

    log.sync_folder("one")

    assert {"two/a": b"data"} == durable(log)


def test_an_inode_outlives_its_name() -> None:
    """Who has a file open goes on writing to it after a rename, and a new file under the old name is another one."""
    log = Log({"a": b"old"})
    first = log.inode_of("a")
    log.rename("a", "b")
    second = log.create("a")
    log.write(first, 0, b"1st")
    log.write(second, 0, b"2nd")

    assert {"a": b"2nd", "b": b"1st"} == everything(log)


def test_a_file_that_was_deleted_and_made_anew_is_another() -> None:
    """What is written to the deleted inode reaches nothing, and the new one starts empty."""
    log = Log({"a": b"old"})
    first = log.inode_of("a")
    log.delete("a")
    second = log.create("a")
    log.write(first, 0, b"lost")

    assert second != first
    assert {"a": b""} == everything(log)


def test_a_new_file_does_not_need_the_unlinking_of_the_old() -> None:
    """If only the creation survives, the name leads to the new inode all the same."""
    log = Log({"a": b"old"})
    log.delete("a")
    log.create("a")
    disk = Disk.after(log)

    assert {"a": b""} == disk.files(disk.pending[1:])
    assert {} == disk.files(disk.pending[:1])


def test_a_truncation_after_a_write() -> None:
    """Either may be lost without the other: four states."""
    log = Log({"a": b"1234"})
    log.write(log.inode_of("a"), 2, b"xxxx")
    log.truncate(log.inode_of("a"), 1)

    states = {state.files["a"] for state in Crashes(log)}

    assert {b"1234", b"12xxxx", b"1"} == states
    assert {"a": b"1"} == everything(log)


def test_a_truncation_may_make_a_file_longer() -> None:
    """The new bytes are zeros."""
    log = Log({"a": b"1"})
    log.truncate(log.inode_of("a"), 3)

    assert {"a": b"1\0\0"} == everything(log)


def test_a_failed_sync_loses_what_was_pending_for_good() -> None:
    """What the system has let go of is not written by a later sync that succeeds; what comes after it is."""
    log = Log({"a": b"....", "b": b"...."})
    a, b = log.inode_of("a"), log.inode_of("b")
    log.write(a, 0, b"A")
    log.write(b, 0, b"B")
    log.forget(a)
    log.write(a, 2, b"C")
    log.sync(a)
    log.sync(b)

    assert {"a": b"..C.", "b": b"B..."} == durable(log)


def test_a_disk_that_lies_makes_nothing_durable() -> None:
    """With syncs ignored neither data nor names are ever safe."""
    log = Log({"a": b"old"})
    log.write(log.inode_of("a"), 0, b"new")
    log.sync(log.inode_of("a"))
    log.create("b")
    log.sync_folder("")

    assert {"a": b"old"} == Disk.after(log, ignore_syncs=True).files(())


@pytest.mark.parametrize("position", range(4))
def test_a_disk_stops_where_it_is_told(position) -> None:
    """After n operations it holds what n operations left."""
    log = Log({"a": b""})
    for number in range(3):
        log.write(log.inode_of("a"), number, b"x")

    assert {"a": b"x" * position} == Disk.after(log, position).files()

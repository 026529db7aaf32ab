"""The crash states of small logs are exactly those that there are, and say where they come from."""

from __future__ import annotations

from collections import Counter

from stateful.storage.crashes import SECTOR_BYTES, Bounds, Crashes, CrashState, Family
from stateful.storage.log import Log


def log_of_writes(count: int, base: bytes = b"") -> Log:
    """One file; each write puts another byte."""
    log = Log({"a": base})
    for number in range(count):
        log.write(log.inode_of("a"), number, bytes([65 + number]))
    return log


def contents(states: list[CrashState]) -> set[bytes]:
    return {state.files["a"] for state in states}


def test_any_subset_of_what_is_pending_survives() -> None:
    """Three writes of a byte each leave eight files, and each is met once."""
    crashes = Crashes(log_of_writes(3, b"..."))
    states = list(crashes)

    assert {bytes([a, b, c]) for a in b".A" for b in b".B" for c in b".C"} == contents(states)
    assert 8 == len(states) == crashes.counts.distinct
    assert crashes.counts.is_exhaustive


def test_where_there_is_too_much_a_sample_is_drawn_and_said() -> None:
    """Above the bound the tails, each loss, each survival and a drawn sample are made, and the counts say how many."""
    crashes = Crashes(log_of_writes(6, b"......"), Bounds(exhaustive=4, samples=10))
    found = contents(list(crashes))

    assert 2**5 < len(found) <= 2**6
    assert {b"ABCDEF"[:n] + b"......"[n:] for n in range(7)} <= found
    assert {b"ABCDEF"[:n] + b"." + b"ABCDEF"[n + 1 :] for n in range(6)} <= found
    assert (2, 20, 6) == (crashes.counts.sampled, crashes.counts.drawn, crashes.counts.pending_max)
    assert "2 of them sampled (20 subsets drawn, 6 pending)" in str(crashes.counts)


def test_the_whole_is_found_whatever_was_left_out_at_earlier_points() -> None:
    """After a point that was sampled, one that is small enough again has all its subsets."""
    log = log_of_writes(4, b"....")
    log.create("b")
    log.sync_folder("")
    last = {s.files["a"] for s in Crashes(log, Bounds(exhaustive=4, samples=0, window=0))}

    assert {bytes([a, b, c, d]) for a in b".A" for b in b".B" for c in b".C" for d in b".D"} == last


def test_a_write_is_torn_where_the_files_sectors_end() -> None:
    """A write that begins in the middle of a sector is cut at the file's boundaries, not at its own."""
    log = Log({"a": b"." * 3 * SECTOR_BYTES})
    log.write(log.inode_of("a"), 500, b"x" * SECTOR_BYTES)
    torn = [state.files["a"] for state in Crashes(log) if state.family is Family.TORN]

    assert {(500, 512), (512, 1012)} == {(text.index(b"x"), text.rindex(b"x") + 1) for text in torn}


def test_a_write_within_a_sector_is_not_torn() -> None:
    """A sector arrives or it does not."""
    log = Log({"a": b"." * SECTOR_BYTES})
    log.write(log.inode_of("a"), 0, b"x" * SECTOR_BYTES)

    assert {Family.TAIL} == {state.family for state in Crashes(log)}


def test_what_comes_after_a_torn_write_is_lost_or_kept() -> None:
    """A torn write does not stop a later one from arriving."""
    log = Log({"a": b"." * 2 * SECTOR_BYTES, "b": b"."})
    log.write(log.inode_of("a"), 0, b"x" * 2 * SECTOR_BYTES)
    log.write(log.inode_of("b"), 0, b"x")
    half = b"x" * SECTOR_BYTES + b"." * SECTOR_BYTES

    assert {b".", b"x"} == {state.files["b"] for state in Crashes(log) if state.files["a"] == half}


def test_names_survive_folder_by_folder() -> None:
    """With more than can be combined, each folder's names are still lost and kept in any combination of their own."""
    log = Log({})
    for number in range(4):
        log.create(f"one/{number}")
        log.create(f"two/{number}")
    states = [set(s.files) for s in Crashes(log, Bounds(exhaustive=2, samples=0, window=0, names=4))]
    one = {f"one/{n}" for n in range(4)}

    assert 2**4 == len({frozenset(names & one) for names in states if {f"two/{n}" for n in range(4)} <= names})


def test_a_mark_divides_equal_files() -> None:
    """What was harmless before an acknowledgement may be a loss after it, so the state comes again."""
    log = log_of_writes(1, b".")
    log.mark("told")
    states = [(s.mark, s.files["a"]) for s in Crashes(log)]

    assert Counter([(None, b"."), (None, b"A"), ("told", b"."), ("told", b"A")]) == Counter(states)


def test_equal_states_are_met_once() -> None:
    """A write that changes nothing adds no state."""
    log = log_of_writes(1, b"A")
    crashes = Crashes(log)

    assert [b"A"] == [s.files["a"] for s in crashes]
    assert crashes.counts.generated > crashes.counts.distinct


def test_a_state_tells_its_place_and_what_was_lost() -> None:
    """Which operation came last, which mark, and what of the pending is gone or torn."""
    log = Log({"a": b"." * 2 * SECTOR_BYTES})
    log.mark(7)
    log.write(log.inode_of("a"), 0, b"x" * 2 * SECTOR_BYTES)
    log.create("b")
    states = list(Crashes(log))
    torn = next(s for s in states if s.family is Family.TORN and s.position == 3)
    bare = next(s for s in states if s.position == 3 and s.survivors == s.pending[1:])

    assert (3, "create b", 7) == (torn.position, torn.last, torn.mark)
    assert ["torn: write 1024 bytes at 0 of a"] == torn.lost(log)
    assert ["lost: write 1024 bytes at 0 of a"] == bare.lost(log)


def test_the_same_seed_gives_the_same_states_in_the_same_order() -> None:
    """A run can be repeated; another seed draws another sample."""
    log, bounds = log_of_writes(14, b"." * 14), Bounds(exhaustive=3, samples=20)
    runs = [[s.files["a"] for s in Crashes(log, bounds, seed=seed)] for seed in (1, 1, 2)]

    assert runs[0] == runs[1]
    assert set(runs[0]) != set(runs[2])


def test_the_same_states_come_out_in_another_process(in_python) -> None:
    """Neither the order nor the sample depends on the hash seed of the interpreter."""
    script = """
import hashlib, os, sys
from stateful.storage.crashes import Bounds, Crashes
from stateful.storage.log import Log
log = Log({"a": b"." * 1024, "x/b": b""})
for n in range(9):
    log.write(log.inode_of("a"), n * 100, b"x" * 700)
    log.create(f"x/{n}")
log.mark(("told", 1))
digest = hashlib.sha256()
for state in Crashes(log, Bounds(exhaustive=3)):
    digest.update(repr((state.position, state.family, state.mark, dict(state.files))).encode())
print(digest.hexdigest())
"""
    assert 1 == len({in_python(script) for _ in range(3)})


def test_the_short_way_finds_what_the_long_way_finds(recorded) -> None:
    """What is left out at a point, because the one before had it, is no state less: a log with everything in it."""
    log = recorded("DELETE", "NORMAL").transactions(1)
    bounds = Bounds(exhaustive=30, torn=0)
    short = Crashes(log, bounds)
    long = {
        (state.mark, tuple(sorted(state.files.items())))
        for length in range(len(log) + 1)
        for state in _at_its_end(log, length, bounds)
    }

    assert long == {(state.mark, tuple(sorted(state.files.items()))) for state in short}


def _at_its_end(log: Log, length: int, bounds: Bounds) -> list[CrashState]:
    """Every state of a log that is cut after some operations, none left out for having been met before."""
    cut = Log(log.base)
    cut.operations = log.operations[:length]
    cut._first_paths = log._first_paths
    crashes = Crashes(cut, bounds)
    crashes._choices = _all_choices
    return [s for s in crashes if s.position == length]


def _all_choices(position, pending, grew, was_complete):
    for mask in range(1 << len(pending)):
        yield Family.SUBSET, tuple(p for n, p in enumerate(pending) if mask >> n & 1)


def test_what_is_too_large_is_cut_at_some_points_which_are_counted() -> None:
    """A bound on bytes leaves a sample of the points, the last among them; a wide one leaves all."""
    log = Log({"a": bytes(1 << 16)})
    for number in range(40):
        log.write(log.inode_of("a"), number, b"x")
        if number % 10 == 9:
            log.mark(number)
    wide, narrow = Crashes(log, Bounds(bytes_max=1 << 36)), Crashes(log, Bounds(bytes_max=10 << 20))
    states = list(narrow)

    assert len(list(wide)) > len(states) > 0
    assert (0, 45) == (wide.counts.passed, wide.counts.points)
    assert (36, 9) == (narrow.counts.passed, narrow.counts.points)
    assert {44} <= {s.position for s in states}
    assert not narrow.counts.is_exhaustive
    assert "at 9 points of 45" in str(narrow.counts)
    assert [s.files["a"] for s in states] == [s.files["a"] for s in Crashes(log, Bounds(bytes_max=10 << 20))]


def test_where_little_can_be_cut_it_is_still_somewhere() -> None:
    """A bound below the size of a single state leaves one point, right after the last acknowledgement."""
    log = log_of_writes(3, bytes(1 << 20))
    log.mark("told")
    crashes = Crashes(log, Bounds(bytes_max=1))

    assert {"told"} == {s.mark for s in crashes}
    assert (1, 4) == (crashes.counts.points, crashes.counts.passed)

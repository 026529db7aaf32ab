"""Complete schedules of two workers on SQLite in memory-backed files, and how many of them sleep sets leave out.

The floor runs the same schedules with a generator for each worker over plain connections, and the same reset. It
knows beforehand who comes next, and looks at nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from benchmarks.rows import Row, by_turns, rate_of
from stateful.schedules.raw import RawProgram
from stateful.schedules.search import Bounds, Search
from stateful.schedules.statements import StatementSystem, without_files

SCHEMA = "CREATE TABLE counter (id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO counter VALUES (1, 0), (2, 0);"
READ, WRITE = "SELECT n FROM counter WHERE id = 1", "UPDATE counter SET n = n + 1 WHERE id = 1"
AUTOCOMMIT = (READ, WRITE, READ, WRITE)
TRANSACTION = ("BEGIN IMMEDIATE", READ, WRITE, "COMMIT")
PROGRAMS = {"autocommit": AUTOCOMMIT, "begin immediate": TRANSACTION}
SCHEDULES = 700
PEER_RATE = 3_500
"""What a search of 60 lines over generators reaches, schedules a second."""
MOSTLY_APART = "".join(f"CREATE TABLE {t} (n INTEGER); INSERT INTO {t} VALUES (0);" for t in "abc")  # noqa: S608


def _six(own: str) -> tuple[str, ...]:
    write = f"UPDATE {own} SET n = n + 1"  # noqa: S608
    return (write, write, "SELECT n FROM c", write, "UPDATE c SET n = n + 1", write)


def _searched(system: StatementSystem) -> int:
    """Search from the start, again and again; how many complete schedules that was."""
    done = 0
    while done < SCHEDULES:
        done += Search(system, Bounds(reduce=False)).run().schedules
    return done


def _schedules(program: RawProgram) -> list[tuple[str, ...]]:
    """Every schedule of a program."""
    with StatementSystem(program) as system:
        found: list[tuple[str, ...]] = []
        for _ in Search(system, Bounds(reduce=False)).runs():
            found.append(tuple(system.choices))  # noqa: PERF401 - the list of choices is the run's, and grows
        return found


def _worker(connection: sqlite3.Connection, statements: Sequence[str]) -> Iterator[None]:
    for sql in statements:
        connection.execute(sql).fetchall()
        yield


def _bare(system: StatementSystem, schedules: list[tuple[str, ...]], statements: Sequence[str]) -> int:
    """Run given schedules, with nothing in between."""
    connections = [sqlite3.connect(system.paths[0], isolation_level=None) for _ in range(2)]
    for connection in connections:
        without_files(connection)
    done = 0
    while done < SCHEDULES:
        for schedule in schedules:
            system.put_back()
            workers = {f"w{n}": _worker(c, statements) for n, c in enumerate(connections, 1)}
            for choice in schedule:
                next(workers[choice])
        done += len(schedules)
    for connection in connections:
        connection.close()
    return done


def _factor() -> Row:
    """How many runs of six autocommit statements each sleep sets leave out, two of the six on a shared table."""
    program = RawProgram((MOSTLY_APART,), tuple(_six(table) for table in "ab"))
    runs: list[float] = []
    for reduce in (False, True):
        with StatementSystem(program) as system:
            counts = Search(system, Bounds(reduce=reduce)).run()
            runs.append(counts.schedules + counts.redundant)
    return Row("schedules, 6 + 6", "with sleep sets", "runs", *runs, 10)


def rows() -> list[Row]:
    """Schedules a second of each program, and what reduction is worth."""
    out: list[Row] = []
    for name, statements in PROGRAMS.items():
        program = RawProgram((SCHEMA,), (statements, statements))
        schedules = _schedules(program)
        with StatementSystem(program) as ours, StatementSystem(program) as theirs:
            rate, floor = by_turns(
                lambda ours=ours: rate_of(lambda: _searched(ours)),  # type: ignore[misc]
                lambda theirs=theirs, s=schedules, q=statements: rate_of(lambda: _bare(theirs, s, q)),  # type: ignore[misc]
            )
        what = f"schedules, {name}"
        out += [
            Row(what, "a bare loop over generators", "schedules/s", rate, floor),
            Row(what, "a peer's 3,500", "schedules/s", rate, PEER_RATE, 1),
        ]
    return [*out, _factor()]

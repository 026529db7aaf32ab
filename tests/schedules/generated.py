"""Small programs by seed: statements on two tables, in autocommit and in transactions of every kind."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from random import Random

from stateful.schedules.raw import RawProgram

SCHEMA = "".join(
    f"CREATE TABLE {t} (id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO {t} VALUES (1, 0);"  # noqa: S608
    for t in "ab"
)
STATEMENTS = (
    "SELECT n FROM a",
    "SELECT n FROM b",
    "SELECT 1",
    "UPDATE a SET n = n * 2 + 1",
    "UPDATE b SET n = n * 2 + 1",
    "UPDATE a SET n = 0 WHERE id = 77",
    "DELETE FROM b WHERE n > 2",
    "INSERT INTO a VALUES (1, 1)",
    "INSERT OR IGNORE INTO a VALUES (2, 5)",
    "INSERT INTO b SELECT 2, n FROM a WHERE id = 1",
)
OPENINGS = {"BEGIN": "COMMIT", "BEGIN IMMEDIATE": "COMMIT", "BEGIN EXCLUSIVE": "COMMIT", "SAVEPOINT s": "RELEASE s"}


def _statements(rng: Random, length: int, openings: list[str]) -> list[str]:
    out: list[str] = []
    while len(out) < length:
        opening = rng.choice(openings)
        if opening:
            inside = rng.choices(STATEMENTS, k=rng.randint(1, 2))
            out += [opening, *inside, rng.choice([OPENINGS[opening], OPENINGS[opening], "ROLLBACK"])]
        else:
            out.append(rng.choice(STATEMENTS))
    return out


def _unflinching(statements: list[str]) -> Callable[[sqlite3.Connection], list[object]]:
    """A body that takes a note of what fails and goes on; told BUSY, it gives up its transaction."""

    def body(connection: sqlite3.Connection) -> list[object]:
        told: list[object] = []
        for sql in statements:
            try:
                told.append(connection.execute(sql).fetchall())
            except sqlite3.Error as error:
                told.append(str(error))
                if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY and connection.in_transaction:
                    connection.rollback()
        return told

    return body


def program(seed: int) -> RawProgram:
    """One program; the same seed gives the same."""
    rng = Random(seed)  # noqa: S311 - a seeded choice, no secret
    openings = rng.sample(["", *OPENINGS], k=rng.randint(1, 3))
    lanes = [_statements(rng, rng.randint(2, 3), openings) for _ in range(2)]
    return RawProgram(
        (SCHEMA,),
        tuple(map(_unflinching, lanes)) if rng.random() < 0.5 else tuple(lanes),
        wal=rng.random() < 0.5,
        kills=rng.choice([0, 0, 1]),
        waits_end=rng.random() < 0.3,
    )

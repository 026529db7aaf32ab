"""The least that a kill costs: fork, connect, three statements, SIGKILL, wait. Imports as little as can be."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import tempfile
import time

KILLS = 200


def kill_rate(root: str | None) -> float:
    """Bare kills a second, of children of this process; ``root`` is where their database goes."""
    folder = tempfile.mkdtemp(prefix="survives-floor-", dir=root)
    path = f"{folder}/floor.sqlite3"
    try:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("CREATE TABLE t (n)")
        connection.close()
        began = time.perf_counter()
        for _ in range(KILLS):
            child = os.fork()
            if child == 0:
                _die_inside(path)
            os.waitpid(child, 0)
        return KILLS / (time.perf_counter() - began)
    finally:
        shutil.rmtree(folder)


def _die_inside(path: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO t VALUES (1)")
    connection.execute("SELECT count(*) FROM t")
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    import sys

    print(kill_rate(sys.argv[1]))

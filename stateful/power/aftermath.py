"""What one crash state left: put into a folder, recovered by SQLite, checked page by page, read by the oracle."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any, Self

from model.step import Model
from model.words import Stores
from stateful.bench import SINK_FILE
from stateful.medium import View, fast_folder
from stateful.oracle import LEDGER_FILE, DamagedError, Oracle
from stateful.storage.log import Files
from stateful.storage.materialise import materialise, opened


class Aftermath:
    """A folder into which one crash state after the other is put. Close it, or use it as a context manager."""

    def __init__(self, model: Model, *, ledger: bool) -> None:
        self.folder = fast_folder("survives-cut-")
        self._model = model
        self._ledger = ledger
        self._held: Files | None = None
        self._connections: dict[Path, sqlite3.Connection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the folder."""
        self._let_go()
        shutil.rmtree(self.folder, ignore_errors=True)

    def read(self, files: Files) -> Stores:
        """What is stored in a crash state. Raises DamagedError where a database is corrupt, StrayError for stray rows."""
        materialise(files, self.folder, self._held)
        self._held = files
        try:
            for path in self._databases(files):
                self._check(path)
            shelf: Any = _Shelf(self.folder, files, self._connections)
            return Oracle(shelf, self._model, ledger=self._ledger).read()
        finally:
            self._let_go()

    def _databases(self, files: Files) -> list[Path]:
        names = [LEDGER_FILE, str(SINK_FILE)] if self._ledger else [str(SINK_FILE)]
        missing = [name for name in names if name not in files]
        if missing:
            raise DamagedError(f"{missing[0]} is gone")
        return [self.folder / name for name in names]

    def _check(self, path: Path) -> None:
        try:
            connection = self._connections[path] = opened(path)
            rows = connection.execute("PRAGMA integrity_check").fetchall()
        except sqlite3.DatabaseError as error:
            raise DamagedError(f"{path.name} is damaged: {error}") from error
        if rows != [("ok",)]:
            raise DamagedError(f"{path.name} is damaged: {rows[0][0]}")

    def _let_go(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()


class _Shelf:
    """What an oracle asks of a medium: here, the files of one crash state."""

    generation = 0

    def __init__(self, folder: Path, files: Files, connections: dict[Path, sqlite3.Connection]) -> None:
        self.folder = folder
        self._files = files
        self._connections = connections

    def look(self, path: Path) -> View:
        """The view of a database that has just been checked."""
        return View(self._connections[path])

    def read(self, path: str) -> bytes | None:
        """A file's content; None where there is no file."""
        return self._files.get(str(Path(path).relative_to(self.folder)))

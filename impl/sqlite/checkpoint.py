"""The checkpoint: the workers' own record of what is done, in one file that is replaced atomically and durably."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, TypedDict

import rfc8785

from impl.protocol import Answer, Files
from impl.sqlite.errors import DamagedCheckpointError, UnavailableStoreError
from model.words import Kind

VERSION: Final = 1
NOT_KEPT: Final = Answer(Kind.UNKNOWN, "written, and not known to be durable")
_REMEDY: Final = "restore it from a backup, or remove it once the ledger has been compared with the sink"


class Mark(TypedDict):
    """A key's entry: the token of the worker that wrote it, and the receipt, empty where there is none yet."""

    token: int
    receipt: str


class CheckpointFile:
    """``checkpoint.json`` in a folder of its own. Whoever writes holds the ledger's write lock."""

    def __init__(self, folder: Path, files: Files) -> None:
        self.folder = folder
        self.path = folder / "checkpoint.json"
        self._draft = folder / "checkpoint.json.new"
        self._files = files

    def read(self) -> dict[str, Mark]:
        """Every key's entry; none where there is no file.

        Raises DamagedCheckpointError, and UnavailableStoreError where it cannot be read.
        """
        try:
            data = self._files.read(self.path)
        except OSError as error:
            raise self._unavailable("cannot be read", error) from error
        return {} if data is None else self._parsed(data)

    def record(self, key: str, token: int, receipt: str) -> Answer:
        """Write a key's entry down. REPLAYED, and nothing written, where it stands there already.

        UNKNOWN where it has been written and is not known to be durable. Raises DamagedCheckpointError, and
        UnavailableStoreError where nothing has changed for whoever reads it.
        """
        marks = self.read()
        mark = Mark(token=token, receipt=receipt)
        if self._stands_there(marks.get(key), mark):
            # Whoever wrote it may not have come to say so.
            return Answer(Kind.REPLAYED, receipt=receipt) if self._is_kept() else NOT_KEPT
        marks[key] = mark
        self._replace(self._formatted(marks))
        return Answer(Kind.OK) if self._is_kept() else NOT_KEPT

    def _stands_there(self, old: Mark | None, new: Mark) -> bool:
        return old == new

    def _replace(self, data: bytes) -> None:
        """The draft is durable before it takes the name; one that is left behind is written anew by the next."""
        try:
            self._files.write_new(self._draft, data)
            self._files.sync(self._draft)
            self._files.rename(self._draft, self.path)
        except OSError as error:
            raise self._unavailable("cannot be written", error) from error

    def _is_kept(self) -> bool:
        """Whether the name is durable now, as it must be before anybody is told."""
        try:
            self._files.sync_folder(self.folder)
        except OSError:
            return False
        return True

    @staticmethod
    def _formatted(marks: dict[str, Mark]) -> bytes:
        return rfc8785.dumps({"version": VERSION, "keys": marks})  # type: ignore[dict-item]  # a TypedDict is a dict

    def _parsed(self, data: bytes) -> dict[str, Mark]:
        try:
            content = json.loads(data)
        except ValueError as error:
            raise self._damaged(data, f"is torn or not JSON ({error})") from error
        if not isinstance(content, dict) or set(content) != {"version", "keys"}:
            raise self._damaged(data, "does not have exactly a version and keys")
        if content["version"] is True or content["version"] != VERSION:
            raise self._damaged(data, f"has version {content['version']!r}, and this program knows {VERSION}")
        keys = content["keys"]
        if not isinstance(keys, dict) or not all(_is_mark(m) for m in keys.values()):
            raise self._damaged(data, "has an entry that is not a token and a receipt")
        return keys

    def _unavailable(self, what: str, error: OSError) -> UnavailableStoreError:
        reason = f"{what} ({error.strerror or error})"
        return UnavailableStoreError(self.path, reason, "mend the storage, and try again")

    def _damaged(self, data: bytes, reason: str) -> DamagedCheckpointError:
        return DamagedCheckpointError(self.path, f"{reason}: {data[:80]!r}", _REMEDY)


def _is_mark(value: object) -> bool:
    if not isinstance(value, dict) or set(value) != {"token", "receipt"}:
        return False
    token, receipt = value["token"], value["receipt"]
    return type(token) is int and token >= 0 and isinstance(receipt, str)

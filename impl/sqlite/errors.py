"""What can be wrong with the files of a dispatcher. Each error says which file, what is wrong with it, what to do."""

from __future__ import annotations

from pathlib import Path

from impl.protocol import StoppedError


class StoreError(StoppedError):
    """A file that the dispatcher keeps cannot be used; ``path``, ``reason`` and ``remedy`` say more."""

    def __init__(self, path: Path, reason: str, remedy: str) -> None:
        super().__init__(f"{path}: {reason}; {remedy}")
        self.path = path
        self.reason = reason
        self.remedy = remedy


class DamagedStoreError(StoreError):
    """The file is no database, or none that this version wrote; it is left as it is."""


class UnavailableStoreError(StoreError):
    """The file cannot be created, opened or written; nothing has changed."""


class BusyStoreError(StoreError):
    """Another connection holds the lock; nothing has changed."""


class UncertainStoreError(StoreError):
    """A commit failed and what is stored cannot be read back: it may have happened."""


class ForkedStoreError(StoreError):
    """The file was opened by the process that this one was forked from. SQLite's handles do not survive a fork."""


class DamagedCheckpointError(StoreError):
    """The checkpoint file is torn or malformed; starting over would forget what has been done."""

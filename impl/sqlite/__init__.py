"""The SQLite dispatcher: a ledger, a sink and a checkpoint that keep the contracts of ``model.contracts``.

It may import the words and contracts of ``model`` and the protocol of ``impl``; it must never know the model's
transition function, nor the engines that kill it.
"""

from impl.sqlite.checkpoint import CheckpointFile
from impl.sqlite.dispatcher import SqliteDispatcher
from impl.sqlite.errors import (
    BusyStoreError,
    DamagedCheckpointError,
    DamagedStoreError,
    ForkedStoreError,
    StoreError,
    UnavailableStoreError,
    UncertainStoreError,
)
from impl.sqlite.files import RealFiles
from impl.sqlite.ledger import Ledger
from impl.sqlite.sink import SqliteSink

__all__ = [
    "BusyStoreError",
    "CheckpointFile",
    "DamagedCheckpointError",
    "DamagedStoreError",
    "ForkedStoreError",
    "Ledger",
    "RealFiles",
    "SqliteDispatcher",
    "SqliteSink",
    "StoreError",
    "UnavailableStoreError",
    "UncertainStoreError",
]

"""Deaths before file operations, for systems in any language: a small library is loaded into each process before its own.

It counts every write, sync, truncation, rename and unlink below the system's folder, and ends the process before the n-th
of a request. It takes a C compiler, and a system whose calls go through the C library, as CPython's and SQLite's do.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import shutil
import struct
import subprocess
from pathlib import Path

from attrs import define, field

from stateful.foreign.channel import AdapterError
from stateful.foreign.environment import cache_folder
from stateful.spoken import clean

SOURCE = Path(__file__).with_name("shim.c")
_COUNTERS = struct.Struct("iiii")
COMPILE_SECONDS = 60


class ShimError(AdapterError):
    """The library cannot be made: the message says why and what to do."""


def built() -> Path:
    """The library, compiled if it is not there yet. Raises ShimError."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise ShimError("there is no C compiler, which --files needs; install one, such as gcc, or leave --files out")
    source = SOURCE.read_bytes()
    target = cache_folder().parent / f"shim-{hashlib.sha256(source).hexdigest()[:16]}.so"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.exists():
                _compile(compiler, target)
    except OSError as error:
        raise ShimError(f"{target}: {error.strerror}; name another folder with XDG_CACHE_HOME") from error
    return target


def _compile(compiler: str, target: Path) -> None:
    draft = target.with_suffix(f".{os.getpid()}")
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(draft), str(SOURCE), "-ldl"]
    done = subprocess.run(  # noqa: S603 - the machine's compiler on our own source
        command, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False
    )
    if done.returncode:
        raise ShimError(f"{SOURCE.name} cannot be compiled: {clean(done.stderr[:500])}; leave --files out")
    draft.replace(target)


@define
class Control:
    """The counters of one process, shared with it. ``path`` must be outside of the system's folder."""

    path: Path
    _map: mmap.mmap = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.path.write_bytes(bytes(_COUNTERS.size))
        with self.path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _COUNTERS.size)

    def environment(self, library: Path, folder: Path) -> dict[str, str]:
        """What the process must be started with."""
        return {
            "LD_PRELOAD": str(library),
            "SURVIVES_SHIM": str(self.path),
            "SURVIVES_SHIM_FOLDER": str(folder),
        }

    def arm(self, number: int) -> None:
        """Count from here; end the process before operation ``number``, or never if it is 0."""
        _COUNTERS.pack_into(self._map, 0, number, 0, 0, 0)

    @property
    def count(self) -> int:
        """How many operations there were since."""
        return int(_COUNTERS.unpack_from(self._map)[1])

    @property
    def has_fired(self) -> bool:
        """Whether the process was ended."""
        return bool(_COUNTERS.unpack_from(self._map)[2])

    def close(self) -> None:
        """Let go of the counters."""
        self._map.close()
        self.path.unlink(missing_ok=True)

"""An environment of its own for each adapter, made from the metadata in its file (PEP 723) and kept for the next time.

Its dependencies cannot clash with ours or with another system's. It is made with uv where that is installed, with venv
and pip elsewhere, under ``$XDG_CACHE_HOME/survives`` or ``~/.cache/survives``.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from attrs import frozen
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from stateful.foreign.channel import AdapterError
from stateful.spoken import clean

INSTALL_SECONDS = 600
_BLOCK = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$")
"""As PEP 723 gives it."""
_PIP_WITH_PYTHON = Version("22.3")
"""Has the option ``--python``."""
_BEGUN = re.compile(r"(?m)^# /// script$\s(?!# ///$)")


class EnvironmentFailedError(AdapterError):
    """The environment cannot be made: the message says for which file, why, and what to do."""


@frozen
class Metadata:
    """What a script says that it needs."""

    dependencies: tuple[str, ...] = ()
    requires_python: str = ""

    @property
    def key(self) -> str:
        """The environment's name: the same needs on the same Python share one."""
        text = "\n".join([sys.version, sys.executable, *sorted(self.dependencies)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def metadata_of(path: Path) -> Metadata:
    """The inline metadata of a script; empty if it has none. Raises EnvironmentFailedError."""
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise EnvironmentFailedError(f"{path}: cannot be read: {why}; name a Python file in UTF-8") from error
    blocks = [m for m in _BLOCK.finditer(text) if m.group("type") == "script"]
    if not blocks and _BEGUN.search(text):
        raise EnvironmentFailedError(
            f"{path}: its script metadata is no block; begin each of its lines with # and a space, and end it with # ///"
        )
    if not blocks:
        return Metadata()
    if len(blocks) > 1:
        raise EnvironmentFailedError(f"{path}: has {len(blocks)} blocks of script metadata; leave one")
    lines = blocks[0].group("content").splitlines(keepends=True)
    content = "".join(line[2:] if line.startswith("# ") else line[1:] for line in lines)
    try:
        return _metadata(tomllib.loads(content))
    except (tomllib.TOMLDecodeError, TypeError, InvalidSpecifier) as error:
        raise EnvironmentFailedError(f"{path}: its script metadata is wrong: {error}; see PEP 723") from error


def _metadata(table: dict[str, Any]) -> Metadata:
    dependencies, requires = table.get("dependencies", []), table.get("requires-python", "")
    if not isinstance(dependencies, list) or not all(isinstance(d, str) for d in dependencies):
        raise TypeError(f"dependencies is {dependencies!r}, not a list of strings")
    if not isinstance(requires, str):
        raise TypeError(f"requires-python is {requires!r}, not a string")
    SpecifierSet(requires)
    return Metadata(tuple(dependencies), requires)


def cache_folder() -> Path:
    """Where environments are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "survives" / "environments"


def python_for(path: Path) -> Path:
    """The interpreter of the adapter's own environment, made if it is not there yet.

    Raises EnvironmentFailedError, and then leaves nothing half made.
    """
    metadata = metadata_of(path)
    here = ".".join(map(str, sys.version_info[:3]))
    if not SpecifierSet(metadata.requires_python).contains(here, prereleases=True):
        raise EnvironmentFailedError(
            f"{path}: needs Python {metadata.requires_python}, and this is {here}; run survives with another Python"
        )
    if not metadata.dependencies:
        return Path(sys.executable)
    folder = cache_folder() / metadata.key
    with _locked(folder):
        if not (folder / "complete").exists():
            _make(folder, metadata, path)
    return folder / "bin" / "python"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process makes an environment, the others wait for it. The kernel lets go of the lock, whoever dies."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = folder.with_suffix(".lock").open("w")
    except OSError as error:
        raise EnvironmentFailedError(
            f"{folder.parent}: cannot be written: {error.strerror}; name another folder with XDG_CACHE_HOME"
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(folder: Path, metadata: Metadata, path: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    try:
        for command in _commands(folder, metadata.dependencies):
            _run(command, path)
        (folder / "complete").touch()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _commands(folder: Path, dependencies: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """How an environment is created, and how filled."""
    uv, python = shutil.which("uv"), str(folder / "bin" / "python")
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input", "--", *dependencies]
    if uv:
        create = [uv, "venv", "--quiet", "--python", sys.executable, str(folder)]
        return create, [uv, "pip", "install", "--quiet", "--python", python, "--", *dependencies]
    create = [sys.executable, "-m", "venv", str(folder)]
    if _pip_can_fill_another():  # which is made in a tenth of the time without a pip of its own
        return [*create, "--without-pip"], [sys.executable, "-m", "pip", "--python", python, "install", *quiet]
    return create, [python, "-m", "pip", "install", *quiet]


def _pip_can_fill_another() -> bool:
    try:
        return Version(version("pip")) >= _PIP_WITH_PYTHON
    except PackageNotFoundError:
        return False


def _run(command: list[str], path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME"}}
    try:
        done = subprocess.run(  # noqa: S603 - the command is made above
            command,
            capture_output=True,
            text=True,
            errors="backslashreplace",
            timeout=INSTALL_SECONDS,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFailedError(
            f"{path}: its environment is not there after {INSTALL_SECONDS} s; see whether the index can be reached"
        ) from error
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        said = next((line for line in reversed(lines) if "rror" in line), lines[-1] if lines else "nothing")
        raise EnvironmentFailedError(
            f"{path}: its environment cannot be installed: {clean(said.removeprefix('ERROR: '))}; "
            "check its dependencies and the index"
        )

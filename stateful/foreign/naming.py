"""How a user names an adapter: a Python file, which runs in an environment of its own, or the words of a command."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from stateful.foreign.adapter import Adapter
from stateful.foreign.channel import SECONDS
from stateful.foreign.environment import python_for


class NoAdapterError(ValueError):
    """There is no such adapter: the message says which, and what to do."""


def names_adapter(words: Sequence[str]) -> bool:
    """Whether these words name an adapter, and not a dispatcher class in ``module:Class``."""
    if len(words) != 1:
        return len(words) > 1
    (word,) = words
    return word.endswith(".py") or (":" not in word and ("/" in word or shutil.which(word) is not None))


def adapter_named(words: Sequence[str], patience: float = SECONDS) -> Adapter:
    """The adapter. Raises EnvironmentFailedError if its environment cannot be made."""
    if words[0].endswith(".py"):
        path = Path(words[0]).resolve()
        if not path.is_file():
            raise NoAdapterError(
                f"there is no file {words[0]!r}; check the name, or write one with survives new-adapter"
            )
        return Adapter(" ".join(words), (str(python_for(path)), str(path), *words[1:]), patience=patience)
    return Adapter(" ".join(words), tuple(words), patience=patience)


def named(words: Sequence[str]) -> str:
    """The name of a subject that these words name: a file and its arguments, or ``-- COMMAND``."""
    text = shlex.join(words)
    return text if words[0].endswith(".py") else f"-- {text}"

"""What ``apsw`` raises, as the standard library's ``sqlite3`` would have raised it: class, message, code and name.

The classes are those of CPython's ``Modules/_sqlite/util.c``.
"""

from __future__ import annotations

import re
import sqlite3

import apsw

from stateful.storage.apsw_library import name_of

FAILURES = (apsw.Error, TypeError, KeyError, UnicodeDecodeError)
"""What a call of ``apsw`` may raise that ``sqlite3`` has another exception for."""

_INTERNAL, _NOTFOUND, _NOMEM, _CORRUPT, _TOOBIG = 2, 12, 7, 11, 18
_CONSTRAINT, _MISMATCH, _MISUSE, _RANGE = 19, 20, 21, 25
_OPERATIONAL = frozenset({1, 3, 4, 5, 6, 8, 9, 10, 13, 14, 15, 16, 17})
_CLASSES: dict[int, type[sqlite3.Error]] = {
    **dict.fromkeys(_OPERATIONAL, sqlite3.OperationalError),
    **dict.fromkeys((_INTERNAL, _NOTFOUND), sqlite3.InternalError),
    **dict.fromkeys((_CONSTRAINT, _MISMATCH), sqlite3.IntegrityError),
    **dict.fromkeys((_MISUSE, _RANGE), sqlite3.InterfaceError),
    _CORRUPT: sqlite3.DatabaseError,
    _TOOBIG: sqlite3.DataError,
}
_PROGRAMMING = {
    "ConnectionClosedError": "Cannot operate on a closed database.",
    "CursorClosedError": "Cannot operate on a closed cursor.",
    "ThreadingViolationError": "Recursive use of cursors not allowed.",
}
_COUNTS = re.compile(r"uses (\d+) and there are (\d+) supplied")
_BINDING = re.compile(r"Bad binding argument type supplied - argument #(\d+): type (.+)")


def translated(error: Exception) -> Exception:
    """The standard library's exception for one that came out of a call of ``apsw``; what is no such error, as it is."""
    text = str(error)
    name = type(error).__name__
    code = getattr(error, "extendedresult", 1 if name == "SQLError" else None)
    if code is not None:
        return _of_code(code, text)
    if name in _PROGRAMMING:
        return sqlite3.ProgrammingError(_PROGRAMMING[name])
    counts = _COUNTS.search(text)
    if counts:
        used, supplied = counts.groups()
        return sqlite3.ProgrammingError(
            f"Incorrect number of bindings supplied. The current statement uses {used}, "
            f"and there are {supplied} supplied."
        )
    binding = _BINDING.search(text)
    if binding:
        number, kind = binding.groups()
        return sqlite3.ProgrammingError(f"Error binding parameter {number}: type {kind!r} is not supported")
    if text.startswith("You must supply a dict or a sequence"):
        return sqlite3.ProgrammingError("parameters are of unsupported type")
    if isinstance(error, KeyError):
        return sqlite3.ProgrammingError(f"You did not supply a value for binding parameter :{error.args[0]}.")
    if isinstance(error, UnicodeDecodeError):
        return sqlite3.OperationalError(f"Could not decode to UTF-8: {text}")
    return sqlite3.ProgrammingError(text) if type(error).__module__.startswith("apsw") else error


def _of_code(code: int, text: str) -> Exception:
    primary = code & 0xFF
    if primary == _NOMEM:
        return MemoryError(text)
    found = _CLASSES.get(primary, sqlite3.DatabaseError)(text)
    found.sqlite_errorcode = code
    found.sqlite_errorname = name_of(code)
    return found

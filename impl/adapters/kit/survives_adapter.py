"""The helper for adapters: it speaks the adapter protocol, version 1, so that an adapter says only what its system does.

    from survives_adapter import Claim, System, serve

    class Mine(System):
        name, version = "mine", "1.0"
        claims = [Claim("at-most-once", "A charge is made once.", where="README.md, Guarantees")]

        def open(self): ...                     # self.folder, self.worker
        def start(self, key, payload):          # one call; the effect goes through self.effect
            return self.effect(key, payload)

    serve(Mine)

It needs Python 3.10 and nothing else, so that it runs in the environment of any system. It is found on the path when
``survives`` starts the adapter. Import it before the system: an adapter's file may then carry the system's own name.
The protocol is described in docs/protocol.md.
"""

from __future__ import annotations

import functools
import json
import os
import queue
import re
import sqlite3
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar

VERSION = 1
_LITERAL = re.compile(r"'(?:[^']|'')*'|\b\d+(?:\.\d+)?\b|x'[0-9a-f]*'", re.IGNORECASE)


def _name_no_system(script: str | None) -> None:
    """Let an adapter ``mine.py`` import the installed ``mine``, although Python puts a script's folder first.

    The adapters beside this helper share a folder and never import each other, so that folder goes; any other may hold
    modules that its adapter needs, and goes to the end.
    """
    if script is None:
        return
    own, shipped = Path(script).resolve().parent, Path(__file__).resolve().parents[1]
    found = [entry for entry in sys.path if entry and Path(entry).resolve() == own]
    if found:
        sys.path[:] = [entry for entry in sys.path if entry not in found] + [str(own)] * (own != shipped)


_name_no_system(getattr(sys.modules["__main__"], "__file__", None))


class Refused(Exception):  # noqa: N818 - an answer, not an error
    """The system refused the call: nothing will happen. The message is the reason."""


class Denied(Refused):
    """The call was denied, has expired or was cancelled, for good."""


class Pending(Exception):  # noqa: N818
    """The call is stored, and has not come to an end: it waits for a decision, a worker or a recovery."""


class InDoubt(Exception):  # noqa: N818
    """The system says that it does not know whether the effect happened, and waits for an operator."""


class EffectFailed(Exception):  # noqa: N818
    """What the effect raises when the sink fails: it may have acted."""


class Claim:
    """What the system promises: the claim's id, in our own words, and where its documentation says so.

    ``choice`` and ``limit`` belong to the claims that have them; ``excludes`` may say ``pause`` where the project
    says that it does not protect against a process that stands still and goes on. See docs/claims.md.
    """

    def __init__(
        self,
        id: str,  # noqa: A002
        says: str,
        *,
        where: str = "",
        choice: str = "",
        limit: int = 0,
        excludes: tuple[str, ...] = (),
    ) -> None:
        self.id, self.says, self.where, self.choice, self.limit = id, says, where, choice, limit
        self.excludes = list(excludes)


class System:
    """One process of a system that is called. A subclass gives ``start``, and what else it has.

    ``abilities`` follow from the methods that a subclass has: ``recover``, ``observe``, ``decide``, ``cancel``,
    ``reconcile``, ``advance``. Say ``passes_id = True`` if the system gives its effects an id that the sink may
    deduplicate by. ``lease_ms`` is its shortest lease in real time, if it has one and no clock that can be set.
    """

    name: ClassVar[str] = ""
    version: ClassVar[str] = ""
    claims: ClassVar[list[Claim]] = []
    passes_id: ClassVar[bool] = False
    one_process: ClassVar[bool] = False
    """Whether its documentation forbids two processes on one store."""
    lease_ms: ClassVar[int] = 0
    notes: ClassVar[str] = ""
    """Limits of the judgement that a reader must know, such as a pause that the project excludes."""

    def __init__(self, wire: Wire, folder: Path, worker: str) -> None:
        self.wire, self.folder, self.worker = wire, folder, worker
        self.handles = Handles(folder)

    def open(self) -> Any:
        """Open the system on ``self.folder``. Called once, before anything else."""

    def start(self, key: str, payload: Any) -> Any:
        """One call: make sure that the effect ``key`` with ``payload`` happens. What it returns is the result."""
        raise NotImplementedError

    def close(self) -> Any:
        """Let go of everything: the process ends in order."""

    def effect(self, key: str, payload: Any, id: str | None = None) -> str:  # noqa: A002
        """The effect itself, done at the suite's sink: returns the receipt, or raises EffectFailed."""
        return self.wire.effect(key, payload, id)

    async def effect_async(self, key: str, payload: Any, id: str | None = None) -> str:  # noqa: A002
        """The same, without holding the event loop."""
        import asyncio

        return await asyncio.get_running_loop().run_in_executor(None, self.effect, key, payload, id)


class Handles:
    """A map from our keys to the system's own handles that survives a death at any point."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "handles"

    def _path(self, key: str) -> Path:
        import hashlib  # takes longer to import than all the others, and not every adapter keeps handles

        return self._folder / hashlib.sha256(key.encode()).hexdigest()

    def get(self, key: str) -> Any:
        """The handle, or None."""
        try:
            return json.loads(self._path(key).read_bytes())[1]
        except FileNotFoundError:
            return None

    def set(self, key: str, handle: Any) -> None:
        """Store the handle: written beside, synced, renamed, and the folder synced."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(key)
        draft = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
        with draft.open("wb") as out:
            out.write(json.dumps([key, handle]).encode())
            out.flush()
            os.fsync(out.fileno())
        draft.replace(path)
        folder = os.open(self._folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def items(self) -> list[tuple[str, Any]]:
        """Every key and its handle."""
        paths = sorted(self._folder.glob("*")) if self._folder.is_dir() else []
        return [tuple(json.loads(p.read_bytes())) for p in paths if not p.suffix]


class Wire:
    """The two pipes. Requests are answered by the main thread; any thread may be held."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)  # whatever the system prints goes to the standard error, and not between two answers
        self._in = os.fdopen(os.dup(0), "rb")
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        self._lock = threading.Lock()
        self._held: dict[int, queue.SimpleQueue[dict[str, Any]]] = {}
        self._holds = 0
        self._statements = 0
        self._seen: dict[str, int] = {}
        self._arm: dict[str, Any] = {}
        self.requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.current = 0
        self.now_ms = 0
        self.wall_ms = 0

    # -- reading and writing

    def read_forever(self) -> None:
        """Hand each line to whoever waits for it. The end of the input ends the process."""
        for line in self._in:
            message = json.loads(line)
            if "continue" in message:
                self._held.pop(message["continue"]).put(message)
            else:
                self.requests.put(message)
        os._exit(0)

    def send(self, message: dict[str, Any]) -> None:
        """One object on a line of its own."""
        with self._lock:
            self._out.write(json.dumps(message, default=str).encode() + b"\n")

    def hold(self, point: str, **what: Any) -> dict[str, Any]:
        """Stop here until told to go on."""
        waiting: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        with self._lock:
            self._holds += 1
            number = self._holds
            self._held[number] = waiting
        self.send({"id": self.current, "held": point, "n": number, **what})
        return waiting.get()

    # -- effects and statements

    def effect(self, key: str, payload: Any, effect_id: str | None) -> str:
        """Do an effect at the suite's sink, held on both sides of it."""
        told = self.hold("effect-enter", key=key, payload=payload, effect_id=effect_id)
        told = {**told, **self.hold("effect-exit", key=key)}
        if told.get("raise"):
            raise EffectFailed(told["raise"])
        return str(told["receipt"])

    def arm(self, what: dict[str, Any]) -> None:
        """Count statements from here; be held before the one that is asked for."""
        with self._lock:
            self._arm, self._statements, self._seen = what, 0, {}

    def statement(self, store: str, sql: str) -> None:
        """A statement of some connection is about to run on a database."""
        with self._lock:
            text = _LITERAL.sub("?", " ".join(sql.split()))[:200]
            self._statements += 1
            nth = self._seen[text] = self._seen.get(text, 0) + 1
            arm, n = self._arm, self._statements
        every = arm.get("every_statement")
        here = arm.get("statement") == n or (arm.get("sql") == text and arm.get("nth") == nth)
        if every or here:
            self.hold("statement", statement=n, sql=text, nth=nth, store=store)

    def watch_statements(self) -> None:
        """See every statement of every connection that is opened from now on through ``sqlite3.connect``."""
        connect = sqlite3.connect

        @functools.wraps(connect)
        def watched(*arguments: Any, **named: Any) -> sqlite3.Connection:
            connection = connect(*arguments, **named)
            database = os.fsdecode(arguments[0] if arguments else named["database"])
            connection.set_trace_callback(functools.partial(self.statement, Path(database).name))
            return connection

        sqlite3.connect = sqlite3.dbapi2.connect = watched  # type: ignore[assignment]


METHODS = ("recover", "observe", "decide", "cancel", "reconcile", "advance")


def about(system: type[System]) -> dict[str, Any]:
    """What the system says of itself."""
    return {
        "version": VERSION,
        "style": "call",
        "system": system.name or system.__name__,
        "system_version": system.version,
        "abilities": [m for m in METHODS if hasattr(system, m)]
        + ["effect-id"] * system.passes_id
        + ["two-processes"] * (not system.one_process),
        "claims": [{k: v for k, v in vars(c).items() if v} for c in system.claims],
        "lease_ms": system.lease_ms,
        "notes": system.notes,
    }


def outcome_of(call: Callable[[], Any]) -> dict[str, Any]:
    """What a call came to, in the protocol's words."""
    try:
        return {"outcome": "done", "result": call()}
    except Denied as error:
        return {"outcome": "denied", "reason": str(error)}
    except Refused as error:
        return {"outcome": "refused", "reason": str(error)}
    except Pending as error:
        return {"outcome": "pending", "reason": str(error)}
    except InDoubt as error:
        return {"outcome": "unknown", "reason": str(error)}
    except Exception as error:  # noqa: BLE001 - whatever a system raises is what its caller gets
        return {"outcome": "failed", "reason": f"{type(error).__name__}: {error}"[:500]}


def serve(make: type[System]) -> None:
    """Answer requests until the input ends. Runs what is asynchronous on one event loop."""
    wire = Wire()
    wire.watch_statements()
    server = _Server(make, wire)
    threading.Thread(target=wire.read_forever, daemon=True).start()
    while True:
        request = wire.requests.get()
        wire.current = request["id"]
        wire.arm(request.get("arm", {}))
        answer = server.answer(request)
        wire.arm({})
        wire.send({"id": wire.current, **answer})
        if request["do"] == "close":
            os._exit(0)


class _Server:
    """Answers one request at a time; what is asynchronous runs on one event loop."""

    def __init__(self, make: type[System], wire: Wire) -> None:
        self._make, self._wire = make, wire
        self._loop: Any = None
        self._system: System | None = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """What a request comes to."""
        if request["do"] == "hello":
            return self._hello(request)
        method = getattr(self._system, request["do"], None)
        if method is None:
            return {"error": f"this adapter has no {request['do']!r}"}
        return outcome_of(lambda: self._run(method, request.get("with", {})))

    def _hello(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["version"] != VERSION:
            return {"error": f"this adapter speaks version {VERSION}"}
        system = self._system = self._make(self._wire, Path(request["folder"]), request["worker"])
        opened = outcome_of(lambda: self._run(system.open, {}))
        return about(self._make) if opened["outcome"] == "done" else {"error": opened.get("reason", "")}

    def _run(self, method: Callable[..., Any], given: dict[str, Any]) -> Any:
        value = method(**given)
        if not hasattr(value, "__await__"):
            return value
        if self._loop is None:
            import asyncio  # takes longer to import than many a system takes to start

            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(_awaited(value))


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value

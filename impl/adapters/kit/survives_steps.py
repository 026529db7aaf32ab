"""The helper for adapters of dispatchers that are driven step by step: each request is one call of a dispatcher's method.

    from survives_steps import Steps, serve_steps

    class Mine(Steps):
        name, version = "mine", "1.0"
        capabilities = ["leases"]                        # see docs/protocol.md

        def open(self):                                  # self.folder, self.worker, self.clock, self.settings
            return MyDispatcher(self.folder, sink=self)  # submit, claim, dispatch, acknowledge, ...

    serve_steps(Mine)

The dispatcher's methods return dicts or objects with ``kind``, ``reason``, ``token``, ``receipt`` and ``count``. It sends
through ``self.apply(key, payload, token)`` and asks through ``self.lookup(key, payload, token)``: both return the sink's
message, with ``said`` (``verdict``, ``receipt``) or ``no_answer``.
"""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from survives_adapter import VERSION, Wire

FIELDS = ("kind", "reason", "token", "receipt", "count")


class Clock:
    """The suite's clock, as it stood when the request came."""

    def __init__(self) -> None:
        self.times = {"now_ms": 0, "wall_ms": 0}

    def now_ms(self) -> int:
        """Milliseconds of logical time."""
        return self.times["now_ms"]

    def wall_ms(self) -> int:
        """This worker's wall clock."""
        return self.times["wall_ms"]


class Steps:
    """One process of a dispatcher. A subclass gives ``open``."""

    name: ClassVar[str] = ""
    version: ClassVar[str] = ""
    capabilities: ClassVar[list[str]] = []
    notes: ClassVar[str] = ""
    stopped: ClassVar[type[Exception] | tuple[()]] = ()
    """What the dispatcher raises when it cannot start or go on: a refusal, and no defect."""

    def __init__(self, wire: Wire, hello: dict[str, Any]) -> None:
        self._wire = wire
        self.folder, self.worker, self.settings = Path(hello["folder"]), hello["worker"], hello.get("settings", {})
        self.clock = Clock()
        self.clock.times = {name: self.settings.get(name, 0) for name in ("now_ms", "wall_ms")}

    def open(self) -> Any:
        """Open the dispatcher, and return it."""
        raise NotImplementedError

    def made(self, name: str, raw: dict[str, Any]) -> Any:
        """An argument that is an object: ``answer``, ``decision``, ``permit`` or one ``overdue``."""
        return SimpleNamespace(**raw)

    def apply(self, key: str, payload: Any, token: int, not_after_ms: int | None = None) -> dict[str, Any]:
        """Send to the suite's sink."""
        return self._wire.hold("apply", key=key, payload=payload, token=token, not_after_ms=not_after_ms)

    def lookup(self, key: str, payload: Any, token: int) -> dict[str, Any]:
        """Ask the suite's sink what became of a key."""
        return self._wire.hold("lookup", key=key, payload=payload, token=token)


def serve_steps(make: type[Steps]) -> None:
    """Answer requests until the input ends."""
    wire = Wire()
    wire.watch_statements()
    threading.Thread(target=wire.read_forever, daemon=True).start()
    server = _Server(make, wire)
    while True:
        request = wire.requests.get()
        wire.current = request["id"]
        wire.arm(request.get("arm", {}))
        answer = server.answer(request)
        wire.arm({})
        wire.send({"id": wire.current, **answer})


class _Server:
    """Answers one request at a time."""

    def __init__(self, make: type[Steps], wire: Wire) -> None:
        self._make, self._wire = make, wire
        self._steps: Any = None
        self._dispatcher: Any = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """What a request comes to."""
        try:
            if request["do"] == "hello":
                return self._hello(request)
            given = dict(request.get("with", {}))
            self._steps.clock.times = {name: given.pop(name) for name in ("now_ms", "wall_ms")}
            return self._asked(request["do"], given)
        except self._make.stopped as error:
            return {"stopped": str(error)}
        except Exception as error:  # noqa: BLE001 - whatever a dispatcher raises is told, and judged
            return {"raised": f"{type(error).__name__}: {error}"[:500]}

    def _hello(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["version"] != VERSION:
            return {"error": f"this adapter speaks version {VERSION}"}
        make = self._make
        self._steps = make(self._wire, request)
        if request.get("settings"):  # without, it is only asked what it is
            self._dispatcher = self._steps.open()
        return {
            "version": VERSION,
            "style": "step",
            "system": make.name or make.__name__,
            "system_version": make.version,
            "capabilities": list(make.capabilities),
            "notes": make.notes,
        }

    def _asked(self, do: str, given: dict[str, Any]) -> dict[str, Any]:
        for name in ("answer", "decision", "permit"):
            if name in given:
                given[name] = self._steps.made(name, given[name])
        if do == "reap":
            given["overdue"] = tuple(self._steps.made("overdue", one) for one in given["overdue"])
        value = getattr(self._dispatcher, do)(*given.values())
        if do == "overdue":
            return {"overdue": [_plain(one, ("key", "token", "expiry_ms")) for one in value]}
        if hasattr(value, "request"):
            return {"permit": _plain(value.request, ("key", "payload", "token", "not_after_ms"))}
        return {"answer": _plain(value, FIELDS)}


def _plain(value: Any, fields: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return value
    return {name: getattr(value, name) for name in fields if hasattr(value, name)}

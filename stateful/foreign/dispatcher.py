"""A dispatcher in a child process that is driven step by step: for the engines it is a dispatcher like any other.

Each incarnation of a worker is a fresh process. What it asks its sink comes here, where the real sink is. To kill it in
the middle of an operation, it is told to stop before each of its statements, and each is a boundary of our gate.
"""

from __future__ import annotations

import base64
import shlex
from collections.abc import Iterable
from typing import Any

from attrs import asdict, define, frozen

from impl.protocol import (
    Answer,
    Decision,
    Json,
    NoAnswerError,
    Overdue,
    Permit,
    Request,
    SinkAnswer,
    Site,
    StoppedError,
)
from model.words import Capability, Kind
from stateful.boundaries import Gate, GatedFiles
from stateful.foreign.adapter import Adapter, Hello
from stateful.foreign.channel import AdapterError, Channel
from stateful.medium import run_scratch
from stateful.spoken import shown
from stateful.subject import Subject, SubjectError

PREFIX = "-- "
"""What the name of a subject begins with that is a command."""


@define
class Remote:
    """The child of one incarnation, which ends with it. The bench drops it like a connection."""

    channel: Channel
    requests: int = 0

    def drop(self) -> None:
        """What a death leaves of it: nothing."""
        self.channel.close()


@frozen
class Maker:
    """Makes dispatchers that are processes. It stands where a dispatcher class stands."""

    adapter: Adapter
    capabilities: frozenset[Capability]

    def __call__(self, site: Site) -> ProcessDispatcher:
        """A fresh process on a site. Raises what the process says, or AdapterError."""
        return ProcessDispatcher(self.adapter, site)


class ProcessDispatcher:
    """One incarnation: each method is a request. See ``impl.protocol.Dispatcher``."""

    def __init__(self, adapter: Adapter, site: Site) -> None:
        self._site = site
        assert isinstance(site.files, GatedFiles)
        self._gate: Gate = site.files.gate
        self.remote = Remote(adapter.start())
        settings = {**settings_of(site), **_times(site)}
        hello = {"version": 1, "folder": str(site.folder), "worker": site.worker, "settings": settings}
        try:
            _unless_refused(self._ask("hello", hello))
        except BaseException:
            self.remote.drop()
            raise

    def close(self) -> None:
        """End the process."""
        self.remote.drop()

    # -- requests ---------------------------------------------------------------------------------------------

    def _ask(self, do: str, given: dict[str, Any]) -> dict[str, Any]:
        channel = self.remote.channel
        number = self.remote.requests
        self.remote.requests += 1
        arm = {"every_statement": True} if self._gate.die_at else {}
        body = given if do == "hello" else {"with": given | _times(self._site)}
        channel.send({"id": number, "do": do, "arm": arm, **body})
        while True:
            message = channel.receive()
            if message.get("id") != number:
                raise AdapterError(
                    f"line {message['line']} is about request {shown(message.get('id'))}, and request {number} was asked"
                )
            if "held" not in message:
                return _unless_it_stopped(message)
            channel.send({"continue": message.get("n"), **self._at(message)})

    def _at(self, message: dict[str, Any]) -> dict[str, Any]:
        """It stands before a statement, or asks its sink. Raises Crash where its process is to die."""
        point = message["held"]
        if point == "statement":
            self._gate.reach(str(message.get("store", "")), str(message.get("sql", "")))
            return {}
        try:
            if point == "apply":
                return _said(self._site.sink.apply(_request(message)))
            if point == "lookup":
                request = _request(message)
                return _said(self._site.sink.lookup(request.key, request.payload, request.token))
        except NoAnswerError as error:
            return {"no_answer": str(error)}
        raise AdapterError(f"line {message['line']}: it is held at {shown(point)}; statement, apply or lookup")

    def _answer(self, do: str, **given: Any) -> Answer:
        return _answer_of(self._ask(do, given))

    # -- the protocol -----------------------------------------------------------------------------------------

    def submit(self, key: str, payload: Json) -> Answer:
        """See impl.protocol."""
        return self._answer("submit", key=key, payload=payload)

    def claim(self, key: str) -> Answer:
        """See impl.protocol."""
        return self._answer("claim", key=key)

    def renew(self, key: str, token: int) -> Answer:
        """See the SQLite dispatcher, as for all that follow."""
        return self._answer("renew", key=key, token=token)

    def release(self, key: str, token: int) -> Answer:
        """Give a lease back."""
        return self._answer("release", key=key, token=token)

    def dispatch(self, key: str, token: int) -> Answer:
        """Authorise and apply."""
        return self._answer("dispatch", key=key, token=token)

    def authorise(self, key: str, token: int) -> Permit | Answer:
        """The right to send once, or why not."""
        message = self._ask("authorise", {"key": key, "token": token})
        if "permit" not in message:
            return _answer_of(message)
        return Permit(_request(message["permit"] | {"line": message["line"]}))

    def apply(self, permit: Permit) -> Answer:
        """Send what was authorised."""
        return self._answer("apply", permit=asdict(permit.request))

    def acknowledge(self, key: str, token: int, answer: Answer) -> Answer:
        """Record what a dispatch answered."""
        return self._answer("acknowledge", key=key, token=token, answer=asdict(answer))

    def checkpoint(self, key: str, token: int, receipt: str) -> Answer:
        """Write the worker's own progress down."""
        return self._answer("checkpoint", key=key, token=token, receipt=receipt)

    def reconcile(self, key: str, token: int) -> Answer:
        """Ask the sink what became of an unknown outcome."""
        return self._answer("reconcile", key=key, token=token)

    def cancel(self, key: str) -> Answer:
        """Cancel an intent."""
        return self._answer("cancel", key=key)

    def decide(self, decision: Decision) -> Answer:
        """Take an approver's signed word."""
        return self._answer("decide", decision=asdict(decision))

    def set_policy(self, revision: int) -> Answer:
        """Another policy revision holds from now on."""
        return self._answer("set_policy", revision=revision)

    def overdue(self) -> tuple[Overdue, ...]:
        """What looks overdue."""
        message = self._ask("overdue", {})
        listed = message.get("overdue")
        try:
            return tuple(Overdue(**one) for one in listed)  # type: ignore[union-attr]
        except TypeError as error:
            raise AdapterError(
                f"line {message['line']}: overdue is answered with {shown(listed)}: {error}"
            ) from error

    def reap(self, overdue: Iterable[Overdue]) -> Answer:
        """Put right what was overdue."""
        return self._answer("reap", overdue=[asdict(one) for one in overdue])


def settings_of(site: Site) -> dict[str, Any]:
    """What a process is started with."""
    return {
        "contracts": site.contracts.to_json(),
        "limits": asdict(site.limits),
        "lease_ms": site.lease_ms,
        "approver_keys": {name: base64.b64encode(key).decode() for name, key in site.approver_keys.items()},
        "live_settings": dict(site.live_settings),
    }


def _times(site: Site) -> dict[str, Any]:
    return {"now_ms": site.clock.now_ms(), "wall_ms": site.clock.wall_ms()}


def _unless_refused(answer: dict[str, Any]) -> None:
    if "error" in answer:
        raise AdapterError(f"line {answer['line']}: it cannot be opened: {shown(answer['error'])}")


def _unless_it_stopped(message: dict[str, Any]) -> dict[str, Any]:
    if "stopped" in message:
        raise StoppedError(str(message["stopped"]))
    if "raised" in message:
        raise RuntimeError(f"in its process: {message['raised']}")
    return message


def _answer_of(message: dict[str, Any]) -> Answer:
    raw = message.get("answer")
    try:
        return Answer(**{**raw, "kind": Kind(raw["kind"])})  # type: ignore[dict-item, index]
    except (TypeError, ValueError, KeyError) as error:
        raise AdapterError(f"line {message['line']}: {shown(raw)} is no answer: {error}") from error


def _request(message: dict[str, Any]) -> Request:
    try:
        return Request(message["key"], message["payload"], message["token"], message.get("not_after_ms"))
    except KeyError as error:
        raise AdapterError(f"line {message['line']}: a request to the sink has no {error}") from error


def _said(answer: SinkAnswer) -> dict[str, Any]:
    return {
        "said": {"verdict": str(answer.verdict), "receipt": answer.receipt, "retry_after_ms": answer.retry_after_ms}
    }


def words_of(name: str) -> tuple[str, ...]:
    """The words that a remote subject was named by."""
    return tuple(shlex.split(name.removeprefix(PREFIX)))


def remote_subject(name: str, adapter: Adapter, hello: Hello) -> Subject:
    """A subject whose processes are real ones. Raises SubjectError."""
    try:
        capabilities = frozenset(Capability(c) for c in hello.capabilities)
    except ValueError as error:
        raise SubjectError(f"subject {name!r}: {error}; the capabilities are {', '.join(Capability)}") from error
    return Subject(name, "", Maker(adapter, capabilities), capabilities, is_remote=True)


def load_remote(name: str) -> Subject:
    """The subject that an adapter's file or command is, asked once what it has. Raises SubjectError."""
    from stateful.foreign.naming import adapter_named

    try:
        with run_scratch() as folder:
            adapter = adapter_named(words_of(name))
            hello = adapter.ask(folder)
    except AdapterError as error:
        raise SubjectError(f"subject {name!r}: {error}") from error
    if hello.style != "step":
        raise SubjectError(
            f"subject {name!r} is driven by calls, and not step by step; examine it with `survives check {name}`"
        )
    return remote_subject(name, adapter, hello)

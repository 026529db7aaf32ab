"""One child process in a group of its own, and its lines: one JSON object each, read with a limit on everything.

Whatever a child does (noise, a flood, silence, two answers, a death between two lines) ends in an AdapterError that names
the line. Whoever holds a channel closes it, and then neither the child nor anything that it started is left.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import signal
import subprocess
import time
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from stateful.foreign import orphans
from stateful.spoken import shown

LINE_MAX = 1 << 20
"""Bytes of one line; an answer that needs more is none."""
AHEAD_MAX = 64
"""Lines that may be waiting when one is expected: at most a few threads are held at a time."""
STDERR_KEPT = 4096
LAST_WORDS_MAX = 64
"""Reads of what a process said last: one that goes on saying something has none."""
SECONDS = 60.0
"""How long an answer may take: a system that works at all takes milliseconds, and its import a few seconds."""
ENDING_SECONDS = 5.0
"""How long a process may take to end after it has closed a pipe."""
LOOK_SECONDS = 0.5
"""How often it is seen whether the process is still there: a pipe may be held open by another."""
_CHUNK = 1 << 16


class AdapterError(Exception):
    """The adapter broke the protocol, did not answer, or died by itself: the message says what and where."""


class SilentError(AdapterError):
    """No answer came in time, and the process is still there."""


class DiedError(AdapterError):
    """The process ended although nobody had killed it."""


class Channel:
    """A child and its three pipes. Not for two threads at once."""

    def __init__(
        self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None, seconds: float = SECONDS
    ) -> None:
        self.command = tuple(command)
        self.seconds = seconds
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self._read = 0
        self._errors = b""
        self.left_behind: list[str] = []
        """Processes that outlived the child in a session of their own, and had to be ended."""
        self._mark = uuid.uuid4().hex
        orphans.adopt()
        try:
            self.process = subprocess.Popen(  # noqa: S603 - the command is the user's own
                self.command,
                cwd=cwd,
                env={**(os.environ if env is None else env), orphans.MARK: self._mark},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise AdapterError(
                f"{shown(' '.join(self.command))} cannot be started: {why}; "
                "check the command, and that the file is executable"
            ) from error
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._selector = selectors.DefaultSelector()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            os.set_blocking(stream.fileno(), False)
        for stream in (self.process.stdout, self.process.stderr):
            self._selector.register(stream, selectors.EVENT_READ)
        self.is_killed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The child's process id, and its group's."""
        return self.process.pid

    # -- lines ------------------------------------------------------------------------------------------------

    def send(self, message: Mapping[str, Any]) -> None:
        """One object on a line. Raises DiedError if nobody is there to read it, SilentError if nobody does."""
        assert self.process.stdin is not None
        limit = time.monotonic() + self.seconds
        data = json.dumps(message).encode() + b"\n"
        while data:
            try:
                data = data[os.write(self.process.stdin.fileno(), data) :]
            except BlockingIOError:
                left = limit - time.monotonic()
                if left <= 0:
                    raise SilentError(self._silence("read its standard input", self.seconds)) from None
                select.select([], [self.process.stdin], [], left)
            except (BrokenPipeError, ConnectionResetError) as error:
                raise self._gone() from error

    def receive(self, seconds: float | None = None) -> dict[str, Any]:
        """The next object. Raises AdapterError for anything that is none, DiedError at the end."""
        line = self.next_line(seconds)
        number = self._read - len(self._lines)
        try:
            message = json.loads(line, parse_constant=str)  # NaN is no JSON, and not even equal to itself
        except (ValueError, RecursionError) as error:
            raise AdapterError(
                f"line {number} of its standard output is noise, no JSON object: {shown(line.decode(errors='replace'))}; "
                "print to the standard error"
            ) from error
        if not isinstance(message, dict):
            raise AdapterError(
                f"line {number} of its standard output is {shown(message)}, not a JSON object; "
                "answer with one object a line"
            )
        return message | {"line": number}

    def next_line(self, seconds: float | None = None) -> bytes:
        """The next line, without its end. Raises SilentError if none comes."""
        seconds = self.seconds if seconds is None else seconds
        limit = time.monotonic() + seconds
        while not self._lines:
            left = limit - time.monotonic()
            if left <= 0:
                raise SilentError(self._silence("answered", seconds))
            has_ended, before = self.process.poll() is not None, (self._read, len(self._rest))
            is_open = self._fill(0 if has_ended else min(left, LOOK_SECONDS))
            if not is_open or (has_ended and before == (self._read, len(self._rest))):
                raise self._gone()
        return self._lines.popleft()

    def waiting(self) -> bool:
        """Whether a line is there already."""
        if not self._lines:
            self._fill(0)
        return bool(self._lines)

    def _fill(self, seconds: float) -> bool:
        """Read what is there, waiting for so long; False at the end of the output."""
        assert self.process.stdout is not None
        for key, _ in self._selector.select(seconds):
            data = os.read(key.fd, _CHUNK)
            if key.fileobj is self.process.stderr:
                self._errors = (self._errors + data)[-STDERR_KEPT:]
                if not data:
                    self._selector.unregister(key.fileobj)
                continue
            if not data:
                if self._rest:
                    raise AdapterError(
                        f"line {self._read + 1} of its standard output is torn: "
                        f"{shown(self._rest.decode(errors='replace'))}{self._last_words()}; end each line with a newline"
                    )
                return bool(self._lines)
            self._split(data)
        return True

    def _split(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._read += len(lines)
        self._lines += lines
        if len(self._rest) > LINE_MAX or any(len(line) > LINE_MAX for line in lines):
            raise AdapterError(
                f"line {self._read + 1} of its standard output is longer than {LINE_MAX:,} bytes; "
                "a message is one short object"
            )
        if len(self._lines) > AHEAD_MAX:
            raise AdapterError(
                f"it floods its standard output: line {self._read} came although nobody asked for more than "
                f"line {self._read - len(self._lines) + 1}; answer once a request"
            )

    # -- the process -------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """End the process and its whole group at once, as a death does, and wait until it has ended."""
        if self.is_killed:
            return  # its number may be another's by now
        self.is_killed = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
        self.left_behind += orphans.end_those_of(self._mark, self.pid)

    def freeze(self) -> None:
        """Stop the whole group, and wait until the process really is stopped. Raises DiedError if it ended."""
        os.killpg(self.pid, signal.SIGSTOP)
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            self.process.returncode = os.waitstatus_to_exitcode(status)
            raise self._gone()

    def thaw(self) -> None:
        """Let the group go on."""
        os.killpg(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """Kill what is left of the group, and let go of the pipes."""
        self.kill()
        self._selector.close()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            with contextlib.suppress(OSError):
                stream.close()

    def _gone(self) -> AdapterError:
        """Why there is nobody at the other end of a pipe."""
        try:
            status = self.process.wait(min(self.seconds, ENDING_SECONDS))
        except subprocess.TimeoutExpired:
            return AdapterError(
                f"it goes on after line {self._read} of its standard output and has closed a pipe{self._last_words()}; "
                "keep its standard input and output open until it has answered close"
            )
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        return DiedError(
            f"it {how} after line {self._read} of its standard output{self._last_words()}; "
            "it is to end once it has answered close, and not before"
        )

    def _silence(self, what: str, seconds: float) -> str:
        return (
            f"it has not {what} within {seconds:g} s{self._last_words()}; see whether it hangs, or raise --patience"
        )

    def _last_words(self) -> str:
        assert self.process.stderr is not None
        with contextlib.suppress(BlockingIOError, OSError, ValueError):
            for _ in range(LAST_WORDS_MAX):
                self._errors = (self._errors + os.read(self.process.stderr.fileno(), _CHUNK))[-STDERR_KEPT:]
        last = self._errors.decode(errors="replace").strip().splitlines()
        return f"; its last words: {shown(last[-1])}" if last else ""

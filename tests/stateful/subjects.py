"""Dispatchers that lie, break or misbehave, each in one way: what the harness must see through."""

from __future__ import annotations

import asyncio
import builtins
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import ClassVar

from attrs import evolve

from examples.toy_dispatcher import ToyDispatcher
from impl import Answer, BaseDispatcher, NoAnswerError, Overdue, Permit, Request
from impl.protocol import StoppedError
from impl.sqlite import Ledger, SqliteDispatcher
from model.words import Capability, Kind


class Honest(SqliteDispatcher):
    """The SQLite dispatcher as it is."""


class LosesSubmit(SqliteDispatcher):
    """It acknowledges an intent that it did not store."""

    def submit(self, key, payload):
        return Answer(Kind.OK)


class AppliesTwice(SqliteDispatcher):
    """It sends twice and reports once."""

    def apply(self, permit):
        answer = super().apply(permit)
        self.site.sink.apply(permit.request)
        return answer


class SendsNothing(SqliteDispatcher):
    """It reports an effect, and has not sent."""

    def apply(self, permit):
        return Answer(Kind.OK, receipt="r-1")


class SendsOnTheSide(SqliteDispatcher):
    """Its rows are right to the last column, and it sends once more under a name of its own."""

    def apply(self, permit):
        answer = super().apply(permit)
        self.site.sink.apply(evolve(permit.request, key=f"{permit.request.key}-again"))
        return answer


class TakesAnythingForDone(SqliteDispatcher):
    """Whatever goes wrong while it sends, its own death too, it reports an effect."""

    def apply(self, permit):
        with suppress(BaseException):
            self.site.sink.apply(permit.request)
        return Answer(Kind.OK, receipt="r-1")


class TakesAnythingForStored(SqliteDispatcher):
    """It sends before it stores, and whatever goes wrong while it stores, its own death too, it answers that it has."""

    def submit(self, key, payload):
        self.site.sink.apply(Request(key, payload, 1))
        try:
            return super().submit(key, payload)
        except BaseException:  # noqa: BLE001 - the very mistake
            return Answer(Kind.OK)


class SendsAfterItsDeath(SqliteDispatcher):
    """What it was about to send when it died is still on its way, and arrives while another process claims."""

    under_way: ClassVar[list[Request]] = []

    def submit(self, key, payload):
        self.under_way.clear()
        return super().submit(key, payload)

    def apply(self, permit):
        self.under_way[:] = [permit.request]
        answer = super().apply(permit)
        self.under_way.clear()
        return answer

    def claim(self, key):
        while self.under_way:
            self.site.sink.apply(self.under_way.pop())
        return super().claim(key)


class SendsAfterTheDeadline(SqliteDispatcher):
    """It tells the sink of no deadline, so that what it sends late arrives late."""

    def apply(self, permit):
        return super().apply(Permit(evolve(permit.request, not_after_ms=None)))


class SwallowsCrash(SqliteDispatcher):
    """It catches whatever goes wrong, its own death too, and says that all went well."""

    def submit(self, key, payload):
        return self._always(super().submit, key, payload)

    def dispatch(self, key, token):
        return self._always(super().dispatch, key, token)

    def acknowledge(self, key, token, answer):
        return self._always(super().acknowledge, key, token, answer)

    @staticmethod
    def _always(work, *arguments):
        for _ in range(3):
            try:
                return work(*arguments)
            except BaseException:  # noqa: BLE001, S112 - the very mistake
                continue
        return Answer(Kind.OK, receipt="r-1")


class Raises(SqliteDispatcher):
    """It raises instead of answering."""

    def claim(self, key):
        raise ValueError("no lease today")


class RaisesWhenOpened(SqliteDispatcher):
    """It cannot even be opened."""

    def __init__(self, site):
        raise OSError("no disk today")


class AnswersNone(SqliteDispatcher):
    """It answers nothing."""

    def dispatch(self, key, token):
        super().dispatch(key, token)


class WrongToken(SqliteDispatcher):
    """It hands out a token other than the one that it stored."""

    def claim(self, key):
        answer = super().claim(key)
        return evolve(answer, token=answer.token + 1) if answer.token else answer


class RefusesRenewal(SqliteDispatcher):
    """It refuses what it should grant."""

    def renew(self, key, token):
        return Answer(Kind.REFUSED, "not in the mood")


class MovesDeadline(SqliteDispatcher):
    """It answers well and stores something else."""

    def submit(self, key, payload):
        answer = super().submit(key, payload)
        if answer.kind is Kind.OK:
            self.ledger._connection.execute("UPDATE intents SET deadline_ms = deadline_ms + 1 WHERE key = ?", (key,))
        return answer


class MovesDeadlineAndForgets(MovesDeadline):
    """A difference that breaks no named promise, and later one that does."""

    def claim(self, key):
        answer = super().claim(key)
        self.ledger._connection.execute("DELETE FROM intents WHERE key = ?", (key,))
        return answer


class StoresInTwoGoes(SqliteDispatcher):
    """A death between its two transactions leaves rows that are neither before nor after."""

    def submit(self, key, payload):
        answer = super().submit(key, payload)
        if answer.kind is Kind.OK:
            execute = self.ledger._connection.execute
            execute("UPDATE intents SET deadline_ms = deadline_ms + 1 WHERE key = ?", (key,))
            execute("UPDATE intents SET deadline_ms = deadline_ms - 1 WHERE key = ?", (key,))
        return answer


class Hangs(SqliteDispatcher):
    """It never answers."""

    def dispatch(self, key, token):
        while True:
            pass


class Exits(SqliteDispatcher):
    """It ends its process."""

    def dispatch(self, key, token):
        os._exit(7)


class KillsItsGroup(ToyDispatcher):
    """It ends whatever shares its process group."""

    def dispatch(self, key, token):
        os.killpg(0, signal.SIGTERM)


class Floods(SqliteDispatcher):
    """It prints without end."""

    def submit(self, key, payload):
        sys.stdout.write("x" * (1 << 20))
        os.write(1, b"y" * (1 << 16))
        return super().submit(key, payload)


class SendsFirst(ToyDispatcher):
    """It sends while it submits, before it stores anything."""

    def submit(self, key, payload):
        self.site.sink.apply(Request(key, payload, 1))
        return super().submit(key, payload)


class AnswersAmiss(SqliteDispatcher):
    """Its answer to one operation is wrong in one field: ``amiss`` says which, and how."""

    amiss: ClassVar[tuple[str, dict[str, object]]] = ("", {})

    def __getattribute__(self, name):
        verb, changes = type(self).amiss
        method = super().__getattribute__(name)
        return (lambda *arguments: self._amiss(method(*arguments), changes)) if name == verb else method

    @staticmethod
    def _amiss(said, changes):
        if isinstance(said, Permit):
            return Permit(evolve(said.request, **changes))
        return evolve(said, **changes) if isinstance(said, Answer) else (Overdue(**{**OVERDUE, **changes}),)


OVERDUE = {"key": "k1", "token": 1, "expiry_ms": 1}


class NegativeToken(ToyDispatcher):
    """It grants with a token that is none."""

    def claim(self, key):
        return Answer(Kind.OK, token=-5)


class TakesItsFolderAway(SqliteDispatcher):
    """It removes all that it has stored, while it is at work."""

    def dispatch(self, key, token):
        shutil.rmtree(self.site.folder)
        return super().dispatch(key, token)


class Garbles(ToyDispatcher):
    """Its words can be neither printed nor encoded."""

    def dispatch(self, key, token):
        raise ValueError("boom \ud800 \x1b[31m\n\r" + "x" * 5_000)


class GarblesItsRows(SqliteDispatcher):
    """It stores what is no row."""

    garbage: ClassVar[str] = "UPDATE intents SET state = char(27) || '[31m'"

    def cancel(self, key):
        self.ledger._connection.execute(self.garbage)
        return Answer(Kind.OK)


class ClaimsLeases(BaseDispatcher):
    """It declares a capability that it has no methods for."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.LEASES})

    def submit(self, key, payload):
        return Answer(Kind.OK)

    def dispatch(self, key, token):
        return Answer(Kind.OK)


class ClaimsMagic(ClaimsLeases):
    """It declares a capability that does not exist."""

    capabilities: ClassVar[frozenset[str]] = frozenset({"magic"})


class NoDispatcher:
    """It has nothing of a dispatcher."""


class BeginsLater(Ledger):
    """Its transactions begin without the lock."""

    BEGIN = "BEGIN"


class Deferred(SqliteDispatcher):
    """It is right, and takes the lock when it first writes: two of it may deadlock, and then one is busy."""

    ledger_class = BeginsLater


class StoppedClock(Ledger):
    """It looks at the clock when it is opened."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._opened_ms = self.clock.now_ms()

    def _now_ms(self):
        return self._opened_ms


class LooksAtTheClockOnce(SqliteDispatcher):
    """It never notices that time has passed."""

    ledger_class = StoppedClock


class Sleeps(SqliteDispatcher):
    """It sleeps before it claims."""

    def claim(self, key):
        self.wait()
        return super().claim(key)

    def wait(self):
        time.sleep(0)


class StartsThread(Sleeps):
    """It claims beside a thread of its own."""

    def wait(self):
        thread = threading.Thread(target=str)
        thread.start()
        thread.join()


class Forks(Sleeps):
    """It claims beside a child of its own."""

    def wait(self):
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)


class StartsProcess(Sleeps):
    """It claims after another program."""

    def wait(self):
        subprocess.run(["/bin/true"], check=True)


class SleepsInSecret(Sleeps):
    """It sleeps, and catches whatever anybody says about it."""

    def wait(self):
        with suppress(BaseException):
            super().wait()


class WaitsOnItsLoop(Sleeps):
    """It waits a moment on an event loop."""

    def wait(self):
        asyncio.run(asyncio.sleep(0.001))


class Awaits(Sleeps):
    """It awaits what takes no time, and is right."""

    def wait(self):
        asyncio.run(self._twice())

    async def _twice(self):
        await asyncio.sleep(0)
        await asyncio.sleep(0)


class AsksForEver(SqliteDispatcher):
    """It looks again and again, and never claims."""

    def claim(self, key):
        while True:
            self.ledger._connection.execute("SELECT 1 FROM intents").fetchone()


class LoopsInClaim(SqliteDispatcher):
    """It never comes to a boundary again."""

    def claim(self, key):
        while True:
            pass


class HoldsMutex(SqliteDispatcher):
    """It claims under a lock of its process: another process has another lock."""

    mutex: ClassVar[threading.Lock] = threading.Lock()

    def claim(self, key):
        with self.mutex:
            return super().claim(key)


class SharesMutex(SqliteDispatcher):
    """It claims under a lock that it has put where every lane finds it, as a library might."""

    def __init__(self, site):
        super().__init__(site)
        builtins.mutex_of_lanes = getattr(builtins, "mutex_of_lanes", None) or threading.Lock()

    def claim(self, key):
        with builtins.mutex_of_lanes:
            return super().claim(key)


class RemembersKeys(ToyDispatcher):
    """It sends what it has not seen, and remembers that in its class: other processes know nothing of it."""

    seen: ClassVar[set[str]] = set()

    def _send(self, key, payload, token):
        if key in self.seen:
            return Answer(Kind.REFUSED, "seen")
        self.seen.add(key)
        try:
            answer = self.site.sink.apply(Request(key, payload, token))
        except NoAnswerError:
            return Answer(Kind.UNKNOWN, "no answer")
        return self._record(key, Kind.OK, answer.receipt)


class OpensByItself(BaseDispatcher):
    """It opens its database without asking the site."""

    def __init__(self, site):
        super().__init__(site)
        self.own = sqlite3.connect(site.folder / "own.sqlite3")
        self.own.execute("CREATE TABLE IF NOT EXISTS wanted (key TEXT, payload TEXT)")

    def submit(self, key, payload):
        """Store it where nobody looks."""
        with self.own:
            self.own.execute("INSERT INTO wanted VALUES (?, '')", (key,))
        return Answer(Kind.OK)

    def dispatch(self, key, token):
        """Nothing is ever sent."""
        return Answer(Kind.REFUSED, "never")

    def close(self):
        """Let go of it."""
        self.own.close()


class OptimistsLedger(Ledger):
    """Trouble with the store is success."""

    def _operate(self, work, *args, **kwargs):
        answer = super()._operate(work, *args, **kwargs)
        is_trouble = isinstance(answer, Answer) and answer.reason.startswith("ledger.sqlite3: ")
        return Answer(Kind.OK) if is_trouble else answer


class Optimist(SqliteDispatcher):
    """Whatever its store says, it answers that all is well."""

    ledger_class = OptimistsLedger


class SulkingLedger(Ledger):
    """One trouble with the store is enough."""

    sulking = False

    def _operate(self, work, *args, **kwargs):
        if self.sulking:
            return Answer(Kind.REFUSED, "not again")
        answer = super()._operate(work, *args, **kwargs)
        self.sulking = isinstance(answer, Answer) and answer.reason.startswith("ledger.sqlite3: ")
        return answer


class Sulks(SqliteDispatcher):
    """After the first trouble with its store it refuses everything."""

    ledger_class = SulkingLedger


class TalkativeLedger(Ledger):
    """No error is explained."""

    def _explained(self, error):
        return error


class Talkative(SqliteDispatcher):
    """What SQLite raises reaches its caller as it is."""

    ledger_class = TalkativeLedger


class Anonymous(SqliteDispatcher):
    """It stops at damage, and does not say where."""

    def __init__(self, site):
        try:
            super().__init__(site)
        except StoppedError:
            raise StoppedError("something is wrong") from None

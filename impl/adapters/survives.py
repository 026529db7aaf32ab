"""This project's own SQLite dispatcher as a system that is called: the table's control, judged like everybody else.

A client submits, an approver signs, a worker claims, dispatches and acknowledges. Its sink is the suite's, behind a
service that deduplicates and can be asked; an operator's word is a lookup.
"""

import sqlite3
import sys
from pathlib import Path

from survives_adapter import Claim, Denied, EffectFailed, InDoubt, Pending, Refused, System, serve

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from impl.approvals import digest_of, signed
from impl.protocol import Decision, NoAnswerError, SinkAnswer, Site, Verdict
from impl.sqlite import RealFiles, SqliteDispatcher
from model.contracts import Contracts, Limits
from model.words import Kind, State

KEYS = {"alice": b"alice-signs-with-this"}
LIMITS = Limits(lease_ms=1_000, approval_ms=60_000, deadline_ms=10**12, max_attempts=3)
DOCS = "README.md, and the properties that `survives list properties` prints"


class Clock:
    """A clock that can be set."""

    now = 0

    def now_ms(self):
        return self.now

    wall_ms = now_ms


class Survives(System):
    """One process: client, approver and worker in one."""

    name, version, passes_id, lease_ms = "survives' own", "0", True, LIMITS.lease_ms
    claims = [
        Claim("at-most-once", "A key has at most one effect.", where=DOCS),
        Claim("effect-kept", "An acknowledged intent is never lost.", where=DOCS),
        Claim("stable-id", "The key names the effect.", where=DOCS),
        Claim("in-doubt", "An unknown outcome stays unknown until reconciled.", where=DOCS),
        Claim("first-result", "A replay returns the first receipt.", where=DOCS),
        Claim("true-completion", "A completed intent has its effect.", where=DOCS),
        Claim("changed-payload", "A changed payload is refused.", choice="refused", where=DOCS),
        Claim("one-at-a-time", "A key has at most one valid lease.", where=DOCS),
        Claim("late-owner", "No write of a former owner lands after a newer grant.", where=DOCS),
        Claim("approval-needed", "No effect is authorised without a valid approval.", where=DOCS),
        Claim("approval-payload", "An approval is bound to the digest.", where=DOCS),
        Claim("approval-expires", "An approval expires.", where=DOCS),
        Claim("approval-once", "One approval is spent on one operation.", where=DOCS),
        Claim("cancel-honoured", "After an acknowledged cancellation no effect starts.", where=DOCS),
        Claim("progress", "Every intent ends; what is in doubt, by an operator.", choice="operator", where=DOCS),
    ]
    notes = (
        "The control: this project's own dispatcher, by the makers of the judges. Its budget of attempts is not judged "
        "here, as doubt comes first."
    )

    def open(self):
        self.clock = Clock()
        self.does = SqliteDispatcher(
            Site(
                folder=self.folder,
                worker=self.worker,
                contracts=Contracts(),
                limits=LIMITS,
                clock=self.clock,
                files=RealFiles(),
                sink=self,
                connect=lambda path: sqlite3.connect(path, isolation_level=None, timeout=5),
                approver_keys=KEYS,
                lease_ms=LIMITS.lease_ms,
                live_settings={},
            )
        )

    def apply(self, request):
        """The sink as the dispatcher sees it."""
        try:
            receipt = self.effect(request.key, request.payload, id=request.key)
        except EffectFailed as error:
            raise NoAnswerError(str(error)) from error
        return SinkAnswer(Verdict.DONE, receipt)

    word = None
    """What an operator has found out."""

    def lookup(self, key, payload, token):
        if self.word is None:
            raise NoAnswerError("this sink cannot be asked: an operator has to")
        return self.word

    def reconcile(self, key, happened):
        self.word = SinkAnswer(Verdict.DONE, "found by an operator") if happened else SinkAnswer(Verdict.ABSENT)
        lease = self.does.claim(key)
        answer = self.does.reconcile(key, lease.token) if lease.kind is Kind.OK else lease
        self.word = None
        if answer.kind not in {Kind.OK, Kind.REPLAYED}:
            raise Refused(answer.reason)

    def start(self, key, payload):
        stored = self.does.submit(key, payload)
        if stored.kind is Kind.REFUSED:
            raise Refused(stored.reason)
        if self.handles.get(key) is None:
            self.handles.set(key, self.clock.now)  # when the approver was asked: the word's time runs from there
        return self._bring_on(key)

    def decide(self, key, payload, verdict):
        until = (self.handles.get(key) or 0) + LIMITS.approval_ms
        word = Decision(key, digest_of(payload), "alice", verdict, until, 1)
        answer = self.does.decide(signed(word, KEYS["alice"]))
        if answer.kind is Kind.REFUSED:
            raise Refused(answer.reason)
        return self._bring_on(key) if verdict == "grant" else "denied"

    def cancel(self, key):
        answer = self.does.cancel(key)
        if answer.kind not in {Kind.OK, Kind.REPLAYED}:
            raise Refused(answer.reason)

    def recover(self):
        self.does.reap(self.does.overdue())

    def advance(self, ms):
        self.clock.now += ms

    def _bring_on(self, key):
        standing = self.does.ledger.standing(key)
        if standing.state is State.COMPLETED:
            return standing.receipt
        if standing.state in {State.UNKNOWN, State.DISPATCHING}:
            raise InDoubt("sent, and no answer was recorded")
        if standing.state is not State.PENDING:
            raise Denied(standing.state)
        lease = self.does.claim(key)
        if lease.kind is Kind.REFUSED:
            raise Pending(lease.reason)
        answer = self.does.dispatch(key, lease.token)
        if answer.kind is Kind.REFUSED:
            self.does.release(key, lease.token)
            raise Pending(answer.reason)
        self.does.acknowledge(key, lease.token, answer)
        if answer.kind is Kind.UNKNOWN:
            raise InDoubt(answer.reason)
        return answer.receipt


serve(Survives)

"""The rule as a timed automaton: alarms ring in the order of their time, and in every order where that is the same.

Whatever the runner does in no time at all is an alarm of the present instant, so that anything else of that instant may
come before it. ``outcomes`` follows every order; where a run ends is its outcome.
"""

from __future__ import annotations

from functools import lru_cache

from attrs import evolve

from model.attempts.ground import Ground
from model.attempts.now import Now
from model.attempts.script import LATE_MS, RETRY_AFTER_MS, TRAVEL_MS, Event, EventKind, Said
from model.attempts.setup import Setup
from model.attempts.told import End, Told
from model.contracts import AttemptTimeout, Cancellation, Retry
from model.words import IN_FLIGHT, TERMINAL, State

_CALL = frozenset({"send", "arrive", "answer", "limit", "cut", "grace", "record"})
_THREAD = frozenset({"send", "arrive", "answer"})
"""What a thread goes on with when nobody waits for it."""
_RUNNER = _CALL | {"beat", "cancel", "wake", "keep", "asks", "fence", "told", "ask-limit", "resume"}


@lru_cache(maxsize=200_000)
def outcomes(setup: Setup, answers: tuple[Said, ...], events: tuple[Event, ...]) -> frozenset[Told]:
    """Everything that may come of an operation whose requests get these answers, one after the other.

    An operation that sends more often than there are answers is not allowed to: it finds no outcome.
    """
    automaton = _Automaton(setup, answers, events)
    first = Now(alarms=tuple(sorted((e.at_ms, "event", n) for n, e in enumerate(events))))
    found: set[Told] = set()
    seen = {first}
    stack = [first]
    while stack:
        now = stack.pop()
        if not now.alarms:
            found.add(now.told())
            continue
        for then in automaton.next(now):
            if then not in seen:
                seen.add(then)
                stack.append(then)
    return frozenset(found)


class _Automaton(Ground):
    """What the runner does, alarm by alarm."""

    # -- what comes from outside ------------------------------------------------------------------------------

    def _event(self, now: Now, n: int) -> Now:
        event = self.events[n]
        match event.kind:
            case EventKind.START:
                fresh = evolve(now, token=0, tries=0, is_cancelled=False, is_interrupted=False, lingers=False, got="")
                return self._claim(evolve(fresh, is_final=False), "go on")
            case EventKind.CANCEL:
                return self._set(now, "cancel")  # whoever cancels is of this process, and may die before it is heard
            case EventKind.INTERRUPT:
                return self._interrupted(now)
            case EventKind.CLAIM:
                return self._claimed_by_another(now)
            case EventKind.KILL:
                if now.phase == "over":
                    return now
                return self._over(self._without(now, _RUNNER), End.KILLED)
            case EventKind.STALL:
                until = event.until_ms
                alarms = sorted((max(at, until) if at <= until else at, name, k) for at, name, k in now.alarms)
                return evolve(now, now_ms=max(now.now_ms, until), alarms=tuple(alarms))

    def _cancel(self, now: Now, _n: int) -> Now:
        if now.state in TERMINAL:
            return now
        if self.setup.contracts.cancellation is Cancellation.FORCEFUL:
            now = evolve(now, state=State.CANCELLED)
        elif now.state in IN_FLIGHT:
            now = evolve(now, wish=True)
        else:
            now = evolve(now, state=State.CANCELLED, lease_until_ms=None)
        if now.phase == "over":
            return now
        now = evolve(now, is_cancelled=True)
        if now.phase == "attempt":
            return self._to_cut(now)
        return self._set(self._without(now, frozenset({"wake"})), "keep") if now.phase == "waiting" else now

    def _interrupted(self, now: Now) -> Now:
        if now.phase == "over":
            return now
        now = evolve(now, is_interrupted=True)
        if now.phase == "attempt":
            return self._to_cut(now)
        if now.phase == "waiting":
            return self._set(self._without(now, frozenset({"wake"})), "keep")
        return self._set(now, "resume")

    # -- the lease --------------------------------------------------------------------------------------------

    def _claim(self, now: Now, aim: str) -> Now:
        now = self._without(evolve(now, aim=aim, heard=""), frozenset({"beat"}))
        if self._bars(now):
            return self._refused(now)
        if now.state in IN_FLIGHT and self.fenced:
            return self._ask(now)
        return self._granted(now)

    def _granted(self, now: Now) -> Now:
        now = self._leased(now)
        now = self._renewed(evolve(now, token=now.high))
        if now.state not in IN_FLIGHT:
            return self._settled(now)
        return self._reconciled(now) if now.heard else self._ask(now)

    def _resume(self, now: Now, _n: int) -> Now:
        now = self._without(now, frozenset({"asks", "fence", "told", "ask-limit", "resume"}))
        if not now.heard:
            if now.is_interrupted:
                return self._left(now)
            return self._refused(now) if self.fenced else self._settled(now)
        if now.state in TERMINAL:
            return self._refused(now)
        if not self.fenced:
            return self._reconciled(now)
        is_outrun = self._bars(now) or now.asked != now.high + 1
        return self._refused(now) if is_outrun else self._granted(now)

    def _reconciled(self, now: Now) -> Now:
        if now.heard == "found":
            return self._settled(evolve(now, state=State.COMPLETED, in_doubt=False, lease_until_ms=None))
        return self._settled(self._no_effect(now, final=now.is_final))

    def _settled(self, now: Now) -> Now:
        """The lease is there, and nothing is in doubt that can be settled."""
        if now.is_interrupted:
            return self._left(now)
        return self._finished(now) if now.aim == "settle" else self._authorise(now)

    # -- one attempt ------------------------------------------------------------------------------------------

    def _authorise(self, now: Now) -> Now:
        if now.state is State.COMPLETED and self.remembers:
            return self._over(now, End.REPLAYED)
        is_over = now.state in TERMINAL and now.state is not State.COMPLETED
        if is_over or not self._holds(now) or now.wish or self._is_late(now):
            return self._refused(now)
        if now.attempts >= self.setup.max_attempts or (now.state is State.COMPLETED and self.spends):
            return self._refused(now)
        now = evolve(
            now,
            phase="attempt",
            attempts=now.attempts + 1,
            tries=now.tries + 1,
            in_doubt=now.in_doubt or now.state in IN_FLIGHT,
            state=State.DISPATCHING,
            tokens=(*now.tokens, now.token),
            acted=(*now.acted, ""),
            got="",
        )
        n = len(now.tokens) - 1
        limit_ms = self.setup.attempt_ms
        if self.has_deadline:
            limit_ms = min(limit_ms, self.setup.deadline_ms - now.now_ms)
        return self._set(self._set(now, "send", 0, n), "limit", limit_ms, n)

    def _send(self, now: Now, n: int) -> Now:
        is_unleased = self.fenced and now.now_ms >= now.sure_until_ms
        if is_unleased or self._is_late(now):
            waits = now.phase == "attempt" and n == len(now.tokens) - 1
            return self._to_cut(evolve(now, got="unleased" if is_unleased else "late")) if waits else now
        k = len(now.sends_ms)
        if k >= len(self.answers):
            return evolve(now, alarms=((now.now_ms, "never", 0),))
        now, said = evolve(now, sends_ms=(*now.sends_ms, now.now_ms)), self.answers[k]
        at = 100 * n + k  # which send, and which answer
        match said:
            case Said.HANG:
                return now
            case Said.LATE:
                return self._set(now, "arrive-late", self.setup.attempt_ms + LATE_MS, at)
            case Said.RESET_BEFORE:
                return self._set(now, "answer", TRAVEL_MS, at)
        return self._set(now, "arrive", TRAVEL_MS, at)

    def _never(self, now: Now, _n: int) -> Now:
        """A send that nothing allows: it leads to no outcome."""
        return evolve(now, alarms=((now.now_ms, "never", 0),))

    def _cut(self, now: Now, _n: int) -> Now:
        """The attempt ends: by its answer, or else by force."""
        n = len(now.tokens) - 1
        was_sent = not any(a[1] == "send" for a in now.alarms)
        now = self._without(now, frozenset({"limit"}))
        if now.got:
            return self._set(self._without(now, frozenset({"arrive", "answer"})), "record")
        if self.isolation is AttemptTimeout.THREAD:
            return self._set(now, "record", got="silence", lingers=True)
        now = self._without(now, _THREAD)
        if not was_sent or self.isolation is AttemptTimeout.PROCESS:
            return self._set(now, "record", got="silence")
        if self.answers[len(now.sends_ms) - 1] is Said.HANG:
            return self._set(now, "grace", self.setup.grace_ms, n)
        return self._set(now, "record", got="silence", cleaned=now.cleaned + 1)

    def _grace(self, now: Now, _n: int) -> Now:
        return self._set(now, "record", got="silence", lingers=True)

    def _record(self, now: Now, _n: int) -> Now:
        """The ledger hears what the attempt came to; the run ends, or goes on."""
        got, now, is_picky = now.got, evolve(now, got=""), self.setup.contracts.retry is Retry.TRANSIENT
        is_heard = now.state not in TERMINAL and (not self.fenced or now.token == now.high)
        if got in {"done", "replayed"}:
            if is_heard:
                now = evolve(now, state=State.COMPLETED, in_doubt=False, lease_until_ms=None)
            return (
                self._left(now)
                if now.is_interrupted
                else self._over(now, End.EFFECT if got == "done" else End.REPLAYED)
            )
        if is_heard:
            if got in {"silence", "unclear"} or now.in_doubt:
                now = evolve(now, state=State.UNKNOWN, in_doubt=True)
            else:
                now = self._no_effect(now, final=got == "permanent" and is_picky)
        if now.is_interrupted:
            return self._left(now)
        now = evolve(now, is_final=got == "permanent" and is_picky)
        gives_up = got in {"unclear", "stale", "permanent"} and is_picky
        if now.state in TERMINAL or gives_up:
            return self._refused(now)
        wait_ms = 0 if now.is_cancelled else self._wait_ms(now, got)
        return self._set(now, "wake", wait_ms, phase="waiting") if wait_ms > 0 else self._kept(now)

    def _wait_ms(self, now: Now, got: str) -> int:
        wait_ms = self.setup.waits_ms[now.tries - 1]
        if got == "transient" and self.answers[len(now.sends_ms) - 1] is Said.TOO_MANY_UNTIL:
            wait_ms = max(wait_ms, RETRY_AFTER_MS)
        return min(wait_ms, self.setup.deadline_ms - now.now_ms) if self.has_deadline else wait_ms

    # -- between two, and the end -----------------------------------------------------------------------------

    def _wake(self, now: Now, _n: int) -> Now:
        return self._set(now, "keep")

    def _keep(self, now: Now, _n: int) -> Now:
        return self._left(now) if now.is_interrupted else self._kept(now)

    def _kept(self, now: Now) -> Now:
        """Before another attempt: the lease is renewed, or taken anew."""
        if now.lingers and self.fenced:
            return self._claim(evolve(self._released(now), lingers=False), "go on")
        if now.lease_until_ms is not None and self._holds(now):
            return self._authorise(self._renewed(now))
        return self._claim(now, "go on")

    def _refused(self, now: Now) -> Now:
        """No further attempt: what is in doubt is settled with the sink, once, if it can be."""
        if now.is_interrupted:
            return self._left(now)
        if now.token and now.state in IN_FLIGHT and now.aim != "settle":
            return self._claim(self._released(now), "settle")
        return self._finished(now)

    def _finished(self, now: Now) -> Now:
        if now.token:
            now = self._released(now)
            lapsed = now.lease_until_ms is not None and now.now_ms >= now.lease_until_ms
            if lapsed:
                now = evolve(now, lease_until_ms=None)
            if now.lease_until_ms is None and now.state is State.PENDING and self._is_late(now):
                now = evolve(now, state=State.EXPIRED)
        if now.state is State.COMPLETED:
            return self._over(now, End.REPLAYED)
        if now.state in TERMINAL:
            return self._over(now, End.NO_EFFECT)
        return self._over(now, End.UNKNOWN if now.state in IN_FLIGHT else End.REFUSED)

    def _left(self, now: Now) -> Now:
        """The worker is to end: it gives the lease back."""
        return self._over(self._released(now) if now.token else now, End.INTERRUPTED)

    def _over(self, now: Now, end: End) -> Now:
        lives_on = frozenset({"cancel"}) if end is not End.KILLED else frozenset()
        if self.isolation is AttemptTimeout.THREAD and lives_on:
            lives_on |= _THREAD
        now = self._without(now, _RUNNER - lives_on)
        return evolve(now, phase="over", ends=(*now.ends, (end, now.now_ms)), got="", heard="", aim="", lingers=False)

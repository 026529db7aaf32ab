"""What a run of attempts stands on, by rule: alarms that ring in order, the ledger's lease, and what the sink does."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from model.attempts.now import Now
from model.attempts.script import BACK_MS, TRAVEL_MS, Event, Said
from model.attempts.setup import Setup
from model.contracts import ApprovalGate, Deadline, Fencing, Idempotency
from model.words import IN_FLIGHT, TERMINAL, State


class Ground:
    """One setup, one script, its events; and what of an instant follows from them, whatever the runner decides."""

    def __init__(self, setup: Setup, answers: tuple[Said, ...], events: tuple[Event, ...]) -> None:
        contracts = setup.contracts
        self.setup, self.answers, self.events = setup, answers, events
        self.fenced = contracts.fencing is Fencing.SINK_AND_LEDGER
        self.binds = contracts.idempotency is Idempotency.SINK
        self.remembers = contracts.idempotency is not Idempotency.NONE
        self.has_deadline = contracts.deadline is Deadline.ABSOLUTE
        self.spends = contracts.approval is ApprovalGate.BOUND
        """Whether what was approved once was approved for one effect."""
        self.isolation = contracts.attempt_timeout

    def next(self, now: Now) -> Iterator[Now]:
        """What may come next: any of the alarms of the earliest instant; of events, the one that is told first."""
        at_ms, before = now.alarms[0][0], ""
        for alarm in now.alarms:
            if alarm[0] != at_ms:
                return
            if alarm[1] == before == "event":
                continue
            before = alarm[1]
            rest = tuple(a for a in now.alarms if a is not alarm)
            name = alarm[1].replace("-", "_")
            yield getattr(self, f"_{name}")(evolve(now, now_ms=max(now.now_ms, at_ms), alarms=rest), alarm[2])

    def _set(self, now: Now, name: str, after_ms: int = 0, n: int = 0, **changes: object) -> Now:
        """Set an alarm, once."""
        alarm = (now.now_ms + after_ms, name, n)
        alarms = now.alarms if alarm in now.alarms else tuple(sorted((*now.alarms, alarm)))
        return evolve(now, alarms=alarms, **changes)  # type: ignore[arg-type]

    @staticmethod
    def _without(now: Now, names: frozenset[str]) -> Now:
        """Drop the runner's alarms of these names; a request that is late is on its way whoever waits."""
        return evolve(now, alarms=tuple(a for a in now.alarms if a[1] not in names))

    # -- the lease ----------------------------------------------------------------------------------------------

    def _holds(self, now: Now) -> bool:
        return not self.fenced or (self._is_held(now) and now.owner == now.token)

    @staticmethod
    def _is_held(now: Now) -> bool:
        return now.lease_until_ms is not None and now.now_ms < now.lease_until_ms

    def _bars(self, now: Now) -> bool:
        """Whether nobody is granted the key now."""
        reopens = now.state is State.COMPLETED and not self.remembers
        if now.state in TERMINAL and not reopens:
            return True
        return self._is_held(now) and self.setup.contracts.fencing is not Fencing.NONE

    def _claimed_by_another(self, now: Now) -> Now:
        is_granted = not self._bars(now)
        now = evolve(now, claims=(*now.claims, (now.now_ms, is_granted)))
        if not is_granted:
            return now
        if self.fenced and now.state in IN_FLIGHT:
            now = evolve(now, fence=max(now.fence, now.high + 1))  # the sink is told of the token before
        return self._leased(now)

    def _leased(self, now: Now) -> Now:
        """A grant to whomever, with a token higher than any before."""
        doubt = now.state is State.DISPATCHING
        return evolve(
            now,
            high=now.high + 1,
            owner=now.high + 1,
            lease_until_ms=now.now_ms + self.setup.lease_ms,
            state=State.UNKNOWN if doubt else now.state,
            in_doubt=now.in_doubt or doubt,
        )

    def _renewed(self, now: Now) -> Now:
        """The run's lease lasts anew, and the next beat comes in time."""
        until_ms = now.now_ms + self.setup.lease_ms
        now = evolve(now, lease_until_ms=until_ms, owner=now.token, sure_until_ms=until_ms)
        return self._set(self._without(now, frozenset({"beat"})), "beat", self.setup.beat_ms)

    def _beat(self, now: Now, _n: int) -> Now:
        if now.lease_until_ms is not None and self._holds(now):
            return self._renewed(now)
        now = evolve(now, sure_until_ms=now.now_ms)
        return self._to_cut(now) if now.phase == "attempt" else now

    def _released(self, now: Now) -> Now:
        may = now.lease_until_ms is not None and self._holds(now) and now.state is not State.DISPATCHING
        return evolve(now, lease_until_ms=None) if may else now

    # -- the intent and the sink --------------------------------------------------------------------------------

    def _is_late(self, now: Now) -> bool:
        return self.has_deadline and now.now_ms >= self.setup.deadline_ms

    def _no_effect(self, now: Now, *, final: bool) -> Now:
        """What becomes of an intent that has no effect and none in flight."""
        if now.wish:
            state = State.CANCELLED
        elif final or now.attempts >= self.setup.max_attempts:
            state = State.FAILED
        elif self._is_late(now):
            state = State.EXPIRED
        else:
            return evolve(now, state=State.PENDING, in_doubt=False)
        return evolve(now, state=state, in_doubt=False, lease_until_ms=None)

    def _to_cut(self, now: Now) -> Now:
        if any(a[1] in {"cut", "grace", "record"} for a in now.alarms):
            return now
        return self._set(now, "cut")

    def _arrive(self, now: Now, at: int) -> Now:
        n, k = divmod(at, 100)
        said = self.answers[k]
        if said in {Said.TOO_MANY, Said.TOO_MANY_UNTIL}:
            acted = "transient"
        elif self.fenced and now.tokens[n] < now.fence:
            acted = "stale"
        elif self.binds and now.effects:
            acted = "replayed"
        elif said is Said.BAD_REQUEST:
            acted = "permanent"
        elif self._is_late(now):
            acted = "late"
        else:
            acted = "done"
        fence = max(now.fence, now.tokens[n]) if acted in {"done", "replayed"} and self.fenced else now.fence
        results = (*now.acted[:n], acted, *now.acted[n + 1 :])
        now = evolve(now, acted=results, effects=now.effects + (acted == "done"), fence=fence)
        if said in {Said.SILENT, Said.LATE}:
            return now
        return self._set(now, "answer", self.setup.attempt_ms - TRAVEL_MS if said is Said.EDGE else BACK_MS, at)

    _arrive_late = _arrive

    def _answer(self, now: Now, at: int) -> Now:
        n, k = divmod(at, 100)
        if n != len(now.tokens) - 1 or now.phase != "attempt":
            return now  # nobody waits for it any more
        said = self.answers[k]
        if said in {Said.RESET_BEFORE, Said.RESET_AFTER, Said.FAILED}:
            return self._to_cut(evolve(now, got="silence"))
        return self._to_cut(evolve(now, got="unclear" if said is Said.MALFORMED else now.acted[n]))

    def _limit(self, now: Now, n: int) -> Now:
        return self._to_cut(now) if now.phase == "attempt" else now

    # -- asking the sink ------------------------------------------------------------------------------------------

    def _ask(self, now: Now) -> Now:
        """Ask the sink about the key; under fencing it refuses older tokens from then on."""
        now = self._set(now, "asks", phase="asking", heard="", asked=now.high + 1)
        return self._set(now, "ask-limit", self.setup.attempt_ms)

    def _asks(self, now: Now, _n: int) -> Now:
        return self._set(now, "fence", TRAVEL_MS)

    def _fence(self, now: Now, _n: int) -> Now:
        """The question arrives; its answer is on its way."""
        fence = max(now.fence, now.high + 1) if self.fenced else now.fence
        return self._set(now, "told", BACK_MS, fence=fence, got="found" if now.effects else "absent")

    def _told(self, now: Now, _n: int) -> Now:
        return self._set(now, "resume", heard=now.got)

    def _ask_limit(self, now: Now, _n: int) -> Now:
        return self._set(now, "resume")

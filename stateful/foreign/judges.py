"""How each claim is judged on the facts of one run: "" if it held, what is wrong if not, None if it was not at stake.

A judge sees sends, entries and what callers were told. It never sees what the system stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import frozen

from model.claims import Ability, Claimed
from stateful.foreign.adapter import Hello
from stateful.foreign.catalogue import is_pause
from stateful.foreign.facts import ENDED, Call, Facts
from stateful.foreign.order import Do

Finding = str | None


@frozen
class Matter:
    """A claim, the system that makes it, and one run."""

    facts: Facts
    claimed: Claimed
    hello: Hello

    @property
    def payload_is_key(self) -> bool:
        """Whether another payload makes it another call."""
        made = self.hello.claimed("changed-payload")
        return made is not None and made.choice == "part-of-key"

    def is_mixed(self, key: int) -> bool:
        """Whether a key that may be used again came with two payloads: its calls cannot be told apart."""
        made = self.hello.claimed("changed-payload")
        return made is not None and "ended" in made.excludes and len({c.payload for c in self.facts.starts(key)}) > 1

    def has_ended(self, key: int, before: int) -> bool:
        """Whether something was told of a key, by then, after which nothing more is to come of it."""
        return any(
            c.key == key and c.outcome in ENDED and c.told_at < before and c.do in {Do.START, Do.DECIDE}
            for c in self.facts.calls
        )

    def groups(self) -> Iterator[tuple[int, str, str]]:
        """Each call that is one for this system: key, payload (empty: any), and its name."""
        for key in self.facts.started():
            if self.is_mixed(key):
                continue
            if self.payload_is_key:
                for payload in dict.fromkeys(c.payload for c in self.facts.starts(key)):
                    yield key, payload, f"k{key} with {payload}"
            else:
                yield key, "", f"k{key}"

    def told(self, key: int, payload: str = "") -> list[Call]:
        """The calls of a group that were told something, in the order in which they were told."""
        calls = [c for c in self.facts.starts(key) if c.outcome and payload in {"", c.payload}]
        return sorted(calls, key=lambda c: c.told_at)

    def is_waiting(self, key: int) -> bool:
        """Whether a key waits for a word that nobody has said, or was ended by one."""
        calls = [c for c in self.facts.calls if c.key == key and c.outcome == "done"]
        ended = any(c.do is Do.CANCEL or (c.do is Do.DECIDE and c.choice == "deny") for c in calls)
        needs_word = Ability.DECIDE in self.hello.abilities
        heard = [c for c in self.facts.calls if c.key == key and c.outcome in {"done", "pending", "unknown"}]
        has_word = any(c.do is Do.DECIDE and c.choice == "grant" and c.payload == "p1" for c in heard)
        return ended or (needs_word and not has_word) or bool(self.facts.expired_at)

    def accepted(self, key: int, payload: str = "") -> bool:
        """Whether the system said that it has the call."""
        return any(c.outcome in {"done", "pending"} for c in self.told(key, payload))


def _at_most_once(m: Matter) -> Finding:
    for key, payload, name in m.groups():
        sends = m.facts.sends_of(key, payload)
        if len(sends) > 1:
            return f"{name} was sent {len(sends)} times: {', '.join(f'by w{s.worker}' for s in sends)}"
    return "" if m.facts.entries else None


def _effect_kept(m: Matter) -> Finding:
    at_stake = False
    for key, payload, name in m.groups():
        last = m.told(key, payload)
        if not m.accepted(key, payload) or m.is_waiting(key) or last[-1].outcome in {"unknown", "failed"}:
            continue
        at_stake = True
        if not m.facts.sends_of(key, payload):
            return f"{name} was accepted and never sent; the last call was told {last[-1].outcome}"
    return "" if at_stake else None


def _stable_id(m: Matter) -> Finding:
    owner: dict[str, str] = {}
    for key, payload, name in m.groups():
        ids = list(dict.fromkeys(s.effect_id for s in m.facts.sends_of(key, payload)))
        if "" in ids:
            return f"{name} was sent without an id"
        if len(ids) > 1:
            return f"{name} was sent under {len(ids)} ids: {', '.join(i[:40] for i in ids)}"
        for one in ids:
            if owner.setdefault(one, name) != name:
                return f"{owner[one]} and {name} were sent under one id, {one[:40]}"
    return "" if m.facts.sends else None


def _deduplicated(m: Matter) -> Finding:
    owner: dict[str, str] = {}
    for key, payload, name in m.groups():
        ids = list(dict.fromkeys(s.effect_id or f"without an id {s.at}" for s in m.facts.sends_of(key, payload)))
        if len(ids) > 1:
            return f"{name} has {len(ids)} effects at a sink that deduplicates"
        first = owner.setdefault(ids[0], name) if ids else name
        if first != name:
            return f"{name} has no effect at a sink that deduplicates: it was sent under the id of {first}"
    lost = _effect_kept(m)
    return lost or ("" if m.facts.sends else lost)


def _in_doubt(m: Matter) -> Finding:
    at_stake = False
    for key, payload, name in m.groups():
        reconciled = any(c.do is Do.RECONCILE and c.key == key for c in m.facts.calls)
        entries = [e for e in m.facts.entries if e.key == key and payload in {"", e.payload}]
        died_in = {c.last_entry for c in m.facts.calls if c.died.endswith("the send")}
        dead = any(e.at in died_in for e in entries)
        if not dead or reconciled or not entries:
            continue
        at_stake = True
        if len(entries) > 1:
            times = len(m.facts.sends_of(key, payload))
            return f"{name} entered its effect again after a death in the middle of it, and was sent {times} times"
        told = [c for c in m.told(key, payload) if c.told_at > entries[0].at]
        if told and told[-1].outcome in {"done", "failed"}:
            return (
                f"{name} was told {told[-1].outcome} although nobody can know: {told[-1].reason or told[-1].result}"
            )
    return "" if at_stake else None


def _first_result(m: Matter) -> Finding:
    if is_pause(m.facts.order):
        return None
    at_stake = False
    for key, payload, name in m.groups():
        told = m.told(key, payload or "p1")
        done = next((c for c in told if c.outcome == "done"), None)
        if done is None:
            continue
        for later in told[told.index(done) + 1 :]:
            if later.at < done.told_at:
                continue  # it had begun before
            at_stake = True
            if later.outcome != "done" or later.result != done.result:
                return (
                    f"{name} was told done {done.result!r}, and then {later.outcome} {later.reason or later.result!r}"
                )
        if any(s.at > done.told_at for s in m.facts.sends_of(key, payload)):
            return f"{name} was sent again after it was told done"
    return "" if at_stake else None


def _true_completion(m: Matter) -> Finding:
    at_stake = False
    made = m.hello.claimed("changed-payload")
    any_payload = made is None or made.choice == "replayed"  # then done is about the key, whatever it comes with
    for call in m.facts.calls:
        if call.do is not Do.START or call.outcome != "done":
            continue
        at_stake = True
        sends = m.facts.sends_of(call.key, "" if any_payload else call.payload)
        if not any(s.at < call.told_at for s in sends):
            which = "" if any_payload else f" with {call.payload}"
            return f"k{call.key}{which} was told done, and the sink has seen nothing of it"
    return "" if at_stake else None


def _changed_payload(m: Matter) -> Finding:
    at_stake = False
    for key in m.facts.started():
        calls = list(m.facts.starts(key))
        first = calls[0]
        entered = [e.at for e in m.facts.entries if e.key == key and e.payload == first.payload]
        for later in calls:
            known_at = min([*entered, *([first.told_at] if first.outcome in {"done", "pending"} else [])], default=0)
            if later.payload == first.payload or not later.outcome or not known_at or later.at < known_at:
                continue
            if "ended" in m.claimed.excludes and m.has_ended(key, later.at):
                continue
            at_stake = True
            wrong = _as_claimed(m, key, first, later)
            if wrong:
                return wrong
    return "" if at_stake else None


def _as_claimed(m: Matter, key: int, first: Call, later: Call) -> str:
    choice, sends = m.claimed.choice, m.facts.sends_of(key, later.payload)
    what = f"k{key} with {later.payload} instead of {first.payload}"
    if choice == "part-of-key":
        if later.outcome == "refused" or (later.outcome == "done" and not sends):
            return f"{what} was told {later.outcome} {later.reason}, and {'not ' * (not sends)}sent"
        return ""
    if sends:
        return f"{what} was sent"
    if choice == "refused" and later.outcome in {"done", "pending"}:
        return f"{what} was not refused: it was told {later.outcome} {later.result!r}"
    was_done = first.outcome == "done" and first.told_at < later.at
    if choice == "replayed" and was_done and (later.outcome, later.result) != ("done", first.result):
        return f"{what} was told {later.outcome} {later.reason or later.result!r}, and not the first result"
    return ""


def _one_at_a_time(m: Matter) -> Finding:
    if is_pause(m.facts.order) or len({c.worker for c in m.facts.calls if not c.is_rest}) < 2:
        return None
    at_stake = False
    entered = {e.at: e for e in m.facts.entries}
    for call in [c for c in m.facts.calls if c.last_entry]:
        own, until = entered[call.last_entry], call.told_at or (m.facts.now if not call.died else 0)
        for other in m.facts.calls:
            if other.worker != call.worker and call.at < other.at < until and not other.is_rest:
                at_stake = at_stake or (other.key in {own.key, 0} and other.payload in {own.payload, ""})
        for entry in m.facts.entries:
            is_same = (entry.key, entry.payload) == (own.key, own.payload)
            if is_same and entry.worker != call.worker and own.at < entry.at < until:
                return f"w{entry.worker} entered the effect of k{entry.key} while w{call.worker} was in it"
    return (_at_most_once(m) if at_stake else None) or ("" if at_stake else None)


def _late_owner(m: Matter) -> Finding:
    if not is_pause(m.facts.order):
        return None
    for key, _, name in m.groups():
        told = m.told(key)
        done = next((c for c in told if c.outcome == "done"), None)
        if done is None or done.worker == 1:
            continue
        for later in told[told.index(done) + 1 :]:
            if later.outcome == "done" and later.result != done.result:
                by = f"by w{done.worker}, and then {later.result!r} by w{later.worker}"
                return f"{name} was told done {done.result!r} {by}"
        return ""
    return None


def _approval_needed(m: Matter) -> Finding:
    for entry in m.facts.entries:
        words = [c for c in m.facts.calls if c.do is Do.DECIDE and c.key == entry.key and c.at < entry.at]
        grants = [c.at for c in words if c.choice == "grant"]
        if not grants:
            return f"k{entry.key} was sent before anybody had granted it"
        denied = [c.at for c in words if c.choice == "deny" and c.outcome == "done" and c.told_at < entry.at]
        if denied and min(denied) < min(grants):
            return f"k{entry.key} was sent although it had been denied"
    return "" if m.facts.started() else None


def _approval_payload(m: Matter) -> Finding:
    granted = {c.payload for c in m.facts.calls if c.do is Do.DECIDE and c.choice == "grant"}
    wanted = {c.payload for c in m.facts.calls if c.do is Do.START}
    if not granted or granted & wanted:
        return None
    sent = m.facts.sends
    return f"k{sent[0].key} was sent with {sent[0].payload}: only {', '.join(granted)} was granted" if sent else ""


def _sent_before_granted(m: Matter) -> bool:
    """Whether there was a send that no grant came before: where there is no gate, no grant is at stake."""
    grants = [c.at for c in m.facts.calls if c.do is Do.DECIDE and c.choice == "grant"]
    return any(entry.at < min(grants, default=entry.at + 1) for entry in m.facts.entries)


def _approval_expires(m: Matter) -> Finding:
    if not m.facts.expired_at or _sent_before_granted(m):
        return None
    late = [e for e in m.facts.entries if e.at > m.facts.expired_at]
    return f"k{late[0].key} was sent after its approval had expired" if late else ""


def _approval_once(m: Matter) -> Finding:
    grants = [c for c in m.facts.calls if c.do is Do.DECIDE and c.choice == "grant"]
    if (
        len(grants) < 2 or _sent_before_granted(m) or any(c.died for c in grants)
    ):  # who died with the word in hand says it again: one word
        return None
    return _at_most_once(m) or ""


def _retry_budget(m: Matter) -> Finding:
    at_stake = False
    for key, payload, name in m.groups():
        entries = [e for e in m.facts.entries if e.key == key and payload in {"", e.payload}]
        at_stake = at_stake or len(entries) >= m.claimed.limit
        if len(entries) > m.claimed.limit:
            return f"{name} was attempted {len(entries)} times; {m.claimed.limit} were promised"
    return "" if at_stake else None


def _cancel_honoured(m: Matter) -> Finding:
    cancels = [c for c in m.facts.calls if c.do is Do.CANCEL and c.outcome == "done"]
    for cancel in cancels:
        if any(s.key == cancel.key and s.at > cancel.told_at for s in m.facts.sends):
            return f"k{cancel.key} was sent after its cancellation was acknowledged"
    return "" if cancels else None


def _progress(m: Matter) -> Finding:
    at_stake = False
    for key, payload, name in m.groups():
        told = m.told(key, payload or "p1")
        if not told or m.is_waiting(key):
            continue
        at_stake = True
        last = told[-1]
        reconciled = any(c.do is Do.RECONCILE and c.outcome == "done" and c.key == key for c in m.facts.calls)
        if last.outcome in ENDED or (last.outcome == "unknown" and m.claimed.choice == "operator" and not reconciled):
            continue
        return f"{name} does not come to an end: the last call was told {last.outcome} {last.reason}"
    return "" if at_stake else None


def stuck(facts: Facts) -> bool:
    """Whether a key ended up waiting for an operator."""
    return any((last := facts.last_start(key)) is not None and last.outcome == "unknown" for key in facts.started())


JUDGES: dict[str, Callable[[Matter], Finding]] = {
    "at-most-once": _at_most_once,
    "effect-kept": _effect_kept,
    "stable-id": _stable_id,
    "exactly-once-deduplicated": _deduplicated,
    "in-doubt": _in_doubt,
    "first-result": _first_result,
    "true-completion": _true_completion,
    "changed-payload": _changed_payload,
    "one-at-a-time": _one_at_a_time,
    "late-owner": _late_owner,
    "approval-needed": _approval_needed,
    "approval-payload": _approval_payload,
    "approval-expires": _approval_expires,
    "approval-once": _approval_once,
    "retry-budget": _retry_budget,
    "cancel-honoured": _cancel_honoured,
    "progress": _progress,
}


def judged(facts: Facts, claimed: Claimed, hello: Hello) -> Finding:
    """One claim on one run: None if it was not at stake, or the claim excludes such orders."""
    if facts.trouble or (is_pause(facts.order) and "pause" in claimed.excludes):
        return None
    return JUDGES[claimed.id](Matter(facts, claimed, hello))

# /// script
# requires-python = ">=3.11"
# dependencies = ["holdpoint==0.2.0"]
# ///
"""holdpoint: a guarded function is submitted under a dedup key, approved by id and run there, as its README does.

A client that knows its action's id asks for that; the clock is injected, and recovery is left at its defaults.
"""

from datetime import UTC, datetime, timedelta
from importlib.metadata import version

from survives_adapter import Claim, Denied, InDoubt, Pending, Refused, System, serve
from holdpoint import (
    DedupConflictError,
    ExecutionError,
    HoldPoint,
    InvalidTransitionError,
    SQLiteStore,
    Status,
    WaitTimeoutError,
    current_action_id,
)

GUARANTEES = "README.md, Guarantees"
BEGINNING = datetime(2030, 1, 1, tzinfo=UTC)


class Holdpoint(System):
    """One process with a guard, a reviewer and a recovery."""

    name, version, passes_id, lease_ms = "holdpoint", version("holdpoint"), True, 300_000
    claims = [
        Claim("at-most-once", "Approving runs the call once, and a crash does not run it again.", where=GUARANTEES),
        Claim("effect-kept", "What was approved and never started is completed by recovery.", where=GUARANTEES),
        Claim("stable-id", "The action's id is a key for the API that stays.", where="README.md, Idempotency keys"),
        Claim("in-doubt", "What died in the middle is marked as unknown for a human.", where=GUARANTEES),
        Claim("first-result", "Later approvals return the stored result.", where="README.md, Exactly-once execution"),
        Claim(
            "changed-payload",
            "The same dedup key with another payload is a conflict, while the first is live.",
            choice="refused",
            where="README.md, Deduplication",
            excludes=("ended",),
        ),
        Claim("one-at-a-time", "Approvals in several processes become one execution.", where=GUARANTEES),
        Claim("approval-needed", "Calling stores the call, approving runs it.", where="README.md, Example"),
        Claim("approval-expires", "What is overdue cannot be approved.", where="README.md, TTLs with policies"),
        Claim("approval-once", "Fifty approvals run it once.", where="README.md, Exactly-once execution"),
        Claim("progress", "Recovery finishes, or leaves it to a human.", choice="operator", where=GUARANTEES),
    ]
    notes = (
        "A dedup key holds while its action is live: another payload after its end is another action. Without a verify "
        "predicate; one host, one file."
    )

    def open(self):
        self.now = BEGINNING
        store = SQLiteStore(self.folder / "approvals.db")
        self.hold = HoldPoint(store=store, clock=lambda: self.now, wait_timeout=2.0)
        guard = self.hold.guard(kind="effect", ttl="24h", dedup_key=lambda given: given["key"])
        self.submit = guard(lambda key, payload: self.effect(key, payload, id=current_action_id()))

    def start(self, key, payload):
        action = self._known(key)
        is_live = action is not None and action.status in {Status.PENDING, Status.APPROVED}
        if action is None or is_live or action.payload["payload"] != payload:
            try:
                action = self.submit(key, payload)
            except DedupConflictError as error:
                raise Refused(str(error)) from error
            self.handles.set(key, action.id)
        return _told(action)

    def decide(self, key, payload, verdict):
        asked = {"key": key, "payload": payload}
        shown = [a for a in (self._known(key), *self.hold.pending()) if a and a.payload == asked]
        if not shown:
            raise Refused("there is no such action to decide on")
        try:
            if verdict == "deny":
                return self.hold.reject(shown[0].id, actor="reviewer").status.value
            return self.hold.approve(shown[0].id, actor="reviewer").value
        except InvalidTransitionError as error:
            raise Denied(str(error)) from error
        except WaitTimeoutError as error:
            raise Pending(str(error)) from error
        except ExecutionError:
            return _told(self.hold.get(shown[0].id))

    def recover(self):
        self.hold.expire_due()
        self.hold.recover()

    def observe(self, key):
        action = self._known(key)
        return {"state": action.status.value if action else "absent"}

    def advance(self, ms):
        self.now += timedelta(milliseconds=ms)

    def _known(self, key):
        known = self.handles.get(key)
        return self.hold.get(known) if known else None


def _told(action):
    if action.status is Status.EXECUTED:
        return action.result
    if action.status is Status.FAILED and action.error.type == "holdpoint.Interrupted":
        raise InDoubt(action.error.message)
    if action.status is Status.FAILED:
        raise RuntimeError(action.error.message)
    raise (Pending if action.status in {Status.PENDING, Status.APPROVED} else Denied)(action.status.value)


serve(Holdpoint)

# /// script
# requires-python = ">=3.10"
# dependencies = ["justonce==0.2.0"]
# ///
"""justonce: a decorated function on its SQLite store, with a key that is burned when the effect raises.

An operator goes through the engine's unresolved records, as its README shows. The claim's lease is short, in real time.
"""

from importlib.metadata import version

from survives_adapter import Claim, InDoubt, Pending, Refused, System, serve
from justonce import Idempotent, KeyReuseError, OperationInFlightError, State, idempotent
from justonce.stores import SqliteStore

LEASE_SECONDS = 3.0
TABLE = "README.md, What it guarantees"


class Justonce(System):
    """A process that calls the guarded function."""

    name, version, lease_ms = "justonce", version("justonce"), int(LEASE_SECONDS * 1000)
    claims = [
        Claim(
            "at-most-once",
            "It runs at most once per key, across retries, restarts and workers.",
            where="README.md, beginning",
            excludes=("pause",),
        ),
        Claim("effect-kept", "Side effects happen; a dead holder's claim can be had again.", where=TABLE),
        Claim("in-doubt", "A crash after the effect leaves it unknown, and retries are refused.", where=TABLE),
        Claim("first-result", "The recorded response is returned.", where=TABLE),
        Claim("changed-payload", "The same key with another payload is an error.", choice="refused", where=TABLE),
        Claim("one-at-a-time", "Of two workers exactly one runs it.", where=TABLE, excludes=("pause",)),
        Claim("progress", "It is reclaimed, or reconciled.", choice="operator", where=TABLE),
    ]
    notes = (
        "With retry_on_failure=False, the choice without a possible duplicate. A lease must exceed the effect's longest "
        "run, so a pause is excluded. Its README reserves the SQLite store to one worker process, its source does not."
    )

    def open(self):
        self.engine = Idempotent(SqliteStore(self.folder / "effects.db"), ttl_seconds=LEASE_SECONDS)
        guard = idempotent(
            key=lambda key, payload: key, engine=self.engine, retry_on_failure=False, return_result=True
        )
        self.send = guard(self.effect)

    def start(self, key, payload):
        try:
            result = self.send(key, payload)
        except KeyReuseError as error:
            raise Refused(str(error)) from error
        except OperationInFlightError as error:
            raise (InDoubt if self._state(key) is State.UNKNOWN else Pending)(str(error)) from error
        if result.record is not None and result.record.state is State.FAILED:
            raise RuntimeError("the effect raised, and the key is burned")
        return result.value

    def observe(self, key):
        return {"state": self._state(key)}

    def reconcile(self, key, happened):
        if key not in [record.key for record in self.engine.unresolved()]:
            raise Refused("nothing is unresolved under this key")
        if happened:
            self.engine.store.complete(key, "seen by an operator")
        else:
            self.engine.store.fail(key, terminal=False)

    def _state(self, key):
        record = self.engine.store.lookup(key)
        return record.state if record else None


serve(Justonce)

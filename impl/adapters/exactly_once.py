# /// script
# requires-python = ">=3.11"
# dependencies = ["exactly-once==0.2.1"]
# ///
"""exactly-once: a decorated function on its SQLite store, under the default policy, which quarantines.

The payload is the fingerprint. What is quarantined waits for an operator, who commits or releases it in the ledger.
"""

from importlib.metadata import version

from survives_adapter import Claim, InDoubt, Refused, System, serve
from exactly_once import KeyReuseError, QuarantinedError, State, Store, current_key, once
from exactly_once.codec import DEFAULT_CODEC

GUARANTEES = "README.md, Guarantees & limits"


class ExactlyOnce(System):
    """A process that calls the guarded function."""

    name, version, passes_id = "exactly-once", version("exactly-once"), True
    claims = [
        Claim("at-most-once", "The effect is entered at most once per key.", where=GUARANTEES),
        Claim("stable-id", "The key is passed through to the provider.", where="README.md, Quickstart"),
        Claim("in-doubt", "A crash in the middle is quarantined and never runs again by itself.", where=GUARANTEES),
        Claim("first-result", "After a commit every later call replays the stored result.", where=GUARANTEES),
        Claim(
            "changed-payload",
            "A key with another fingerprint is refused.",
            choice="refused",
            where="errors.py, KeyReuseError",
        ),
        Claim("one-at-a-time", "A concurrent second caller never runs in parallel.", where=GUARANTEES),
        Claim(
            "progress",
            "What is quarantined leaves by an explicit decision.",
            choice="operator",
            where="_types.py, docstring",
        ),
    ]
    notes = (
        "With a fingerprint, which is optional; without a prober and a lease. One host, as its SQLite store is for."
    )

    def open(self):
        self.store = Store.sqlite(str(self.folder / "effects.db"))
        guarded = once(self.store, key=lambda key, payload: key, fingerprint=lambda key, payload: payload)
        self.send = guarded(lambda key, payload: self.effect(key, payload, id=current_key()))

    def start(self, key, payload):
        try:
            return self.send(key, payload)
        except KeyReuseError as error:
            raise Refused(str(error)) from error
        except QuarantinedError as error:
            raise InDoubt(str(error)) from error

    def observe(self, key):
        record = self.store.get(key)
        return {"state": record.state if record else "absent"}

    def reconcile(self, key, happened):
        record = self.store.get(key)
        if record is None or record.state is not State.IN_FLIGHT:
            raise Refused("nothing is in flight under this key")
        if happened:
            self.store.commit(key, DEFAULT_CODEC.encode("seen by an operator"))
        else:
            self.store.release(key, record.token)


serve(ExactlyOnce)

# /// script
# requires-python = ">=3.10"
# dependencies = ["sakrit==0.0.2"]
# ///
"""sakrit: each call is guarded under a business key, at the default rung L0, by a ledger for several workers.

A worker that is given a call of a dead owner waits for its lease, as the leased protocol does without being asked.
"""

from importlib.metadata import version

from survives_adapter import Claim, InDoubt, Refused, System, serve
from sakrit import ArgClass, EffectDecl, Sakrit, SqliteLedger, current_key
from sakrit.core.errors import AmbiguousOutcome, DivergentRetry

LEASE_SECONDS = 4.0
"""The ledger's clock counts whole seconds, and a worker that is held before a statement renews no lease."""
LADDER = "README.md, The guarantee (L0-L3)"


class Guarded(System):
    """A worker with a ledger of its own on the shared file."""

    name, version, passes_id, lease_ms = "sakrit", version("sakrit"), True, int(LEASE_SECONDS * 1000)
    claims = [
        Claim("at-most-once", "At L0 an effect happens at most once.", where=LADDER),
        Claim("effect-kept", "Nothing is dropped in silence.", where="README.md, the honest promise"),
        Claim("stable-id", "A step of a run has one key, and no other step has it.", where="core/keys.py"),
        Claim("in-doubt", "A crash in the window becomes a loud AMBIGUOUS for a human.", where=LADDER),
        Claim("first-result", "A re-run returns the saved result.", where="README.md, Usage"),
        Claim(
            "true-completion", "Success is never recorded before the effect.", where="core/settle.py, settle_async"
        ),
        Claim(
            "changed-payload",
            "Other identity arguments under the same key are refused.",
            choice="refused",
            where="core/errors.py, DivergentRetry",
        ),
        Claim("one-at-a-time", "Concurrent workers run it once.", where="core/leased.py, settle_leased"),
        Claim("late-owner", "What a returning zombie writes is rejected.", where="core/leased.py"),
        Claim(
            "progress", "It ends, or a human resolves it.", choice="operator", where="README.md, the honest promise"
        ),
    ]
    notes = (
        "At L0, the default: no provider key, no reconcile. No public way to resolve an ambiguous effect was found."
    )

    def open(self):
        ledger = SqliteLedger(self.folder / "sakrit.db", multi_worker=True, owner=self.worker)
        self.guard = Sakrit(ledger, secret=b"a secret of this deployment", lease_seconds=LEASE_SECONDS).guard
        self.declared = EffectDecl("effect", {"key": ArgClass.IDENTITY, "payload": ArgClass.IDENTITY})

    def start(self, key, payload):
        try:
            return self.guard(self.declared, self._send, kwargs={"key": key, "payload": payload}, key=key)
        except DivergentRetry as error:
            raise Refused(str(error)) from error
        except AmbiguousOutcome as error:
            raise InDoubt(str(error)) from error

    def _send(self, key, payload):
        return self.effect(key, payload, id=current_key())


serve(Guarded)

# /// script
# requires-python = ">=3.10"
# dependencies = ["agent-once==0.1.0"]
# ///
"""agent-once (imported as once): calls under an explicit key, which the tool gets as its idempotency key.

The sink's silence is named in unknown_on, as its README advises. An operator resets what did not happen.
"""

from importlib.metadata import version

from survives_adapter import Claim, EffectFailed, InDoubt, Pending, Refused, System, serve
from once import EffectPending, EffectUnknown, KeyConflict, Once

LIMITS = "README.md, Limitations"


class AgentOnce(System):
    """A process that executes a tool."""

    name, version, passes_id = "agent-once", version("agent-once"), True
    claims = [
        Claim("at-most-once", "Each distinct call runs at most once.", where="README.md, beginning and Limitations"),
        Claim("stable-id", "The key is passed in, to be forwarded.", where="README.md, Keys"),
        Claim(
            "in-doubt",
            "What died in the middle stays pending, and is not run again.",
            where="README.md, Limitations",
        ),
        Claim("first-result", "A replay gets the stored result.", where="README.md, beginning"),
        Claim("true-completion", "Done means that the call finished.", where="README.md, States"),
        Claim(
            "changed-payload",
            "A key that is used again with other arguments is a conflict.",
            choice="refused",
            where="README.md, Keys",
        ),
        Claim("one-at-a-time", "Whoever inserts the row runs it, across processes.", where="README.md, Storage"),
    ]
    notes = "Without a verify callback and stale_after. An owner's death is told as pending, as it says."

    def open(self):
        self.once = Once(self.folder / "once.db", unknown_on=(TimeoutError, EffectFailed))

    def start(self, key, payload):
        try:
            return self.once.execute(self._send, key=key, payload=payload)
        except KeyConflict as error:
            raise Refused(str(error)) from error
        except EffectPending as error:
            raise Pending(str(error)) from error
        except EffectUnknown as error:
            raise InDoubt(str(error)) from error

    def observe(self, key):
        record = self.once.get(key)
        return {"state": record.status.value if record else "absent"}

    def reconcile(self, key, happened):
        if not happened and not self.once.reset(key):
            raise Refused("there is no record of this key")

    def _send(self, payload, idempotency_key=None):
        return self.effect(idempotency_key, payload, id=idempotency_key)


serve(AgentOnce)

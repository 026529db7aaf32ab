# /// script
# requires-python = ">=3.11"
# dependencies = ["aiq-runtime==0.5.2"]
# ///
"""aiq-runtime: a call is a run whose stream is named by our key; both durable dispatchers run in the process that asks.

A first event leads, by a reaction, to an effect request; the effects are dispatched with leases, as docs/effects.md
wants it for workers that share a SQLite file, and given the request's operation_id. The leases run on SQLite's time.
"""

from contextlib import suppress

from survives_adapter import Claim, Denied, EffectFailed, Pending, Refused, System, serve
from aiq import (
    AgentDefinition,
    CheckpointConflictError,
    DurableDispatcher,
    DurableEffectDispatcher,
    EffectContext,
    EffectLeaseOptions,
    EffectRegistry,
    Event,
    SQLiteEventStore,
    VersionConflictError,
    effect_request,
    run_stream_id,
)
from aiq.leases import LeaseLostError

TTL_MS = 4000
"""A worker that is held before a statement renews nothing, and is held for less than this."""
EFFECTS = "docs/effects.md, "
ENDS = ("CallSucceeded", "RunCancelled")


class Aiq(System):
    """One agent without a model: an event, a request, a result."""

    name, version = "aiq-runtime", "0.5.2"
    passes_id = True
    lease_ms = TTL_MS
    notes = "a run that exists already and was asked for with other data is refused by its stream's version"
    claims = [
        Claim(
            "effect-kept",
            "External execution is at least once.",
            where="PYPI.md, Guarantee boundary; " + EFFECTS + "Гарантия",
        ),
        Claim("stable-id", "An effect keeps its operation_id in every retry.", where=EFFECTS + "Effect identity"),
        Claim(
            "exactly-once-deduplicated",
            "A repeated effect has the same operation_id, by which a downstream can deduplicate.",
            where="PYPI.md, Guarantee boundary",
        ),
        Claim("first-result", "There is at most one committed result.", where="PYPI.md, Guarantee boundary"),
        Claim("true-completion", "What is committed is what the handler returned.", where=EFFECTS + "Atomic commit"),
        Claim(
            "one-at-a-time",
            "An effect is run under a lease that one worker holds, unless it blocks the heartbeat.",
            excludes=("pause",),
            where="PYPI.md, Core capabilities; " + EFFECTS + "Deployment contract",
        ),
        Claim(
            "late-owner",
            "A stale worker writes neither output nor checkpoint.",
            where=EFFECTS + "Deployment contract",
        ),
    ]

    async def open(self):
        self.store = await SQLiteEventStore.open(self.folder / "aiq.db")
        agent = AgentDefinition(
            "calls",
            initial_state=dict,
            terminal_event_types=ENDS,
            definition_version="1",
        )
        agent.reducer(lambda state, event: state)
        effects = EffectRegistry()

        @agent.react("CallWanted")
        def want(event, state):
            return [effect_request("CallRequested", event.data, {"causation_id": str(event.event_id)})]

        @effects.effect("CallRequested")
        async def send(event, state, context):
            receipt = await self.effect_async(**plain(event.data), id=event.metadata["operation_id"])
            return [Event("CallSucceeded", {"receipt": receipt})]

        lease = EffectLeaseOptions(self.worker, ttl_seconds=TTL_MS / 1000, renewal_interval_seconds=TTL_MS / 4000)
        shared = {"agent": agent, "store": self.store}
        self.dispatchers = (
            DurableDispatcher(**shared, subscription_name="calls:1:reactions"),
            DurableEffectDispatcher(
                **shared,
                effects=effects,
                context=EffectContext({}),
                subscription_name="calls:1:effects",
                lease_options=lease,
            ),
        )

    async def start(self, key, payload):
        stream, data = run_stream_id("calls", key), {"key": key, "payload": payload}
        try:
            await self.store.append(stream, -1, [Event("CallWanted", data)])
        except VersionConflictError as error:
            wanted = (await self.store.load(stream))[0].event
            if plain(wanted.data) != data:
                raise Refused(str(error)) from error
        told, moved = await self.told(stream), True
        with suppress(EffectFailed, LeaseLostError, CheckpointConflictError):  # they fail a worker, and not a run
            while moved and not told:
                moved = await self.turn()
                told = await self.told(stream)
        if "CallSucceeded" in told:
            return told["CallSucceeded"]["receipt"]
        raise (Denied if told else Pending)("the run was cancelled" if told else "the run has no result")

    async def told(self, stream):
        return {e.event.event_type: e.event.data for e in await self.store.load(stream) if e.event.event_type in ENDS}

    async def turn(self):
        return any([await dispatcher.run_once() for dispatcher in self.dispatchers])

    async def recover(self):
        while await self.turn():
            pass

    async def cancel(self, key):
        stream = run_stream_id("calls", key)
        await self.store.append(stream, await self.store.current_version(stream), [Event("RunCancelled", {})])


def plain(data):
    """Frozen data as it was."""
    if isinstance(data, str | int | float | None):
        return data
    return {k: plain(v) for k, v in data.items()} if hasattr(data, "items") else [plain(v) for v in data]


serve(Aiq)

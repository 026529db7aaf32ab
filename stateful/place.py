"""Put a world of the model into a rig's real stores and heads, as if the subject had got there by its own steps.

Conformance starts each transition from such a snapshot instead of from the beginning. That is sound by induction: the
stores after a transition are compared row by row with the model's, so that a snapshot differs in nothing that a
subject could read. Only the tables that differ from what is there are written.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import rfc8785
from attrs import evolve

from impl.approvals import signed
from impl.protocol import Answer, Decision, Overdue, Permit, Request
from model.contracts import Deadline
from model.words import Approval, Effect, Grant, Intent, Lease, Progress, Result, Slot, Stores, Worker, World
from stateful.bench import APPROVER_KEYS, DIGESTS, FORGED_KEY, PAYLOADS, SINK_FILE, Process, key_name
from stateful.boundaries import Gate
from stateful.oracle import CHECKPOINT_FILE, LEDGER_FILE
from stateful.order import Rig

_NOTHING_LIKE_IT = Slot(token_high=-1, effects=(Effect("", -1, -1),), calls=-1, progress=Progress(-1, -1))
"""A slot that differs from every real one in each of its parts that name a receipt."""
_TEXTS = {name: rfc8785.dumps(payload).decode() for name, payload in PAYLOADS.items()}


@lru_cache(maxsize=4096)
def _signature(key: str, approval: Approval) -> str:
    verdict = "deny" if approval.status is Grant.DENIED else "grant"
    decision = Decision(
        key=key,
        digest=DIGESTS[approval.digest],
        approver=approval.approver,
        verdict=verdict,
        expiry_ms=approval.expiry_ms,
        revision=approval.revision,
    )
    secret = APPROVER_KEYS[approval.approver] if approval.authentic else FORGED_KEY
    return signed(decision, secret).signature


class Placer:
    """Puts worlds into one rig, whose subject has a ledger that an oracle can read."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        folder = rig.medium.folder
        self._ledger = rig.medium.connect(Gate(), folder / LEDGER_FILE)
        self._sink = rig.medium.connect(Gate(), folder / SINK_FILE)
        self._checkpoint = folder.joinpath(*CHECKPOINT_FILE)
        self._written = rig.model.first().stores

    def close(self) -> None:
        """Let go of the stores."""
        self._ledger.close()
        self._sink.close()

    def place(self, world: World, present: Stores) -> None:
        """Make the stores, which hold ``present``, and everybody's heads those of ``world``."""
        rig, stores = self._rig, world.stores
        present = self._distrusted(present)
        if stores != present:
            self._write(stores, present)
            self._written = stores
        rig.bench.time.now_ms = world.now_ms
        for index, worker in enumerate(world.workers):
            self._settle(rig.bench.processes[index], worker, stores)
        rig.judge.worlds, rig.judge.stores, rig.judge.divergence = (world,), stores, None
        rig.told = []

    def _distrusted(self, present: Stores) -> Stores:
        """What is there, but for keys whose effects the subject numbered itself: their receipts have to be rewritten."""
        slots = [
            now if now.effects == mine.effects else _NOTHING_LIKE_IT
            for now, mine in zip(present.slots, self._written.slots, strict=True)
        ]
        return Stores(present.revision, tuple(slots))

    # -- stores -----------------------------------------------------------------------------------------------

    def _write(self, stores: Stores, present: Stores) -> None:
        changed = [
            (key_name(n), now, was)
            for n, (now, was) in enumerate(zip(stores.slots, present.slots, strict=True))
            if now != was
        ]
        self._in_transaction(self._ledger, lambda: self._write_ledger(stores, present, changed))
        sinks = [(k, now, was) for k, now, was in changed if _sink_part(now) != _sink_part(was)]
        # An intent's and a checkpoint's receipt are names of effects, whose numbers may change with them.
        if sinks:
            self._in_transaction(self._sink, lambda: self._write_sink(sinks))
        if any(now.progress != was.progress for _, now, was in changed):
            self._write_checkpoint(stores)

    @staticmethod
    def _in_transaction(connection: Any, work: Callable[[], None]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            work()
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def _write_ledger(self, stores: Stores, present: Stores, changed: list[tuple[str, Slot, Slot]]) -> None:
        execute = self._ledger.execute
        if stores.revision != present.revision:
            execute("UPDATE meta SET revision = ?", (stores.revision,))
        for key, now, was in changed:
            if (
                now.intent != was.intent or now.token_high != was.token_high
            ):  # the newest token stands with the intent
                self._write_intent(key, now.intent, now)
            if now.approval != was.approval or was is _NOTHING_LIKE_IT:
                execute("DELETE FROM approvals WHERE key = ?", (key,))
                if now.approval is not None:
                    a = now.approval
                    row = (key, DIGESTS[a.digest], a.approver, a.expiry_ms, a.revision, str(a.status))
                    execute("INSERT INTO approvals VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, _signature(key, a)))
            if now.lease != was.lease or was is _NOTHING_LIKE_IT:
                execute("DELETE FROM leases WHERE key = ?", (key,))
                if now.lease is not None:
                    row_of_lease = (key, now.lease.owner, now.lease.token, now.lease.expiry_ms)
                    execute("INSERT INTO leases VALUES (?, ?, ?, ?)", row_of_lease)

    def _write_intent(self, key: str, intent: Intent | None, slot: Slot) -> None:
        if intent is None:
            self._ledger.execute("DELETE FROM intents WHERE key = ?", (key,))
            return
        self._ledger.execute(
            "INSERT OR REPLACE INTO intents (key, digest, payload, deadline_ms, attempts, state, in_doubt,"
            " cancel_requested, cleaned, receipt, token_high) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                key,
                DIGESTS[intent.digest],
                _TEXTS[intent.digest],
                intent.deadline_ms,
                intent.attempts,
                str(intent.state),
                intent.in_doubt,
                intent.cancel_requested,
                intent.cleaned,
                receipt(key, intent.receipt),
                slot.token_high,
            ),
        )

    def _write_sink(self, changed: list[tuple[str, Slot, Slot]]) -> None:
        execute = self._sink.execute
        for key, now, was in changed:
            if now.effects != was.effects:
                execute("DELETE FROM effects WHERE key = ?", (key,))
                for number, effect in enumerate(now.effects, start=1):
                    digest, text = DIGESTS[effect.digest], _TEXTS[effect.digest]
                    row = (_effect_id(key, number), key, digest, text, effect.token, effect.at_ms)
                    execute("INSERT INTO effects VALUES (?, ?, ?, ?, ?, ?)", row)
            known = now.calls or now.fence or now.rejected
            if known:
                execute("INSERT OR REPLACE INTO keys VALUES (?, ?, ?, ?)", (key, now.calls, now.fence, now.rejected))
            else:
                execute("DELETE FROM keys WHERE key = ?", (key,))

    def _write_checkpoint(self, stores: Stores) -> None:
        marks = {
            key_name(n): {"receipt": receipt(key_name(n), s.progress.receipt), "token": s.progress.token}
            for n, s in enumerate(stores.slots)
            if s.progress is not None
        }
        if marks:
            self._checkpoint.write_bytes(json.dumps({"keys": marks, "version": 1}, separators=(",", ":")).encode())
        else:
            self._checkpoint.unlink(missing_ok=True)

    # -- heads ------------------------------------------------------------------------------------------------

    def _settle(self, process: Process, worker: Worker, stores: Stores) -> None:
        bench = self._rig.bench
        if not worker.alive:
            if process.dispatcher is not None:
                bench.end_process(process)
            process.name, process.other_settings = worker.name, worker.other_settings
            process.clock.wall_offset_ms = worker.wall_offset_ms
            process.forget()
            return
        if process.name != worker.name or process.other_settings != worker.other_settings:
            bench.end_process(process)  # it is opened again, with its settings, when it is needed
            process.name, process.other_settings = worker.name, worker.other_settings
        process.clock.wall_offset_ms = worker.wall_offset_ms
        process.tokens = list(worker.tokens)
        process.receipts = [receipt(key_name(k), r) for k, r in enumerate(worker.receipts)]
        process.answers = [_answer(key_name(k), r) for k, r in enumerate(worker.results)]
        process.permit = self._permit(worker, stores)
        process.overdue = _overdue(worker)

    def _permit(self, worker: Worker, stores: Stores) -> tuple[int, Permit] | None:
        key = worker.stalled
        if key < 0:
            return None
        intent = stores.slots[key].intent
        has_deadline = self._rig.model.contracts.deadline is Deadline.ABSOLUTE
        not_after_ms = intent.deadline_ms if intent is not None and has_deadline else None
        request = Request(key_name(key), PAYLOADS[worker.sending], worker.tokens[key], not_after_ms)
        return key, Permit(request)


def _sink_part(slot: Slot) -> tuple[Any, ...]:
    return slot.effects, slot.calls, slot.fence, slot.rejected


def _effect_id(key: str, number: int) -> int:
    """An effect's row id: a range of its own for each key."""
    return int(key[1:]) * 100 + number


def receipt(key: str, number: int) -> str:
    """The receipt of a key's n-th effect, as ``Placer`` numbers them; nothing for 0."""
    return f"r-{_effect_id(key, number)}" if number > 0 else ""


def _answer(key: str, result: Result | None) -> Answer | None:
    return None if result is None else Answer(result.kind, result.reason, receipt=receipt(key, result.receipt))


def _overdue(worker: Worker) -> tuple[Overdue, ...] | None:
    if worker.view is None:
        return None
    return tuple(Overdue(key_name(k), *seen) for k, seen in enumerate(worker.view) if seen is not None)


def concrete(world: World) -> World:
    """A world in normal form with names for its workers and an owner for each lease."""
    workers = tuple(evolve(w, name=f"w{n + 1}") for n, w in enumerate(world.workers))
    slots = tuple(_owned(slot, n, workers) for n, slot in enumerate(world.stores.slots))
    return World(world.now_ms, Stores(world.stores.revision, slots), workers)


def _called(slot: Slot) -> Slot:
    """A slot whose counts of requests are such as its effects have, and fold into the same normal form."""
    happened = len(slot.effects)
    if not slot.rejected:
        return evolve(slot, calls=max(slot.calls, happened))
    last = slot.rejected == slot.calls
    return evolve(slot, calls=happened + 1 if last else max(2, happened + 1), rejected=happened + 1 if last else 1)


def _owned(slot: Slot, key: int, workers: tuple[Worker, ...]) -> Slot:
    slot = _called(slot)
    if slot.lease is None:
        return slot
    owner = next((w.name for w in workers if w.tokens[key] == slot.lease.token), "w9")
    return evolve(slot, lease=Lease(owner, slot.lease.token, slot.lease.expiry_ms))

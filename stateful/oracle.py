"""The oracle: it reads ledger, sink and checkpoint from their files, with SQL of its own.

It shares no code with the dispatcher or the sink: it knows their tables, recomputes digests and signatures itself, and
reports what it reads as the model's ``Stores``. Nothing that a subject says about itself is believed here.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import sqlite3
from functools import lru_cache
from typing import Any

from model.step import Model
from model.words import (
    Approval,
    Effect,
    Grant,
    Intent,
    Lease,
    Progress,
    Slot,
    State,
    Stores,
)
from stateful.bench import APPROVER_KEYS, PAYLOADS, SINK_FILE, key_name
from stateful.medium import FolderMedium

_LEDGER_SQL = (
    "SELECT i.key, i.digest, i.payload, i.state, i.deadline_ms, i.attempts, i.in_doubt, i.cancel_requested, i.cleaned,"
    " i.receipt, i.token_high, a.digest, a.approver, a.expiry_ms, a.revision, a.status, a.signature,"
    " l.owner, l.token, l.expiry_ms, (SELECT revision FROM meta)"
    " FROM meta LEFT JOIN intents i LEFT JOIN approvals a ON a.key = i.key LEFT JOIN leases l ON l.key = i.key"
    " ORDER BY i.key"
)
_STRAY_SQL = "SELECT (SELECT count(*) FROM approvals) + (SELECT count(*) FROM leases)"
_EFFECTS_SQL = "SELECT key, payload, token, at_ms, receipt FROM effects ORDER BY id"
_KEYS_SQL = "SELECT key, calls, fence, rejected FROM keys ORDER BY key"
LEDGER_FILE = "ledger.sqlite3"
CHECKPOINT_FILE = ("checkpoint", "checkpoint.json")


class DamagedError(ValueError):
    """A store cannot be read any more."""


@lru_cache(maxsize=4096)
def payload_name(text: str, digest: str) -> str:
    """The model's name of a stored payload; one that is unknown or that its digest belies keeps its own text."""
    try:
        payload = json.loads(text)
    except ValueError:
        return f"damaged: {text}"
    right = hashlib.sha256(_canonical(payload)).hexdigest()
    if digest and digest != right:
        return f"{text} under the digest of something else"
    return next((name for name, known in PAYLOADS.items() if known == payload), text)


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


_DIGESTS = {hashlib.sha256(_canonical(payload)).hexdigest(): name for name, payload in PAYLOADS.items()}


@lru_cache(maxsize=4096)
def _approval(key: str, row: tuple[Any, ...]) -> Approval:
    digest, approver, expiry_ms, revision, status, signature = row
    fields = {
        "key": key,
        "digest": digest,
        "approver": approver,
        "verdict": "deny" if status == Grant.DENIED else "grant",
        "expiry_ms": expiry_ms,
        "revision": revision,
    }
    secret = APPROVER_KEYS.get(approver, b"")
    right = hmac.new(secret, _canonical(fields), hashlib.sha256).hexdigest()
    return Approval(
        digest=_DIGESTS.get(digest, digest),
        approver=approver,
        expiry_ms=expiry_ms,
        revision=revision,
        status=Grant(status),
        authentic=bool(secret) and hmac.compare_digest(right, signature),
    )


class Oracle:
    """Reads the stores of one rig. Slots that have not changed come back as the same objects."""

    def __init__(self, medium: FolderMedium, model: Model, *, ledger: bool) -> None:
        self._medium = medium
        self._names = [key_name(k) for k in range(model.keys)]
        self._approver_digest = _DIGESTS
        self._ledger = medium.look(medium.folder / LEDGER_FILE) if ledger else None
        self._sink = medium.look(medium.folder / SINK_FILE)
        self._checkpoint = medium.folder.joinpath(*CHECKPOINT_FILE)
        self.reset()

    def close(self) -> None:
        """Let go of the files."""
        if self._ledger is not None:
            self._ledger.close()
        self._sink.close()

    def reset(self) -> None:
        """Forget what was read: the stores have been put back."""
        self._seen: tuple[Any, ...] = ()
        self._versions: tuple[Any, ...] = ()
        self._stores = Stores(1, (Slot(),) * len(self._names))
        self._receipts: dict[str, list[str]] = {}

    def receipts(self, key: int) -> list[str]:
        """The receipts of a key's effects, in the order in which they happened, as of now."""
        name = self._names[key]
        return [r[4] for r in self._sink.execute(_EFFECTS_SQL) if r[0] == name]

    def read(self) -> Stores:
        """What the stores hold now. Raises DamagedError if one of them cannot be read."""
        checkpoint = self._medium.read(self._checkpoint)
        try:
            versions = (*self._version(self._ledger), *self._version(self._sink), checkpoint)
            if versions == self._versions:
                return self._stores
            ledger = self._ledger.execute(_LEDGER_SQL).fetchall() if self._ledger is not None else []
            effects = self._sink.execute(_EFFECTS_SQL).fetchall()
            keys = self._sink.execute(_KEYS_SQL).fetchall()
        except sqlite3.Error as error:
            raise DamagedError(str(error)) from error
        self._versions = versions
        seen = (ledger, effects, keys, checkpoint)
        if seen != self._seen:
            self._seen = seen
            self._stores = self._parse(ledger, effects, keys, checkpoint)
        return self._stores

    @staticmethod
    def _version(connection: sqlite3.Connection | None) -> tuple[Any, ...]:
        return () if connection is None else tuple(connection.execute("PRAGMA data_version").fetchone())

    def _parse(self, ledger: list[Any], effects: list[Any], keys: list[Any], checkpoint: bytes | None) -> Stores:
        revision = ledger[0][20] if ledger else 1
        rows = {row[0]: row for row in ledger if row[0] is not None}
        counts = {key: (calls, fence, rejected) for key, calls, fence, rejected in keys}
        progress = self._progress(checkpoint)
        strange = sorted((set(rows) | set(counts) | set(progress) | {e[0] for e in effects}) - set(self._names))
        if strange:
            raise DamagedError(f"there are rows under keys that nobody used: {', '.join(map(str, strange))}")
        old = self._stores.slots
        slots = []
        for name, before in zip(self._names, old, strict=True):
            mine = [e for e in effects if e[0] == name]
            receipts = [e[4] for e in mine]
            slot = self._slot(rows.get(name), mine, receipts, counts.get(name, (0, 0, 0)), progress.get(name))
            slots.append(before if slot == before else slot)
        return Stores(revision, tuple(slots))

    def _slot(
        self, row: Any, effects: list[Any], receipts: list[str], counts: tuple[int, int, int], progress: Any
    ) -> Slot:
        calls, fence, rejected = counts
        intent, approval, lease, token_high = None, None, None, 0
        if row is not None:
            intent = Intent(
                digest=payload_name(row[2], row[1]),
                state=State(row[3]),
                deadline_ms=row[4],
                attempts=row[5],
                in_doubt=bool(row[6]),
                cancel_requested=bool(row[7]),
                cleaned=bool(row[8]),
                receipt=_ordinal(row[9], receipts),
            )
            token_high = row[10]
            approval = _approval(row[0], row[11:17]) if row[15] is not None else None
            lease = Lease(row[17], row[18], row[19]) if row[17] is not None else None
        return Slot(
            intent=intent,
            approval=approval,
            lease=lease,
            token_high=token_high,
            effects=tuple(Effect(payload_name(e[1], ""), e[2], e[3]) for e in effects),
            fence=fence,
            calls=calls,
            rejected=rejected,
            progress=Progress(progress["token"], _ordinal(progress["receipt"], receipts)) if progress else None,
        )

    @staticmethod
    def _progress(checkpoint: bytes | None) -> dict[str, Any]:
        if checkpoint is None:
            return {}
        try:
            keys: dict[str, Any] = json.loads(checkpoint)["keys"]
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedError(f"the checkpoint is torn: {checkpoint[:80]!r}") from error
        return keys


def _ordinal(receipt: str, receipts: list[str]) -> int:
    """A receipt's number among its key's effects: 0 for none, -1 for one that the sink does not know."""
    if not receipt:
        return 0
    return receipts.index(receipt) + 1 if receipt in receipts else -1

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
from stateful.spoken import raised, shown

_LEDGER_SQL = (
    "SELECT i.key, i.digest, i.payload, i.state, i.deadline_ms, i.attempts, i.in_doubt, i.cancel_requested, i.cleaned,"
    " i.receipt, i.token_high, a.digest, a.approver, a.expiry_ms, a.revision, a.status, a.signature,"
    " l.owner, l.token, l.expiry_ms, meta.revision, (SELECT count(*) FROM approvals), (SELECT count(*) FROM leases)"
    " FROM meta LEFT JOIN intents i LEFT JOIN approvals a ON a.key = i.key LEFT JOIN leases l ON l.key = i.key"
)
_EFFECTS_SQL = "SELECT key, payload, token, at_ms, receipt FROM effects ORDER BY id"
_PERMITS_SQL = "SELECT key FROM permits"
_KEYS_SQL = "SELECT key, calls, fence, rejected FROM keys"
LEDGER_FILE = "ledger.sqlite3"
CHECKPOINT_FILE = ("checkpoint", "checkpoint.json")


class DamagedError(ValueError):
    """A store cannot be read any more."""


class StrayError(ValueError):
    """There are rows under a key that nobody used."""


@lru_cache(maxsize=4096)
def payload_name(text: str, digest: str | None = None) -> str:
    """The model's name of a stored payload; one that is unknown or that its digest belies keeps its own text."""
    try:
        payload = json.loads(text)
    except ValueError:
        return f"damaged: {text}"
    right = hashlib.sha256(_canonical(payload)).hexdigest()
    if digest is not None and digest != right:
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
        expiry_ms=_whole(expiry_ms, "approval's expiry"),
        revision=_whole(revision, "approval's policy revision"),
        status=Grant(status),
        authentic=bool(secret) and hmac.compare_digest(right, signature),
    )


class Oracle:
    """Reads the stores of one rig. Slots that have not changed come back as the same objects."""

    def __init__(self, medium: FolderMedium, model: Model, *, ledger: bool) -> None:
        self._medium = medium
        self.generation = medium.generation
        self._names = [key_name(k) for k in range(model.keys)]
        self._approver_digest = _DIGESTS
        self._is_limited = model.limits.permits is not None
        try:
            self._ledger = medium.look(medium.folder / LEDGER_FILE) if ledger else None
            self._sink = medium.look(medium.folder / SINK_FILE)
        except sqlite3.Error as error:
            raise DamagedError(f"{LEDGER_FILE} or {SINK_FILE} cannot be opened: {error}") from error
        self._checkpoint = str(medium.folder.joinpath(*CHECKPOINT_FILE))
        self.reset()

    def close(self) -> None:
        """Let go of the files."""
        if self._ledger is not None:
            self._ledger.close()
        self._sink.close()

    def reset(self) -> None:
        """Forget what was read: the stores have been put back."""
        self._stamps: tuple[Any, ...] = (None, None, None)
        self._rows: dict[Any, Any] = {}
        self._permits: set[Any] = set()
        self._effects: list[Any] = []
        self._counts: dict[Any, Any] = {}
        self._marks: dict[str, Any] = {}
        self._revision = 1
        self._orphans = 0
        self._ever: set[Any] = set()
        self._raw: list[Any] = [None] * len(self._names)
        self._stores = Stores(1, (Slot(),) * len(self._names))

    def receipts(self, key: int) -> list[str]:
        """The receipts of a key's effects, in the order in which they happened, as of now."""
        name = self._names[key]
        try:
            return [r[4] for r in self._sink.rows(_EFFECTS_SQL) if r[0] == name]
        except (sqlite3.Error, OSError) as error:
            raise DamagedError(raised(error)) from error

    def read(self) -> Stores:
        """What the stores hold now.

        Raises DamagedError if one of them cannot be read, StrayError if there are rows that belong to no key.

        A store is read again only if its own stamp says that somebody has written to it.
        """
        ledger, sink = self._ledger, self._sink
        try:
            checkpoint = self._medium.read(self._checkpoint)
            stamps = (None if ledger is None else ledger.stamp(), sink.stamp(), checkpoint)
            if stamps == self._stamps:
                return self._stores
            old = self._stamps
            if ledger is not None and stamps[0] != old[0]:
                rows = ledger.rows(_LEDGER_SQL).fetchall()
                self._revision = rows[0][20] if rows else 1
                self._rows = {row[0]: row for row in rows if row[0] is not None}
                self._orphans = _orphans(rows)
                self._ever.update(self._rows)
                if self._is_limited:
                    self._permits = {row[0] for row in ledger.rows(_PERMITS_SQL)}
            if stamps[1] != old[1]:
                self._effects = sink.rows(_EFFECTS_SQL).fetchall()
                self._counts = {row[0]: row[1:] for row in sink.rows(_KEYS_SQL)}
        except (sqlite3.Error, OSError) as error:
            raise DamagedError(raised(error)) from error
        if checkpoint != old[2]:
            self._marks = self._progress(checkpoint)
        try:
            self._refuse_strangers()
            self._stores = self._parsed()
        except StrayError:
            raise
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise DamagedError(f"there is a row that means nothing: {raised(error)}") from error
        self._stamps = stamps
        return self._stores

    def _refuse_strangers(self) -> None:
        keys = {*self._rows, *self._permits, *self._counts, *self._marks, *(e[0] for e in self._effects)}
        strange = sorted(map(str, keys.difference(self._names)))
        if strange:
            raise StrayError(f"there are rows under keys that nobody used: {', '.join(strange)}")
        if self._orphans and self._ever == set(self._rows):  # an intent that was lost is told as such
            raise StrayError(f"there are {self._orphans} approvals or leases that belong to no intent")

    def _parsed(self) -> Stores:
        slots = list(self._stores.slots)
        for index, name in enumerate(self._names):
            mine = [e for e in self._effects if e[0] == name]
            counts, mark = self._counts.get(name, (0, 0, 0)), self._marks.get(name)
            raw = (self._rows.get(name), mine, counts, mark, name in self._permits)
            if raw != self._raw[index]:
                self._raw[index] = raw
                slot = _slot(*raw)
                if slot != slots[index]:
                    slots[index] = slot
        return Stores(_whole(self._revision, "policy revision"), tuple(slots))

    @staticmethod
    def _progress(checkpoint: bytes | None) -> dict[str, Any]:
        if checkpoint is None:
            return {}
        try:
            keys: dict[str, Any] = json.loads(checkpoint)["keys"]
            return dict(keys)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DamagedError(f"the checkpoint is torn: {checkpoint[:80]!r}") from error


def _slot(row: Any, effects: list[Any], counts: tuple[int, int, int], progress: Any, permit: bool) -> Slot:
    calls, fence, rejected = counts
    receipts = [e[4] for e in effects]
    intent, approval, lease, token_high = None, None, None, 0
    if row is not None:
        intent = Intent(
            digest=payload_name(row[2], row[1]),
            state=State(row[3]),
            deadline_ms=_whole(row[4], "deadline"),
            attempts=_whole(row[5], "number of attempts"),
            in_doubt=bool(row[6]),
            cancel_requested=bool(row[7]),
            cleaned=bool(row[8]),
            receipt=_ordinal(row[9], receipts),
        )
        token_high = _whole(row[10], "newest token")
        approval = _approval(row[0], row[11:17]) if row[15] is not None else None
        if row[17] is not None:
            lease = Lease(str(row[17]), _whole(row[18], "lease's token"), _whole(row[19], "lease's expiry"))
    return Slot(
        intent=intent,
        approval=approval,
        lease=lease,
        token_high=token_high,
        effects=tuple(Effect(payload_name(e[1]), e[2], e[3]) for e in effects),
        fence=fence,
        calls=calls,
        rejected=rejected,
        progress=Progress(_whole(progress["token"], "checkpoint's token"), _ordinal(progress["receipt"], receipts))
        if progress
        else None,
        permit=permit,
    )


def _whole(value: Any, what: str) -> int:
    if not isinstance(value, int):
        raise TypeError(f"the {what} is {shown(value)}, not a whole number")
    return value


def _ordinal(receipt: str, receipts: list[str]) -> int:
    """A receipt's number among its key's effects: 0 for none, -1 for one that the sink does not know."""
    if not receipt:
        return 0
    return receipts.index(receipt) + 1 if receipt in receipts else -1


def _orphans(rows: list[Any]) -> int:
    """How many approvals and leases belong to no intent."""
    if not rows:
        return 0
    mine = sum(row[15] is not None for row in rows) + sum(row[17] is not None for row in rows)
    return int(rows[0][21] + rows[0][22] - mine)

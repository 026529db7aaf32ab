"""How an approver signs a decision and how a dispatcher checks it: HMAC-SHA256 over canonical JSON (RFC 8785)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

import rfc8785
from attrs import asdict, evolve

from impl.protocol import Decision, Json


def digest_of(payload: Json) -> str:
    """The SHA-256 of a payload's canonical JSON, in hex: equal meaning gives an equal digest."""
    return hashlib.sha256(rfc8785.dumps(payload)).hexdigest()


def _signature(decision: Decision, key: bytes) -> str:
    fields = asdict(decision)
    del fields["signature"]
    return hmac.new(key, rfc8785.dumps(fields), hashlib.sha256).hexdigest()


def signed(decision: Decision, key: bytes) -> Decision:
    """The decision with its signature under an approver's key."""
    return evolve(decision, signature=_signature(decision, key))


def is_authentic(decision: Decision, keys: Mapping[str, bytes]) -> bool:
    """Whether the approver that the decision names has signed exactly this decision."""
    key = keys.get(decision.approver)
    return key is not None and hmac.compare_digest(_signature(decision, key), decision.signature)

"""What a small dispatcher inherits: every claim is granted, nothing is recorded."""

from __future__ import annotations

from impl.protocol import Answer, BaseDispatcher
from model.words import Kind


def test_claims_are_granted_with_rising_tokens():
    """Whoever asks gets the next number, from 1, whatever the key."""
    dispatcher = BaseDispatcher(site=None)
    assert [1, 2, 3] == [dispatcher.claim(key).token for key in ("k1", "k2", "k1")]


def test_an_acknowledgement_is_taken_and_forgotten():
    """It answers OK, and there is nothing to close."""
    dispatcher = BaseDispatcher(site=None)
    assert Answer(Kind.OK) == dispatcher.acknowledge("k1", 1, Answer(Kind.UNKNOWN))
    dispatcher.close()

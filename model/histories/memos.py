"""What a call of a dispatcher remembers between its stages, while others act."""

from __future__ import annotations

from attrs import frozen

from model.actions import Action


@frozen
class Signed:
    """A decision that was signed and not handed in yet: what for, until when, under which policy revision."""

    action: Action
    digest: str
    expiry_ms: int
    revision: int


@frozen
class Sending:
    """A dispatch that was authorised; the worker itself keeps what it is about to send."""


@frozen
class Claiming:
    """A claim that needs ``token`` to be known to the sink, and whether it is."""

    token: int
    is_told: bool = False


@frozen
class Asking:
    """A reconcile that is about to ask the sink for the effect of ``digest``."""

    digest: str


@frozen
class Found:
    """What the sink said: for each effect of the key whether it is the one that was asked for."""

    asked_for: tuple[bool, ...]

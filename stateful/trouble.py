"""Troubles that are no fault of the subject's: the verdict is unknown, and the message says what to do."""


class NoRoomError(Exception):
    """Temporary folders cannot be written."""


class ReplayError(Exception):
    """An order could not be replayed."""

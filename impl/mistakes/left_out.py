"""Mistakes that are known and not seeded, each with the reason."""

from __future__ import annotations

from typing import Final

_NO_BATCH: Final = "the dispatcher takes one key at a time: it has neither batches nor joins"

LEFT_OUT: Final[dict[str, str]] = {
    "M043": _NO_BATCH,
    "M048": "an intent is its own queue entry: there is no second place that it must be put into",
    "M052": _NO_BATCH,
    "M053": _NO_BATCH,
    "M054": _NO_BATCH,
    "M060": "the operation key is the caller's: the dispatcher makes no key of a step's name or position",
    "M064": "a key's result stands in the key's own row: there is no journal whose slots could be taken in turn",
    "M074": "the operation key is the caller's, principal and operation included: there is no scope to forget",
    "M086": "a grant names its key and its digest: there is no list in which a position could stand for it",
    "M134": "an intent has neither parent nor children: there is none that it could hold a permit for while it waits",
    "M135": "an approval is found by its operation key: there are no prompts with identifiers of their own",
}
"""Identifier -> why there is no such mistake here."""

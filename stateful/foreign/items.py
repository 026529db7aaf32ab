"""An examination as test items: each runs its share of the orders, so that pytest-xdist spreads them over workers."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stateful.foreign.adapter import Adapter
from stateful.foreign.channel import AdapterError
from stateful.foreign.examine import Examination
from stateful.foreign.keeping import keep, story
from stateful.foreign.naming import adapter_named, names_adapter
from stateful.medium import run_scratch
from stateful.verdict import Status

SHARES = 4
"""Of the orders; each share repeats the probe, which takes three starts of a process."""


class BrokenClaimError(Exception):
    """A share of the orders broke a claim; the message is the story."""


def called(name: str, folder: Path) -> Adapter | None:
    """The adapter, if the name is that of a system that is called; None if it is of a dispatcher.

    Raises AdapterError if it cannot be asked.
    """
    words = shlex.split(name.removeprefix("-- "))
    if not names_adapter(words):
        return None
    if words[0].endswith(".py"):
        words[0] = str((folder / words[0]).resolve())
    adapter = adapter_named(words)
    with run_scratch() as scratch:
        hello = adapter.ask(scratch)
    if hello.style != "call":
        return None
    if not any(c.claim.needs <= hello.abilities for c in hello.claims):
        raise AdapterError("it claims nothing that could be judged; see survives list claims")
    return adapter


def shares(collector: pytest.Collector, adapter: Adapter) -> Iterator[pytest.Item]:
    """The items of an adapter, the same in every worker."""
    for share in range(SHARES):
        name = f"claims[{share}]"
        yield Share.from_parent(
            collector, name=name, nodeid=f"{collector.nodeid}::{name}", adapter=adapter, share=share
        )


class Share(pytest.Item):
    """A share of the orders as a test: it fails with the story of each broken claim."""

    def __init__(self, *, adapter: Adapter, share: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.adapter, self.share = adapter, share

    def runtest(self) -> None:
        """Run the share, one order at a time: pytest-xdist has as many workers as there are processors."""
        with run_scratch() as scratch:
            examined = Examination(self.adapter, scratch, workers=1, share=(self.share, SHARES)).run()
        kept = keep(examined, (self.adapter.name,), Path(self.config.rootpath) / ".survives")
        stories = [
            story(row.claim_id, row.violation) + f"  replay:  survives replay {kept[row.claim_id]}"
            for row in examined.rows
            if row.violation is not None and row.status == Status.VIOLATED
        ]
        doubts = [f"{row.claim_id}: {row.why}" for row in examined.rows if row.status == Status.UNKNOWN]
        told = [*stories, *doubts, *examined.troubles]
        if told:
            raise BrokenClaimError("\n\n".join(told))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """A story instead of a traceback."""
        return (
            str(excinfo.value)
            if isinstance(excinfo.value, BrokenClaimError)
            else super().repr_failure(excinfo, style)
        )

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """How the item is called in reports."""
        return self.config.rootpath, None, f"survives {self.adapter.name} {self.name}"

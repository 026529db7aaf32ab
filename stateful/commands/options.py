"""Options that several commands share, and what each does before and while it works."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from model.contracts import Contracts, UnknownContractError, contracts_from

WRONG_USE, UNKNOWN = 2, 3


class Choices(click.ParamType[dict[str, str]]):
    """``approval=advisory,fencing=none``."""

    name = "NAME=CHOICE,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, str]:
        """The named choices. Fails with the value, the reason and the remedy."""
        if isinstance(value, dict):
            return value
        chosen: dict[str, str] = {}
        for part in filter(None, str(value).split(",")):
            name, equals, choice = part.partition("=")
            if not equals:
                self.fail(f"{part!r} is not of the form NAME=CHOICE, such as fencing=none", param, ctx)
            choose(chosen, name, choice)
        try:
            contracts_from(chosen)
        except UnknownContractError as error:
            self.fail(str(error), param, ctx)
        return chosen


contracts_option = click.option(
    "--contracts",
    type=Choices(),
    multiple=True,
    help="Weaken contracts, such as approval=advisory,fencing=none. `survives list contracts` shows them.",
)


def contracts_of(given: tuple[dict[str, str], ...]) -> Contracts:
    """The contracts that were chosen, the defaults elsewhere."""
    return contracts_from(contracts_given(given))


def contracts_given(given: tuple[dict[str, str], ...]) -> dict[str, str]:
    """The choices that were named, in all options together. Fails where a contract is named twice."""
    chosen: dict[str, str] = {}
    for one in given:
        for name, choice in one.items():
            choose(chosen, name, choice)
    return chosen


def choose(chosen: dict[str, str], name: str, choice: str) -> None:
    """Add one choice. Fails where its contract was named before."""
    name = name.strip().replace("-", "_")
    if name in chosen:
        raise click.BadParameter(f"contract {name!r} is named twice; name it once", param_hint="'--contracts'")
    chosen[name] = choice.strip()


workers_option = click.option(
    "--workers", type=click.IntRange(1, 64), default=min(8, os.cpu_count() or 2), help="Processes at a time."
)
out_option = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".survives"),
    show_default=True,
    help="Where findings are kept.",
)


def see_whether_it_can_be_written(out: Path) -> None:
    """Find out before the work is done whether its findings can be kept, without leaving a folder behind."""
    missing = [p for p in (out.absolute(), *out.absolute().parents) if not p.exists()]
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        why = f"cannot be written: {error.strerror}; choose another folder"
        raise click.UsageError(f"--out {str(out)!r} {why}") from None
    finally:
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()


@contextmanager
def progress(what: str) -> Iterator[Callable[[str], None]]:
    """Say on standard error where a long work stands, while somebody watches."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(what) as status:
        yield lambda where: status.update(f"{what}: {where}")

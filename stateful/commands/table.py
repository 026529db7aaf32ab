"""``survives table``: the survival table of published systems, each claim of each system judged."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

import click

from stateful.commands.options import out_option, see_whether_it_can_be_written, workers_option

ADAPTERS = Path(__file__).parents[2] / "impl" / "adapters"
STEP_DRIVEN = ("sqlite_dispatcher",)
"""What makes no claims, as it is judged by the model: `survives check` takes it."""
CONTROLS = ("survives", "liar")
"""No published systems: our own, and one that is planted. They come last."""


def shipped() -> list[str]:
    """The adapters that come with this project, by the names of their files."""
    others = {"__init__", *STEP_DRIVEN, *CONTROLS}
    return [*sorted(p.stem for p in ADAPTERS.glob("*.py") if p.stem not in others), *CONTROLS]


@click.command()
@click.argument("names", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the table as Markdown.")
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), help="Write it as one page that needs no network."
)
@click.option("--slow/--no-slow", default=True, help="Also orders that wait in real time.")
@click.option("--sweep/--no-sweep", default=True, help="Also a death before every statement.")
@click.option("--files/--no-files", default=False, help="Also a death before every file operation.")
@workers_option
@out_option
def table(
    names: tuple[str, ...],
    as_json: bool,
    as_markdown: bool,
    html: Path | None,
    out: Path,
    **how: Any,
) -> None:
    """Judge what published systems claim. NAMES: only these; an adapter's file counts as well.

    Exit status 0 if every system was judged, whatever came out; 3 if one could not be.
    """
    from stateful.commands.foreign import How, examined
    from stateful.report.foreign import cell, console, show, to_json
    from stateful.report.survival import document, page
    from stateful.verdict import Status

    see_whether_it_can_be_written(out)
    if html is not None:
        see_whether_it_can_be_written(html.parent)
    chosen = [_words(name) for name in names or shipped()]
    screen = console()
    rows = []
    for words in chosen:
        rows.append(examined(words, out, How(**how)))
        if not as_json and not as_markdown:
            show(rows[-1], screen)
            screen.print()
        if rows[-1].examined.interrupted:
            break  # whoever ends it ends all of it; what was found so far is told
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    if html is not None:
        html.write_text(page(rows, today), "utf-8")
    if as_json:
        click.echo(json.dumps([to_json(one) for one in rows], indent=2))
    elif as_markdown:
        click.echo(document(rows, today))
    else:
        for one in rows:
            ends = ", ".join(f"{r.claim_id} {cell(r)}" for r in one.examined.rows if r.claimed)
            screen.print(f"{one.system}: {ends or 'not judged: ' + '; '.join(one.examined.troubles)}", markup=False)
    unjudged = [one for one in rows if one.examined.status is Status.UNKNOWN]
    raise SystemExit(3 if unjudged else 0)


def _words(name: str) -> tuple[str, ...]:
    """An adapter by its name, or by its file as seen from here."""
    if name in shipped():
        return (os.path.relpath(ADAPTERS / f"{name}.py"),)
    if name.endswith(".py"):
        return (name,)
    raise click.UsageError(f"there is no adapter {name!r}; one of {', '.join(shipped())}, or a file that ends in .py")

"""``survives new-adapter``: a commented skeleton that runs at once."""

from __future__ import annotations

import keyword
import sys
from importlib.resources import files
from pathlib import Path

import click


@click.command("new-adapter")
@click.argument("name")
@click.option(
    "--folder", type=click.Path(file_okay=False, exists=True, path_type=Path), default=Path(), help="Where it goes."
)
def new_adapter(name: str, folder: Path) -> None:
    """Write NAME.py, an adapter of a toy system with comments that say what to put in its place."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise click.BadParameter(f"{name!r} is no module's name; use letters, digits and _, such as my_queue")
    if name in sys.stdlib_module_names or name.startswith("survives_"):
        raise click.BadParameter(f"{name!r} is the name of a module that every adapter needs; choose another")
    path = folder / f"{name}.py"
    skeleton = files("stateful.foreign").joinpath("skeleton.py.txt").read_text("utf-8")
    try:
        with path.open("x", encoding="utf-8") as out:
            out.write(skeleton.replace("NAME", name))
    except FileExistsError:
        raise click.UsageError(f"{path} is there already; choose another name, or remove it") from None
    click.echo(f"wrote {path}; try it with: survives check {path}")

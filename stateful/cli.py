"""The command line: ``survives check``, ``replay``, ``interleave``, ``mistakes`` and the others.

Exit status: 0 survived, 1 violated, 2 wrong use or bad input, 3 unknown or vacuous.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import click

from stateful.clash import refuse_clash

refuse_clash()  # before the first import that another module of the same name would take over

from model.contracts import CHOICES, Contracts, UnknownContractError, contracts_from  # noqa: E402


class _Commands(click.Group):
    """Commands, each of which Ctrl-C ends with one line and the status of what is unknown."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run one of them."""
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            early = ctx.invoked_subcommand == "check"
            click.echo("survives: interrupted" + " before anything ran" * early, err=True)
            raise SystemExit(UNKNOWN) from None


CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
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
            _choose(chosen, name, choice)
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


def _contracts(given: tuple[dict[str, str], ...]) -> Contracts:
    return contracts_from(_contracts_given(given))


def _contracts_given(given: tuple[dict[str, str], ...]) -> dict[str, str]:
    chosen: dict[str, str] = {}
    for one in given:
        for name, choice in one.items():
            _choose(chosen, name, choice)
    return chosen


def _choose(chosen: dict[str, str], name: str, choice: str) -> None:
    name = name.strip().replace("-", "_")
    if name in chosen:
        raise click.BadParameter(f"contract {name!r} is named twice; name it once", param_hint="'--contracts'")
    chosen[name] = choice.strip()


@click.group(cls=_Commands, context_settings=CONTEXT)
@click.version_option(package_name="survives")
def cli() -> None:
    """What survives failure? Drive a dispatcher through failure orders and see which promises hold.

    Exit status: 0 survived, 1 violated, 2 wrong use or bad input, 3 unknown or vacuous.
    """


@cli.command()
@click.argument("subject", default="impl.sqlite:SqliteDispatcher")
@click.option(
    "--seconds",
    type=click.IntRange(1, 86_400),
    default=60,
    show_default=True,
    help="How much work: what two slow cores do in this time. The same work on any machine.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="The same seed finds the same.")
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=min(8, os.cpu_count() or 2),
    help="Processes at a time; does not change what is found.  [default: one a core]",
)
@contracts_option
@click.option("--mistake", default="", help="Seed a mistake into the dispatcher, such as M002.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".survives"),
    show_default=True,
    help="Where findings are kept.",
)
def check(
    subject: str,
    seconds: int,
    seed: int,
    workers: int,
    contracts: tuple[dict[str, str], ...],
    mistake: str,
    as_json: bool,
    out: Path,
) -> None:
    """Check SUBJECT, a dispatcher class called module:Class. Default: the SQLite dispatcher."""
    from stateful.campaign import Budget, Campaign
    from stateful.display import Display
    from stateful.subject import load_subject
    from stateful.verdict import EXIT_STATUS

    chosen = load_subject(subject, mistake)
    _see_whether_it_can_be_written(out)
    display = Display(as_json=as_json)
    campaign = Campaign(chosen, _contracts(contracts), Budget(seconds, seed, workers))
    with display.progress(campaign) as report:
        verdict = campaign.run(report)
    if verdict.ran_nothing:
        why = "interrupted before anything ran" if "interrupted" in verdict.cut_short else verdict.cut_short
        click.echo(f"survives: {why}", err=True)
        if not as_json:
            raise SystemExit(UNKNOWN)
    try:
        verdict = display.verdict(verdict, out)
    except BrokenPipeError:
        _hush()  # whoever read has gone, and the verdict stands
    raise SystemExit(EXIT_STATUS[verdict.status])


def _see_whether_it_can_be_written(out: Path) -> None:
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


@cli.command()
@click.argument("trace", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--subject", default="", help="Replay on this dispatcher instead, module:Class.")
@click.option("--mistake", default=None, help="Seed this mistake instead of the trace's; '' for none.")
@contracts_option
@click.option("--default-contracts", is_flag=True, help="Replay under the default contracts instead of the trace's.")
@click.option("--times", type=click.IntRange(1, 10_000), default=1, show_default=True, help="Replay so many times.")
@click.option("--json", "as_json", is_flag=True, help="Print what happened as JSON.")
def replay(
    trace: Path,
    subject: str,
    mistake: str | None,
    contracts: tuple[dict[str, str], ...],
    default_contracts: bool,
    times: int,
    as_json: bool,
) -> None:
    """Replay TRACE, a failure order, and tell what happened. Exit status 0 if it survived, 1 if not."""
    from attrs import evolve

    from stateful.findings import replayed
    from stateful.subject import load_subject
    from stateful.trace import SURVIVED, read_trace

    order = read_trace(trace)
    if subject:
        order = evolve(order, subject=subject, mistake="")
    if mistake is not None:
        order = evolve(order, mistake=mistake)
    if contracts or default_contracts:
        base = {} if default_contracts else order.contracts.to_json()
        order = evolve(order, contracts=contracts_from(base | _contracts_given(contracts)))
    load_subject(order.subject, order.mistake)
    stories = replayed(order, times).stories
    story = stories[0]
    same = sum(s.verdict == story.verdict for s in stories)
    as_expected = sum(s.as_expected for s in stories)
    if as_json:
        document = {
            "trace": order.to_json(),
            "verdict": story.verdict,
            "detail": story.finding.detail if story.finding else "",
            "times": times,
            "as_expected": as_expected,
            "steps": [{"step": x.label, "answer": x.answer, "changes": list(x.changes)} for x in story.lines],
        }
        click.echo(json.dumps(document, indent=2))
    else:
        click.echo(story.text())
        if times > 1:
            click.echo(f"  replayed {times} times: {same} times the same")
        expected = "that it survives" if order.expect == SURVIVED else order.expect
        came = "it survived" if story.verdict == SURVIVED else f"{story.verdict} broke"
        often = f": {as_expected} of {times} times as expected" if times > 1 else ""
        click.echo(f"  expected {expected}, and {came}{often}")
    raise SystemExit(0 if story.verdict == SURVIVED and same == times else 1)


@cli.command()
@click.argument("ids", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the table as Markdown.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option(
    "--engine",
    type=click.Choice(["walk", "machine", "kills", "interleavings", "faults"]),
    multiple=True,
    help="Default: all.",
)
@click.option(
    "--workers", type=click.IntRange(1, 64), default=min(8, os.cpu_count() or 2), help="Processes at a time."
)
def mistakes(
    ids: tuple[str, ...], as_json: bool, as_markdown: bool, seed: int, engine: tuple[str, ...], workers: int
) -> None:
    """Show which engine catches which seeded mistake, in how many orders and steps. IDS: only these."""
    from impl.mistakes import seeded
    from stateful.mistake_table import mistake_table, show_table

    for id_ in ids:
        seeded(id_)
    rows = mistake_table(ids, seed, engine, workers)
    show_table(rows, as_json=as_json, as_markdown=as_markdown)
    raise SystemExit(0 if all(row.caught for row in rows) else 1)


@cli.command()
@click.option("--contract", "row_names", multiple=True, help="Only this row, such as fencing=none or default.")
@click.option("--failure", "column_names", multiple=True, help="Only this column, such as kill.")
@click.option("--json", "as_json", is_flag=True, help="Print the matrix as JSON.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the matrix as Markdown.")
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), help="Write it as one page that needs no network."
)
@click.option("--pairs", is_flag=True, help="Show the pairs of contracts that protect each other instead.")
@click.option(
    "--execute",
    type=click.IntRange(0),
    default=1_000,
    show_default=True,
    help="Execute the transitions of so many states of each cell on SQLite; 0 for all.",
)
def matrix(
    row_names: tuple[str, ...],
    column_names: tuple[str, ...],
    as_json: bool,
    as_markdown: bool,
    html: Path | None,
    pairs: bool,
    execute: int,
) -> None:
    """The survival matrix: contract choice by kind of failure, searched in the model and executed on SQLite."""
    from stateful.columns import COLUMNS, rows
    from stateful.matrix import fill
    from stateful.report.matrix import markdown, page, show

    for what, given, known in (("contract", row_names, rows()), ("failure", column_names, COLUMNS)):
        for name in given:
            if name not in known:
                raise click.UsageError(f"there is no {what} {name!r}; one of {', '.join(known)}")
    if pairs:
        _pairs(as_json=as_json)
    with _progress("filling the matrix") as told:
        done = fill(row_names, column_names, report=lambda c: told(f"{c.row}, {c.column}"), states_executed=execute)
    if html is not None:
        html.write_text(page(done), "utf-8")
    if as_json:
        click.echo(json.dumps(done.to_json(), indent=2))
    elif as_markdown:
        click.echo("\n".join(markdown(done)))
    else:
        show(done)
    raise SystemExit(0 if done.agrees else 1)


def _pairs(*, as_json: bool) -> NoReturn:
    from stateful.pairs import protecting_pairs

    with _progress("weakening two contracts at a time") as told:
        found = protecting_pairs(lambda names: told(" and ".join(names)))
    if as_json:
        click.echo(json.dumps([pair.to_json() for pair in found], indent=2))
    else:
        for pair in found:
            click.echo(pair.text())
    raise SystemExit(0 if all(pair.agrees for pair in found) else 1)


@contextmanager
def _progress(what: str) -> Iterator[Callable[[str], None]]:
    """Say on standard error where a long work stands, while somebody watches."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(what) as status:
        yield lambda where: status.update(f"{what}: {where}")


@cli.command()
@click.argument("subject", default="impl.sqlite:SqliteDispatcher")
@click.option("--program", "names", multiple=True, help="Only this standard program, such as 'claim | claim'.")
@click.option("--lanes", type=click.IntRange(2, 3), default=2, show_default=True, help="Workers side by side.")
@click.option("--keys", type=click.IntRange(1, 2), default=1, show_default=True)
@click.option("--kills", type=click.IntRange(0, 3), default=1, show_default=True, help="Deaths in a schedule.")
@click.option("--preemptions", type=click.IntRange(0, 20), help="In a schedule.  [default: no bound]")
@click.option("--schedules", type=click.IntRange(1), help="Of each program.  [default: no bound]")
@contracts_option
@click.option("--mistake", default="", help="Seed a mistake into the dispatcher, such as M204.")
@click.option(
    "--workers", type=click.IntRange(1, 64), default=min(8, os.cpu_count() or 2), help="Processes at a time."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".survives"),
    show_default=True,
    help="Where findings are kept.",
)
def interleave(  # noqa: PLR0913, PLR0917 - one parameter an option
    subject: str,
    names: tuple[str, ...],
    lanes: int,
    keys: int,
    kills: int,
    preemptions: int | None,
    schedules: int | None,
    contracts: tuple[dict[str, str], ...],
    mistake: str,
    workers: int,
    as_json: bool,
    out: Path,
) -> None:
    """Run standard programs on SUBJECT under every schedule of their statements, with a crash at each node.

    Exit status 0 exhausted without a violation, 1 violated, 3 cut by a bound or unsupported.
    """
    from stateful.interleave import Size, standard
    from stateful.interleave import interleave as run
    from stateful.report.interleave import keep_and_show
    from stateful.subject import load_subject
    from stateful.verdict import EXIT_STATUS

    chosen = load_subject(subject, mistake)
    size = Size(lanes, keys, kills, preemptions, schedules)
    known = standard(chosen, size)
    for name in names:
        if name not in known:
            listed = ", ".join(map(repr, known)) or "none that this subject has the parts for"
            raise click.UsageError(f"there is no program {name!r} of that size; one of {listed}")
    if not known:
        at = f"{lanes} workers on {keys} {'key' if keys == 1 else 'keys'}"
        raise click.UsageError(f"there is no standard program for {at} that {subject} has the parts for")
    _see_whether_it_can_be_written(out)
    with _progress("interleaving") as told:
        done = run(
            chosen,
            _contracts(contracts),
            size,
            names=names,
            workers=workers,
            report=lambda r: told(f"{len(r.ended)} of {len(names or known)} programs"),
        )
    keep_and_show(done, out, as_json=as_json)
    raise SystemExit(EXIT_STATUS.get(done.status, UNKNOWN))


@cli.command()
@click.argument("subject", default="impl.sqlite:SqliteDispatcher")
@click.option("--orders", type=click.IntRange(0, 100_000), default=20, show_default=True, help="Generated orders.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="The same seed finds the same.")
@contracts_option
@click.option("--mistake", default="", help="Seed a mistake into the dispatcher, such as M131.")
@click.option(
    "--workers", type=click.IntRange(1, 64), default=min(8, os.cpu_count() or 2), help="Processes at a time."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".survives"),
    show_default=True,
    help="Where findings are kept.",
)
def power(
    subject: str,
    orders: int,
    seed: int,
    contracts: tuple[dict[str, str], ...],
    mistake: str,
    workers: int,
    as_json: bool,
    out: Path,
) -> None:
    """Cut the power at every point of a standard order of SUBJECT, and of generated ones.

    Exit status 0 survived, 1 violated, 3 cut short or unsupported.
    """
    from stateful.cuts import cut_orders
    from stateful.report.power import keep_and_show
    from stateful.subject import load_subject
    from stateful.verdict import EXIT_STATUS

    chosen = load_subject(subject, mistake)
    _see_whether_it_can_be_written(out)
    with _progress("cutting the power") as told:
        done = cut_orders(
            chosen,
            _contracts(contracts),
            orders,
            seed,
            workers=workers,
            report=lambda r: told(
                f"{sum(t.cuts['states'] for t in (*r.ended, *r.under_way)):,} crash states, "
                f"{sum(t.orders for t in (*r.ended, *r.under_way)):,} of {orders + 1:,} orders"
            ),
        )
    keep_and_show(done, out, as_json=as_json)
    raise SystemExit(EXIT_STATUS.get(done.status, UNKNOWN))


@cli.command()
@contracts_option
@click.option("--workers-modelled", type=click.IntRange(1, 4), default=2, show_default=True)
@click.option("--keys", type=click.IntRange(1, 3), default=1, show_default=True)
@click.option(
    "--kills", type=click.IntRange(0, 9), default=2, show_default=True, help="Deaths of workers in an order."
)
@click.option("--grants", type=click.IntRange(0, 9), default=2, show_default=True, help="Leases granted for a key.")
@click.option("--policy-bumps", type=click.IntRange(0, 2), default=1, show_default=True)
@click.option("--payload-changes/--no-payload-changes", default=True, show_default=True)
@click.option("--depth", type=click.IntRange(0), help="Steps in an order.  [default: no bound]")
@click.option("--states", type=click.IntRange(1), help="Distinct states.  [default: no bound]")
@click.option("--seconds", type=click.IntRange(1, 86_400), default=600, show_default=True, help="Time.")
@click.option("--megabytes", type=click.IntRange(64), help="Memory.  [default: three fifths of what is free]")
@click.option("--symmetry/--no-symmetry", default=False, show_default=True, help="Take workers and keys for alike.")
@click.option("--property", "property_id", default="", help="Look for a violation of this property alone.")
@click.option(
    "--ends", "liveness", is_flag=True, help="Look for an intent that never ends instead: small bounds only."
)
@click.option("--execute", is_flag=True, help="Then execute every transition of the graph on SQLite.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--trace", type=click.Path(dir_okay=False, path_type=Path), help="Write a counterexample's trace here.")
def explore(  # noqa: PLR0913, PLR0917 - one parameter an option
    contracts: tuple[dict[str, str], ...],
    workers_modelled: int,
    keys: int,
    kills: int,
    grants: int,
    policy_bumps: int,
    payload_changes: bool,
    depth: int | None,
    states: int | None,
    seconds: int,
    megabytes: int | None,
    symmetry: bool,
    property_id: str,
    liveness: bool,
    execute: bool,
    as_json: bool,
    trace: Path | None,
) -> None:
    """Search every order of the model within bounds. Exit status 0 exhausted, 1 violated, 3 cut by a bound."""
    from model.properties import PROPERTIES
    from model.search import ModelBounds, Progress
    from stateful.explore import SHARE_OF_MEMORY, Limit, ends, megabytes_free
    from stateful.explore import execute as run_all
    from stateful.explore import explore as search
    from stateful.report.explore import lines

    if property_id and property_id not in PROPERTIES:
        raise click.UsageError(f"there is no property {property_id!r}; one of {', '.join(PROPERTIES)}")
    bounds = ModelBounds(
        workers=workers_modelled,
        keys=keys,
        kills=kills,
        grants=grants,
        policy_bumps=policy_bumps,
        payload_changes=payload_changes,
    )
    limit = Limit(seconds, megabytes or int(megabytes_free() * SHARE_OF_MEMORY))
    with _progress("exploring") as told:
        started = time.monotonic()

        def report(p: Progress) -> None:
            rate = p.transitions / max(0.1, time.monotonic() - started)
            told(f"{p.states:,} states, frontier {p.frontier:,}, depth {p.depth}, {rate:,.0f} transitions/s")

        weak = _contracts(contracts)
        if liveness:
            done = ends(weak, bounds, limit, depth=depth, states=states, report=report)
        else:
            done = search(
                weak,
                bounds,
                limit,
                depth=depth,
                states=states,
                symmetric=symmetry,
                property_id=property_id,
                report=report,
            )
        if execute:
            done = run_all(done, limit, lambda c: told(f"{c.covered:,} of {c.edges:,} transitions executed"))
    click.echo(json.dumps(done.to_json(), indent=2) if as_json else "\n".join(lines(done)))
    if trace is not None and done.trace is not None:
        done.trace.write(trace)
        click.echo(f"  replay:  survives replay {trace}", err=as_json)
    raise SystemExit(done.exit_status)


@cli.command("list")
@click.argument("what", type=click.Choice(["actions", "contracts", "mistakes", "properties", "witnesses"]))
def list_(what: str) -> None:
    """List the words: actions, contracts, mistakes, properties or witnesses."""
    from model.actions import ALPHABET
    from model.properties import PROPERTIES, WITNESSES

    if what == "contracts":
        for name, choices in CHOICES.items():
            click.echo(f"{name}={'|'.join(choices)}")
    elif what == "actions":
        for verb, form in ALPHABET.items():
            words = [str(verb), "WORKER" * form.worker, "KEY" * form.key, form.choice.upper()]
            click.echo(f"{' '.join(filter(None, words)):<32} {form.says}")
    elif what == "mistakes":
        from impl.mistakes import MISTAKES

        for mistake in MISTAKES.values():
            click.echo(f"{mistake.id}  {mistake.kind}  {mistake.sentence}")
    else:
        for prop in (PROPERTIES if what == "properties" else WITNESSES).values():
            click.echo(f"{prop.id:<24} {prop.sort:<10} {prop.name}")


from stateful.commands_faults import faults  # noqa: E402 - it stands beside the others

cli.add_command(faults)


def main() -> None:
    """The console command. Every mistake of a user's ends in one line and status 2."""
    from stateful.subject import SubjectError
    from stateful.trace import TraceError
    from stateful.trouble import NoRoomError, ReplayError

    try:
        cli(standalone_mode=True)
    except (ReplayError, NoRoomError) as error:
        _complain(str(error), UNKNOWN)
    except (SubjectError, TraceError, UnknownContractError, ValueError) as error:
        if isinstance(error, SubjectError | TraceError | UnknownContractError) or type(error).__module__.startswith(
            "impl."
        ):
            _complain(str(error))
        raise
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            _hush()
            raise SystemExit(1) from None
        _complain(f"{error.filename or 'a file'}: {error.strerror or error}; check that it exists and can be written")


def _hush() -> None:
    """Nobody reads any more: what is still to be flushed goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(message: str, status: int = WRONG_USE) -> None:
    click.echo(f"survives: {message.encode(errors='backslashreplace').decode()}", err=True)
    raise SystemExit(status)


if __name__ == "__main__":
    main()

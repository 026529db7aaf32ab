"""The pytest plugin: a campaign's shards as test items, spread over workers by ``pytest -n auto``.

It is loaded by every pytest run in its environment, so that it imports nothing but pytest until shards are asked for:
by ``--survives-subject``, or by ``survives_subject`` in the configuration when no path is given on the command line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from model.contracts import Contracts
    from stateful.foreign.adapter import Adapter
    from stateful.shard import Shard
    from stateful.subject import Subject
    from stateful.verdict import Tally

PROFILES = {"dev": 9, "ci": 48, "nightly": 3600}
"""Nominal seconds on two slow cores."""
PROPERTY = "survives"
"""The name under which an item's totals travel to the summary, and into JUnit files."""
_SEED_MAX = 1 << 31
_seed = pytest.StashKey[int]()
_totals = pytest.StashKey[list[dict[str, Any]]]()
_adapter = pytest.StashKey["Adapter | None"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, in a group of their own."""
    group = parser.getgroup("survives", "failure orders (survives)")
    group.addoption("--survives-subject", metavar="MODULE:CLASS", help="check this dispatcher, or adapter")
    group.addoption("--survives-seconds", type=int, metavar="N", help="nominal budget on two slow cores")
    group.addoption("--survives-seed", type=int, metavar="N", help="the same seed finds the same")
    group.addoption("--survives-contracts", default="", metavar="NAME=CHOICE,...", help="weaken contracts")
    group.addoption(
        "--survives-profile",
        choices=sorted(PROFILES),
        help="dev (default), ci (default where CI is set), or nightly, which draws a new seed each time",
    )
    parser.addini("survives_subject", "check this dispatcher when pytest is run without paths", default="")


def _profile(config: pytest.Config) -> str:
    given: str | None = config.getoption("survives_profile")
    return given or ("ci" if os.environ.get("CI") else "dev")


def _subject(config: pytest.Config) -> str:
    given: str | None = config.getoption("survives_subject")
    by_paths = config.args_source is pytest.Config.ArgsSource.ARGS
    return given or ("" if by_paths else str(config.getini("survives_subject")))


def _chosen_seed(config: pytest.Config) -> int:
    worker_input = getattr(config, "workerinput", None)
    if worker_input is not None:
        return int(worker_input["survives_seed"])
    given: int | None = config.getoption("survives_seed")
    if given is not None:
        return given
    return int.from_bytes(os.urandom(4), "big") % _SEED_MAX if _profile(config) == "nightly" else 0


def pytest_configure(config: pytest.Config) -> None:
    """Check the options, and choose the seed once for all workers."""
    seconds: int | None = config.getoption("survives_seconds")
    if seconds is not None and not 1 <= seconds <= 86_400:
        raise pytest.UsageError(f"--survives-seconds is {seconds}; it is a number from 1 to 86400")
    seed: int | None = config.getoption("survives_seed")
    if seed is not None and seed < 0:
        raise pytest.UsageError(f"--survives-seed is {seed}; it is 0 or more")
    config.stash[_seed] = _chosen_seed(config)
    config.stash[_totals] = []
    if _subject(config) and not hasattr(config, "workerinput"):
        try:
            if _called(config) is None:
                _loaded(config, probe=True)
            _contracts(config)
        except ValueError as error:
            raise pytest.UsageError(f"survives: {error}") from None


def _loaded(config: pytest.Config, *, probe: bool = False) -> Subject:
    from stateful.subject import load_subject

    return load_subject(_subject(config), folder=config.invocation_params.dir, probe=probe)


def _called(config: pytest.Config) -> Adapter | None:
    """The adapter that is to be examined, if the subject is a system that is called. Asked once."""
    if _adapter not in config.stash:
        from stateful.foreign.channel import AdapterError
        from stateful.foreign.items import called

        try:
            config.stash[_adapter] = called(_subject(config), config.invocation_params.dir)
        except AdapterError as error:
            raise pytest.UsageError(f"survives: {_subject(config)}: {error}") from None
    return config.stash[_adapter]


def _contracts(config: pytest.Config) -> Contracts:
    from model.contracts import contracts_from

    given = str(config.getoption("survives_contracts"))
    return contracts_from(dict(part.partition("=")[::2] for part in given.split(",") if part))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hand the seed to a worker of pytest-xdist before it starts."""
    node.workerinput["survives_seed"] = node.config.stash[_seed]


def pytest_report_header(config: pytest.Config) -> str | None:
    """One line, when shards are to run."""
    subject = _subject(config)
    if not subject:
        return None
    profile, seconds = _profile(config), _seconds(config)
    return f"survives: {subject}, profile {profile}, {seconds} nominal seconds, seed {config.stash[_seed]}"


def _seconds(config: pytest.Config) -> int:
    given: int | None = config.getoption("survives_seconds")
    return given if given is not None else PROFILES[_profile(config)]


@pytest.hookimpl(tryfirst=True)  # before -k and --lf choose among the items
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the shards first: they take longest."""
    if _subject(config):
        from stateful.clash import clash

        why = clash()
        if why:
            raise pytest.UsageError(f"survives: {why}")
        try:
            collector = Shards.from_parent(session, name="survives", nodeid="survives")
            shards = list(collector.collect())
        except ValueError as error:
            raise pytest.UsageError(f"survives: {error}") from None
        items[:0] = shards
        report = pytest.CollectReport("survives", "passed", None, list(shards))
        config.hook.pytest_collectreport(report=report)  # so that they are counted as collected


class Shards(pytest.Collector):
    """The shards of one campaign."""

    def collect(self) -> Iterator[pytest.Item]:
        """An item a shard, the same in every worker."""
        from stateful.campaign import Budget, plan

        config = self.config
        adapter = _called(config)
        if adapter is not None:
            from stateful.foreign.items import shares

            yield from shares(self, adapter)
            return
        budget = Budget(_seconds(config), config.stash[_seed])
        for wave in plan(_loaded(config), _contracts(config), budget, folder=config.invocation_params.dir):
            for shard in wave:
                nodeid = f"{self.nodeid}::{shard.name}"  # read as it is when it comes back from the cache
                yield ShardItem.from_parent(self, name=shard.name, nodeid=nodeid, shard=shard)


class BrokenPromiseError(Exception):
    """A shard broke a promise; the message is the story."""


class ShardItem(pytest.Item):
    """One shard as a test: it fails with the story of each broken promise."""

    def __init__(self, *, shard: Shard, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.shard = shard

    def runtest(self) -> None:
        """Run the shard in a process of its own."""
        import shutil

        from stateful.medium import fast_folder

        scratch = fast_folder("survives-item-")
        try:
            tally = self._run(scratch)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        self.user_properties.append((PROPERTY, json.dumps(_totals_of(tally), sort_keys=True)))
        stories = list(self._stories(tally))
        if stories:
            raise BrokenPromiseError("\n\n".join(stories))
        if tally.failed or tally.left_over:
            raise BrokenPromiseError(f"the shard did not end: {tally.failed or '; '.join(tally.left_over)}")

    def _run(self, scratch: Path) -> Tally:
        import time

        from attrs import evolve

        from stateful.campaign import HARD_STOP, WAVE_SECONDS, explained
        from stateful.workers import Interrupted, run_shards

        shard = evolve(self.shard, scratch=scratch)
        try:
            (tally,) = run_shards([shard], 1, time.monotonic() + HARD_STOP * 10 * WAVE_SECONDS, None, [])
            return explained(shard, tally, scratch)
        except Interrupted as stop:
            if stop.why == "it was interrupted":
                raise KeyboardInterrupt from None
            (tally,) = stop.tallies
            tally.failed = stop.why
            return tally

    def _stories(self, tally: Tally) -> Iterable[str]:
        from stateful.campaign import trace_of
        from stateful.findings import keep

        subject = _loaded(self.config)
        for broken in tally.broken.values():
            trace = trace_of(subject, self.shard.contracts, broken)
            out, by_death = Path(self.config.rootpath) / ".survives", broken.engine == "kills"
            kept = keep(trace, out, broken.detail, by_death=by_death)
            where = kept.trouble + "\n" + json.dumps(trace.to_json()) if kept.trouble else f"  replay:  {kept.replay}"
            yield f"{kept.story.text()}\n{where}"

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """A story instead of a traceback."""
        if isinstance(excinfo.value, BrokenPromiseError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """How the item is called in reports."""
        return self.config.rootpath, None, f"survives {self.shard.name} seed {self.shard.seed}"


def _totals_of(tally: Tally) -> dict[str, Any]:
    return {
        "engine": tally.engine,
        "orders": tally.orders,
        "steps": tally.steps,
        "kills": tally.kills,
        "boundaries": 0 if tally.faults else sum(tally.boundaries.values()),
        "left_over": len(tally.left_over),
        "witnesses": dict(sorted(tally.witnesses.items())),
        "broken": sorted(tally.broken),
    }


@pytest.hookimpl
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect the totals of the shards, from whichever worker they come."""
    if report.when == "call" and _collecting is not None:
        _collecting.extend(json.loads(str(value)) for name, value in report.user_properties if name == PROPERTY)


_collecting: list[dict[str, Any]] | None = None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Start collecting totals."""
    global _collecting  # noqa: PLW0603 - the report hook is given no session
    _collecting = session.config.stash[_totals]


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A vacuous campaign is no success."""
    config = session.config
    totals = config.stash[_totals]
    if totals and exitstatus == 0 and not any(t["broken"] for t in totals) and _missing(totals, config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """One line of totals, and a second if the campaign was vacuous."""
    totals = config.stash[_totals]
    if not totals:
        return
    orders, steps, kills, boundaries = (sum(t[n] for t in totals) for n in ("orders", "steps", "kills", "boundaries"))
    broken = sorted({b for t in totals for b in t["broken"]})
    write = terminalreporter.write_line
    terminalreporter.section("survives", "-")
    write(
        f"{len(totals)} shards: {orders:,} orders, {steps:,} steps, {kills:,} deaths, {boundaries:,} real ones and "
        f"freezes at every boundary, {sum(t['left_over'] for t in totals)} left over; "
        f"{_promises(broken, config)}; seed {config.stash[_seed]}"
    )
    missing = _missing(totals, config)
    if missing and not broken:
        write(f"VACUOUS: never seen: {', '.join(missing)}; give it more --survives-seconds", yellow=True)


def _promises(broken: list[str], config: pytest.Config) -> str:
    from collections import Counter

    from model.properties import PROPERTIES
    from stateful.verdict import Status, checked

    have = _loaded(config).capabilities
    ends = Counter(
        Status.VIOLATED if p.id in broken else Status.SURVIVED if p.needs <= have else Status.UNSUPPORTED
        for p in PROPERTIES.values()
    )
    return f"{checked(ends)} " + (f"broken: {', '.join(broken)}" if broken else "survived")


def _missing(totals: list[dict[str, Any]], config: pytest.Config) -> list[str]:
    from model.properties import WITNESSES

    try:
        capabilities = _loaded(config).capabilities
    except ValueError:
        return []
    seen = {name for t in totals for name, count in t["witnesses"].items() if count}
    return [w.id for w in WITNESSES.values() if w.needs <= capabilities and w.id not in seen]

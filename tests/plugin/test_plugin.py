"""The pytest plugin: what a user reads, who runs what, and how little it costs whoever does not ask for it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[2]
GOOD, BAD = "mine:ToyDispatcher", "mine:MarksBeforeEffect"


def run(project, *arguments):
    return project.runpytest_subprocess("-p", "no:cacheprovider", *arguments, timeout=60)


def items(result):
    """The shards that were collected, with their seeds."""
    return re.findall(r"survives::(\w+\[\d+\])", result.stdout.str())


def totals(result):
    """What each shard reported, by its name, from the summary of failures and the JUnit file."""
    tree = ET.parse(result)  # noqa: S314 - we have written it
    found = {}
    for case in tree.iter("testcase"):
        for prop in case.iter("property"):
            found[case.get("name")] = json.loads(prop.get("value"))
    return found


def test_the_options_have_a_group_of_their_own(project):
    """``pytest --help`` explains the options under a heading."""
    text = run(project, "--help").stdout.str()
    group = text[text.index("failure orders (survives):") :]
    options = ["subject", "seconds", "seed", "contracts", "profile"]

    assert [True] * 5 == [f"--survives-{option}" in group for option in options]


def test_nothing_runs_unasked(project):
    """Without a subject there is no header line, no item and no summary."""
    result = run(project, "-v")
    result.assert_outcomes(passed=1)

    said = result.stdout.str()

    assert [False] * 3 == [words in said for words in ("survives: ", "survives::", " shards: ")]


def test_a_correct_subject_passes(project):
    """With a subject the shards come first, the header names the run, and the summary has the totals."""
    result = run(project, "-v", "--survives-subject", GOOD, "--survives-seconds", "1", "--survives-seed", "5")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        [
            "survives: mine:ToyDispatcher, profile dev, 1 nominal seconds, seed 5",
            "survives::machine*PASSED*",
            "survives::walk*PASSED*",
            "test_users.py::test_of_the_user PASSED*",
            "2 shards: * orders, * steps, * deaths,*5 of 22 promises (17 unsupported) survived; seed 5",
        ]
    )

    assert 0 == result.ret


def test_a_failure_is_a_story(project):
    """A broken promise is a failed item with the story, where it is kept, and no traceback."""
    result = run(project, "--survives-subject", BAD, "--survives-seconds", "1", "-k", "walk")
    result.assert_outcomes(failed=1, deselected=2)
    result.stdout.fnmatch_lines(
        [
            "VIOLATED  A replay returns the first receipt.",
            "  mine:MarksBeforeEffect, contracts default; *",
            "  replay:  survives replay *trace.json",
            "*broken: first-receipt; seed 0",
        ]
    )

    assert (1, False) == (result.ret, "Traceback" in result.stdout.str() + result.stderr.str())


@pytest.mark.deep
def test_workers_do_not_change_what_is_found(project):
    """Two workers and none run the same shards, and find the same in as many steps."""
    found = []
    for workers in ("0", "2"):
        xml = project.path / f"{workers}.xml"
        result = run(
            project, "-n", workers, "--survives-subject", BAD, "--survives-seconds", "1", f"--junitxml={xml}"
        )
        result.assert_outcomes(passed=1, failed=2)
        found.append(totals(xml))

    assert (found[0], {"machine[0]", "walk[0]"}) == (found[1], set(found[1]))


@pytest.mark.deep
def test_shards_have_seeds_of_their_own(project):
    """No two shards run the same orders; the seed is in the item's heading."""
    result = run(project, "--survives-subject", BAD, "--survives-seconds", "18")
    seeds = re.findall(r"^_+ survives \w+\[\d+\] seed (\d+) _+$", result.stdout.str(), re.MULTILINE)

    assert (4, 4) == (len(seeds), len(set(seeds)))


@pytest.mark.parametrize(
    ("environment", "arguments", "header"),
    [
        ("", [], "profile dev, 9 nominal seconds, seed 0"),
        ("true", [], "profile ci, 48 nominal seconds, seed 0"),
        ("true", ["--survives-profile", "dev"], "profile dev, 9 nominal seconds, seed 0"),
        ("", ["--survives-profile", "ci", "--survives-seconds", "7"], "profile ci, 7 nominal seconds, seed 0"),
        ("", ["--survives-profile", "nightly", "--survives-seed", "3"], "nightly, 3600 nominal seconds, seed 3"),
    ],
)
def test_profiles(project, monkeypatch, environment, arguments, header):
    """Dev by default, ci where CI is set; what is given by hand comes first."""
    if environment:
        monkeypatch.setenv("CI", environment)
    result = run(project, "--co", "--survives-subject", GOOD, *arguments)

    result.stdout.fnmatch_lines([f"survives: mine:ToyDispatcher, *{header}"])


def test_nightly_draws_a_new_seed(project):
    """Each night has a seed of its own, and says which."""
    arguments = ("--co", "--survives-subject", GOOD, "--survives-profile", "nightly")
    headers = [run(project, *arguments).stdout.str() for _ in range(2)]
    seeds = {re.search(r"nominal seconds, seed (\d+)", header)[1] for header in headers}

    assert 2 == len(seeds)


def test_a_subject_in_the_configuration_runs_without_paths(project):
    """A configured subject is checked by a bare ``pytest``, and not when one file is asked for."""
    project.makeini(f"[pytest]\nsurvives_subject = {GOOD}")
    outcomes = [
        items(run(project, "--co", "-q", "--survives-seconds", "1", *paths)) for paths in ([], ["test_users.py"])
    ]

    assert [["machine[0]", "walk[0]"], []] == outcomes


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--survives-subject", "mine:Nobody"], "module 'mine' has no 'Nobody'; check the spelling"),
        (["--survives-subject", "mine"], "is not of the form module:Class"),
        (["-n", "1", "--survives-subject", "mine:Nobody"], "module 'mine' has no 'Nobody'; check the spelling"),
        (
            ["-n", "1", "--survives-subject", GOOD, "--survives-contracts", "idem=none"],
            "contract 'idem' does not exist",
        ),
        (["--survives-subject", GOOD, "--survives-contracts", "fencing"], "contract fencing has no choice ''"),
        (["--survives-subject", GOOD, "--survives-seconds", "0"], "--survives-seconds is 0"),
        (["--survives-subject", GOOD, "--survives-seed", "-1"], "--survives-seed is -1"),
    ],
)
def test_wrong_use_is_told(project, arguments, says):
    """Wrong use ends pytest with its usage status and one line, before any worker starts."""
    result = run(project, *arguments)

    assert (pytest.ExitCode.USAGE_ERROR, True) == (result.ret, says in result.stderr.str()), result.stderr.str()
    assert "INTERNALERROR" not in result.stdout.str()


def test_a_subject_that_ends_its_process_is_told(project):
    """A subject that ends its process fails its shard and nothing else, and the step is named."""
    project.makepyfile(
        bad="import os\nfrom mine import ToyDispatcher\n"
        "class Exits(ToyDispatcher):\n    def dispatch(self, key, token): os._exit(7)\n"
    )
    result = run(project, "--survives-subject", "bad:Exits", "--survives-seconds", "1", "-k", "walk or user")
    result.assert_outcomes(passed=1, failed=1, deselected=1)

    result.stdout.fnmatch_lines(["VIOLATED  A dispatcher answers: *", "  => dispatch *ended with status 7*"])


def test_loading_it_costs_next_to_nothing():
    """Every pytest run in the environment loads it: it brings nothing heavy along."""
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import pytest; before = set(sys.modules)\n"
        "import stateful.plugin; print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)

    assert ["stateful", "stateful.plugin"] == done.stdout.split()


def test_a_run_without_a_subject_loads_nothing(project):
    """A user who never asks for shards never loads an engine, the model or a dispatcher."""
    project.makeconftest("")
    project.makepyfile(
        test_users="import sys\ndef test_it():\n"
        "    names = {'stateful', 'impl', 'model', 'multiprocess', 'rich'}\n"
        "    ours = {m for m in sys.modules if m.split('.')[0] in names}\n"
        "    assert {'stateful', 'stateful.plugin'} == ours\n"
    )
    run(project).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("choice", "says"),
    [
        (("-k", "walk"), "collected 3 items / 2 deselected / 1 selected"),
        (("-k", "user"), "collected 3 items / 2 deselected / 1 selected"),
        ((), "collected 3 items"),
        (("--deselect", "survives::walk[0]"), "collected 3 items / 1 deselected / 2 selected"),
    ],
)
def test_shards_are_collected_like_other_items(project, choice, says):
    """What is chosen and what is left out adds up."""
    result = run(project, *choice, "--collect-only", "--survives-subject", GOOD, "--survives-seconds", "1")

    assert says in result.stdout.str().splitlines(), result.stdout.str()


@pytest.mark.deep
def test_what_failed_last_runs_again(project):
    """``--lf`` runs the shards that failed, and counts the others as left out."""
    arguments = ("--survives-subject", BAD, "--survives-seconds", "1")
    project.runpytest_subprocess(*arguments, "-k", "walk or user", timeout=60)
    result = project.runpytest_subprocess(*arguments, "--lf", timeout=60)

    assert "collected 3 items / 2 deselected / 1 selected" in result.stdout.str(), result.stdout.str()
    result.assert_outcomes(failed=1, deselected=2)

"""The harness itself is deterministic: a seed gives the same run everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from model.contracts import Contracts
from stateful.campaign import Budget, plan
from stateful.shard import shard_seed

ROOT = Path(__file__).parents[2]
SCRIPT = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
from model.contracts import Contracts
from stateful.engines import machine, walk
from stateful.order import Rig
from stateful.subject import load_subject
from stateful.verdict import Tally

class Recording(Tally):
    def take(self, rig, ran):
        for told in ran.told:
            seen.update(f"{told.step.label}={told.outcome}\\n".encode())
        return super().take(rig, ran)

for engine, run in (("walk", walk.walk), ("machine", machine.run)):
    seen = hashlib.sha256()
    with Rig(load_subject(), Contracts(), in_memory=engine == "walk") as rig:
        tally = Recording(engine)
        run(rig, int(sys.argv[2]), 12, tally)
        print(engine, tally.orders, tally.steps, seen.hexdigest(), sorted(rig.judge.witnesses.items()))
"""


SMALL_CAMPAIGN = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from attrs import evolve
from stateful import campaign, cli

whole, sizes = campaign.plan, {"walk": 20, "machine": 10}
campaign.plan = lambda *args, **kwargs: [
    [evolve(s, size=sizes[s.engine]) for s in whole(*args, **kwargs)[0] if s.engine in sizes]
]
cli.main()
"""


def in_child(hash_seed, script, *arguments, status=0):
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", script, str(ROOT), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert status == done.returncode, done.stderr
    return done.stdout


def recorded(hash_seed, seed):
    return in_child(hash_seed, SCRIPT, seed)


def test_a_seed_gives_the_same_run():
    """Walk and machine take the same steps and get the same answers in processes that hash differently."""
    runs = {recorded(hash_seed, 7) for hash_seed in ("1", "2")}

    assert 1 == len(runs), runs


def test_a_seed_gives_the_same_verdict(tmp_path):
    """Whole campaigns in processes that hash differently find the same: the documents differ in ``timing`` alone."""
    choices = ("--contracts", "approval=advisory", "--out", tmp_path, "--workers", 1, "--json")
    documents = [json.loads(in_child(h, SMALL_CAMPAIGN, "check", *choices, status=1)) for h in ("1", "2")]
    timings = [set(document.pop("timing")) for document in documents]
    written = [json.dumps(document) for document in documents]
    traces = [sorted(path.read_bytes() for path in tmp_path.rglob("trace.json"))]

    assert ([{"seconds", "workers"}] * 2, written[0]) == (timings, written[1])
    assert {"walk", "machine"} == set(documents[0]["bound"]["engines"])
    assert ("violated", 1) == (documents[0]["status"], len(traces))


def test_another_seed_gives_another_run():
    """The check above can fail: another seed gives other steps."""
    runs = [recorded("1", seed).splitlines() for seed in (7, 8)]

    assert (True, True) == tuple(a != b for a, b in zip(*runs, strict=True))


@pytest.fixture
def shards(subject):
    def planned(**budget):
        return plan(subject(), Contracts(), Budget(**budget), folder=ROOT)

    return planned


def test_no_two_shards_have_one_seed(shards):
    """Each shard has a seed of its own, but for the parts that share a catalogue."""
    flat = [shard for wave in shards(seconds=60, seed=3) for shard in wave]
    parts = {(s.seed, s.part) for s in flat}

    assert len(flat) == len(parts)
    assert len({(s.engine, s.seed) for s in flat}) == len({s.seed for s in flat})


def test_the_plan_does_not_depend_on_workers(shards):
    """The same seed and seconds give the same shards, whoever runs them."""
    assert shards(seconds=60, workers=1) == shards(seconds=60, workers=16)


def test_a_longer_plan_begins_like_a_shorter_one(shards):
    """More seconds add waves and change none."""
    short, long = shards(seconds=12), shards(seconds=60)

    assert (short, True) == (long[: len(short)], len(long) > len(short))


def test_a_seed_of_a_shard_is_pinned():
    """A seed that a report names today gives the same run tomorrow."""
    places = [(0, "walk", 0), (1, "walk", 0), (0, "kills", 0), (0, "walk", 1)]

    assert [3248852635, 2985622577, 1523868543, 3762124428] == [shard_seed(*place) for place in places]

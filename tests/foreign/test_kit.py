"""The helper for adapters: what a system does and raises in its words, and what it holds, are the protocol's."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

from stateful.foreign.adapter import KIT, Adapter
from stateful.foreign.order import At, Do, Order, Step, Then

START = Step(Do.START, 1, 1, "p1")
ONCE = Order("once", (START,))
HEAD = "from survives_adapter import *\nimport threading, asyncio, sys, os\n"


@pytest.fixture(scope="module")
def kit():
    """The helper as a module, of which nothing is begun, and which leaves the path as it was."""
    path = sys.path[:]
    spec = importlib.util.spec_from_file_location("survives_adapter", KIT / "survives_adapter.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path[:] = path
    return module


@pytest.fixture
def with_kit(tmp_path):
    """An adapter of a system's class body."""

    def make(body: str) -> Adapter:
        path = tmp_path / "mine.py"
        path.write_text(f"{HEAD}\nclass Mine(System):\n    claims = []\n{body}\nserve(Mine)\n")
        return Adapter("mine.py", (sys.executable, str(path)), tmp_path)

    return make


@pytest.mark.parametrize(
    ("raised", "outcome", "reason"),
    [
        ("Refused", "refused", "why"),
        ("Denied", "denied", "why"),
        ("Pending", "pending", "why"),
        ("InDoubt", "unknown", "why"),
        ("EffectFailed", "failed", "EffectFailed: why"),
        ("ValueError", "failed", "ValueError: why"),
    ],
)
def test_what_a_system_raises_is_an_outcome(kit, raised, outcome, reason):
    """Each of the helper's exceptions is the outcome that it stands for, and any other a failure."""
    error = getattr(kit, raised, ValueError)

    def call():
        raise error("why")

    assert {"outcome": outcome, "reason": reason} == kit.outcome_of(call)


def test_handles_are_kept(kit, tmp_path):
    """A handle is found again by whoever opens the folder next, whatever its key is; a draft is none."""
    handles = kit.Handles(tmp_path)
    handles.set("k1", 7)
    handles.set("a/../b", {"id": "x"})
    handles.set("k1", 8)
    (tmp_path / "handles" / "half.123").write_text("[")
    again = kit.Handles(tmp_path)

    assert (8, {"id": "x"}, None) == (again.get("k1"), again.get("a/../b"), again.get("k2"))
    assert [("a/../b", {"id": "x"}), ("k1", 8)] == sorted(again.items())


def test_abilities_are_what_a_class_has(kit):
    """What a system can do follows from its methods, and from what it says of itself."""

    class Able(kit.System):
        passes_id, one_process, lease_ms = True, True, 500

        def recover(self): ...
        def decide(self, key, payload, verdict): ...

    assert ["recover", "decide", "effect-id"] == kit.about(Able)["abilities"]
    assert ["two-processes"] == kit.about(kit.System)["abilities"]
    assert ("Able", 500) == (kit.about(Able)["system"], kit.about(Able)["lease_ms"])


def test_a_system_may_print_and_wait(with_kit, staged):
    """What it prints is no noise, by whatever way, and what is asynchronous is run to its end."""
    body = """
    async def open(self):
        print("hello"); os.system("echo hello"); os.write(1, b"hello")
        await asyncio.sleep(0)
    async def start(self, key, payload):
        print(sys.stdin.read(), flush=True)
        return [await self.effect_async(key, payload), await asyncio.gather(asyncio.sleep(0, "waited"))]
"""
    facts = staged(with_kit(body), ONCE)

    assert ("", "done ['r1', ['waited']]") == (facts.trouble, facts.lines[0].outcome)


def test_threads_are_held_side_by_side(with_kit, staged):
    """A call that sends from several threads is held once for each side of each send."""
    body = """
    def start(self, key, payload):
        threads = [threading.Thread(target=self.effect, args=(key, payload, str(n))) for n in range(3)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        return "all"
"""
    facts = staged(with_kit(body), ONCE)
    first = [s for s in facts.sends if s.worker == 1]

    assert ("", {"0", "1", "2"}) == (facts.trouble, {s.effect_id for s in first})
    assert "done 'all'" == facts.lines[0].outcome


def test_a_thread_may_outlast_its_request(with_kit, staged):
    """A send by a thread whose call was answered is done during the next request, and at the latest before the end."""
    body = """
    def start(self, key, payload):
        self.thread = threading.Thread(target=self.effect, args=(key, payload))
        self.thread.start()
        raise Pending("later")
    def close(self):
        self.thread.join()
"""
    facts = staged(with_kit(body), Order("closed", (START, Step(Do.CLOSE, 1))))

    assert ("", [(1, 1), (9, 1)]) == (facts.trouble, [(s.worker, s.key) for s in facts.sends][:2])
    assert ["pending: later", "closed"] == [line.outcome for line in facts.lines][:2]


@pytest.mark.parametrize(("at", "sends"), [(At.ENTER, 0), (At.EXIT, 1)])
def test_a_sink_that_does_not_answer_raises(with_kit, staged, at, sends):
    """The effect raises what the system's own code may catch, before the sink has acted or after it."""
    body = """
    def start(self, key, payload):
        try:
            return self.effect(key, payload)
        except EffectFailed as error:
            raise InDoubt(str(error))
"""
    facts = staged(with_kit(body), Order("fails", (Step(Do.START, 1, 1, "p1", at=at, then=Then.FAIL),)))

    assert ("unknown: the sink does not answer", sends) == (
        facts.lines[0].outcome,
        sum(s.worker == 1 for s in facts.sends),
    )


def test_an_adapter_ends_with_its_input(with_kit, tmp_path):
    """Whoever starts an adapter and goes away leaves nothing behind: the end of its input ends it, whatever it does."""
    adapter = with_kit("    def start(self, key, payload): return self.effect(key, payload)")
    hello = {"id": 0, "do": "hello", "version": 1, "folder": str(tmp_path), "worker": "w1"}
    start = {"id": 1, "do": "start", "with": {"key": "k1", "payload": 1}}
    done = subprocess.run(
        adapter.command,
        input="".join(json.dumps(m) + "\n" for m in (hello, start)),
        env=adapter.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (0, "") == (done.returncode, done.stderr)


def test_a_file_may_carry_its_systems_name(tmp_path):
    """An adapter called as the system that it imports finds the system, and its own neighbours too."""
    elsewhere = tmp_path / "installed"
    elsewhere.mkdir()
    (elsewhere / "mine.py").write_text("NAME = 'the system'")
    (tmp_path / "neighbour.py").write_text("NAME = 'a neighbour'")
    (tmp_path / "mine.py").write_text("import survives_adapter, mine, neighbour; print(mine.NAME, neighbour.NAME)")
    env = Adapter("mine.py", ()).environment()
    env["PYTHONPATH"] += f":{elsewhere}"
    done = subprocess.run(
        [sys.executable, tmp_path / "mine.py"], env=env, capture_output=True, text=True, check=False
    )

    assert ("the system a neighbour\n", "") == (done.stdout, done.stderr)

"""The oracle: it reads what is stored, computes for itself what is right, and shares nothing with the dispatcher."""

from __future__ import annotations

import ast
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import stateful.oracle
from model.words import Grant, State
from stateful.oracle import CHECKPOINT_FILE, LEDGER_FILE, DamagedError
from stateful.order import Rig

ORDER = (
    "submit k1 p1",
    "approve k1 p1",
    "claim w1 k1",
    "dispatch w1 k1 done",
    "acknowledge w1 k1",
    "checkpoint w1 k1",
)
SINK = "sink/sink.sqlite3"


@pytest.fixture
def played(rig, steps):
    """Files on disk after an order that has been all the way: k1 completed, k2 submitted and approved."""
    on_disk: Rig = rig(in_memory=False)
    on_disk.start()
    findings = [on_disk.do(step) for step in steps(*ORDER, "submit k2 p2", "approve k2 p2")]
    assert {None} == set(findings)
    return on_disk


def meddle(played: Rig, name: str, *statements: str) -> None:
    """Write into a store behind everybody's back."""
    with closing(sqlite3.connect(played.medium.folder / name)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def test_it_reads_what_was_written(played):
    """What is stored comes back in the model's words, all of it."""
    model = played.model
    world = model.first()
    for told in played.told:
        world, _ = model.step(world, told.step.action)

    assert world.stores == played.oracle.read()


def test_what_has_not_changed_is_the_same_object(played):
    """A slot that nobody has written to is not built again."""
    before = played.oracle.read()
    meddle(played, LEDGER_FILE, "UPDATE intents SET attempts = 2 WHERE key = 'k2'")
    after = played.oracle.read()

    assert (True, 2) == (before.slots[0] is after.slots[0], after.slots[1].intent.attempts)


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE intents SET digest = 'd' WHERE key = 'k2'", "under the digest of something else"),
        ("UPDATE intents SET payload = '{\"room\"' WHERE key = 'k2'", "damaged: "),
        ("UPDATE intents SET payload = '[1]' WHERE key = 'k2'", "[1] under the digest of something else"),
    ],
)
def test_a_payload_under_a_wrong_digest_is_seen(played, statement, says):
    """It computes the digest of what is stored, and believes no column."""
    meddle(played, LEDGER_FILE, statement)

    assert says in played.oracle.read().slots[1].intent.digest


@pytest.mark.parametrize(
    "change", ["signature = 'forged'", "expiry_ms = expiry_ms + 1", "revision = 2", "approver = 'nobody'"]
)
def test_a_forged_signature_is_seen(played, change):
    """It checks the approver's signature over what is stored; any change of it is a forgery."""
    genuine = played.oracle.read().slots[1].approval
    meddle(played, LEDGER_FILE, f"UPDATE approvals SET {change} WHERE key = 'k2'")  # noqa: S608 - our own words
    forged = played.oracle.read().slots[1].approval

    assert (True, False, Grant.GRANTED) == (genuine.authentic, forged.authentic, forged.status)


def test_an_effect_of_another_payload_is_seen(played):
    """It reads what the sink did, not what it was asked to do."""
    meddle(played, SINK, 'UPDATE effects SET payload = \'{"room":"102"}\'')

    assert '{"room":"102"}' == played.oracle.read().slots[0].effects[0].digest


def test_a_receipt_that_the_sink_does_not_know_is_seen(played):
    """A completed intent whose receipt names no effect carries no number of one."""
    meddle(played, LEDGER_FILE, "UPDATE intents SET receipt = 'r-99' WHERE key = 'k1'")
    intent = played.oracle.read().slots[0].intent

    assert (State.COMPLETED, -1) == (intent.state, intent.receipt)


@pytest.mark.parametrize(
    ("store", "statement"),
    [
        (SINK, "INSERT INTO keys VALUES ('k1-again', 1, 0, 0)"),
        (SINK, "INSERT INTO effects (key, digest, payload, token, at_ms) VALUES ('K1', 'd', '{}', 1, 0)"),
        (LEDGER_FILE, "UPDATE intents SET key = 'k3' WHERE key = 'k2'"),
    ],
)
def test_a_stray_key_is_seen(played, store, statement):
    """Rows under a key that nobody used are no rows of nobody."""
    meddle(played, store, statement)

    with pytest.raises(ValueError, match="there are rows under keys that nobody used"):
        played.oracle.read()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'{"keys": {"k1": {"tok', "the checkpoint is torn"),
        (b"[]", "the checkpoint is torn"),
        (json.dumps({"version": 1, "keys": {"k9": {"token": 1, "receipt": ""}}}).encode(), "nobody used: k9"),
    ],
)
def test_a_torn_or_stray_checkpoint_is_seen(played, content, says):
    """A checkpoint that cannot be read, or speaks of a key that nobody used, is told."""
    played.medium.folder.joinpath(*CHECKPOINT_FILE).write_bytes(content)

    with pytest.raises(ValueError, match=says):
        played.oracle.read()


@pytest.mark.parametrize("name", [LEDGER_FILE, SINK])
def test_a_damaged_database_is_told(played, name):
    """A store that is no database any more is a finding, not a traceback."""
    path = played.medium.folder / name
    path.write_bytes(b"x" * path.stat().st_size)

    with pytest.raises(DamagedError):
        played.oracle.read()


ALLOWED_FROM_BENCH = {"APPROVER_KEYS", "PAYLOADS", "SINK_FILE", "key_name"}
"""What was handed to the subject, and where: names and files, no code that a dispatcher runs."""


def shared_code(source: str) -> set[str]:
    """What ``source`` imports that a dispatcher or a sink runs, too."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.Import):
            found |= {name for name in names if name.split(".")[0] in {"impl", "rfc8785"}}
        elif isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in {"impl", "rfc8785"}:
            found |= {f"{node.module}.{name}" for name in names}
        elif isinstance(node, ast.ImportFrom) and node.module == "stateful.bench":
            found |= set(names) - ALLOWED_FROM_BENCH
    return found


def test_it_shares_no_code_with_the_subject():
    """It imports nothing of the dispatcher, and of the bench only what was handed in."""
    assert set() == shared_code(Path(stateful.oracle.__file__).read_text("utf-8"))


@pytest.mark.parametrize(
    "source",
    ["from impl.sqlite import Ledger", "import impl.approvals", "def f():\n    from stateful.bench import Bench"],
)
def test_shared_code_is_found(source):
    """The rule has teeth: code of the subject is found, inside a function too."""
    assert shared_code(source)

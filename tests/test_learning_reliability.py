"""The lesson, run as a learner runs it, and shown to be able to fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from examples.harness import reliability

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory):
    """The lesson in an interpreter and a session of its own, with a temporary folder that is watched."""
    folder = tmp_path_factory.mktemp("lesson")
    process = subprocess.Popen(
        [sys.executable, "-m", "examples.harness.reliability"],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    stdout, _ = process.communicate(timeout=300)
    return process, json.loads(stdout), folder


def test_all_is_as_expected(run) -> None:
    """The lesson ends with 0, and its document has these fields and no others."""
    process, found, _folder = run

    assert 0 == process.returncode
    assert set(reliability.EXPECTED) == set(found)


def test_an_unapproved_booking_has_no_effect(run) -> None:
    """A booking that nobody approved is refused, and the sink has no effect."""
    assert {"answer": "refused", "actual_effects": 0} == run[1]["unapproved"]


def test_the_crash_was_real(run) -> None:
    """The first worker was ended by SIGKILL after the sink had committed and before its checkpoint."""
    assert -signal.SIGKILL == run[1]["crash_exit"]
    assert {"actual_effects": 1, "checkpoint": None} == run[1]["crash"]


def test_the_retry_is_replayed(run) -> None:
    """A fresh interpreter gets the first receipt, the sink has one effect, and the checkpoint is written."""
    found = run[1]

    assert "replayed" == found["restart"]
    assert 1 == found["actual_effects"]
    assert found["first_receipt"] == found["receipt"]
    assert "r-1" == found["receipt"]
    assert {"token": 2, "receipt": "r-1"} == found["checkpoint"]
    assert False is found["detected"]


def test_a_changed_key_is_detected(run) -> None:
    """A changed retry key books twice, and the check by content sees it."""
    keys = ["booking-17", "booking-17-second-try"]

    assert {"actual_effects": 2, "detected": True, "keys": keys} == run[1]["changed_key"]


def test_a_timeout_is_unknown_and_repeated(run) -> None:
    """An attempt that acted and was not heard is unknown, sent again under the same key, and had one effect."""
    expected = {
        "after_50_ms": "unknown",
        "keys_sent": ["booking-17", "booking-17"],
        "answer": "replayed",
        "receipt": "r-1",
        "actual_effects": 1,
    }

    assert expected == run[1]["timeout"]


def test_nothing_waits(monkeypatch, tmp_path) -> None:
    """Timeouts and waits pass in virtual time: the chapter of a timeout has no way to sleep."""
    monkeypatch.setattr("time.sleep", None)
    monkeypatch.setattr("selectors.DefaultSelector", None)

    assert 1 == reliability.a_timeout_after_the_send(tmp_path)["timeout"]["actual_effects"]


def test_a_cancellation_lasts(run) -> None:
    """A cancelled attempt cleaned up, and after a restart nothing can start the effect."""
    expected = {
        "answer": "cancelled",
        "cleanup_ran": True,
        "attempts_cancelled": 1,
        "after_restart": {"cancel": "replayed", "run": "cancelled", "claim": "refused", "dispatch": "refused"},
        "actual_effects": 0,
    }

    assert expected == run[1]["cancellation"]


def test_nothing_is_left_behind(run) -> None:
    """No temporary folder is left, and no process of the lesson's session."""
    process, _found, folder = run

    assert [] == list(folder.iterdir())
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_the_folder_goes_when_the_lesson_fails(tmp_path, monkeypatch) -> None:
    """A chapter that breaks off leaves no temporary folder either."""
    seen = []

    def broken(folder: Path) -> dict[str, object]:
        folder.mkdir()
        seen.append(folder)
        raise LookupError("torn page")

    monkeypatch.setattr(reliability.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(reliability, "CHAPTERS", (broken,))
    with pytest.raises(LookupError):
        reliability.main([])

    assert 1 == len(seen)
    assert [] == list(tmp_path.iterdir())


def test_another_result_exits_with_1(monkeypatch, capsys) -> None:
    """A result other than the expected one is printed all the same, and the exit code says so."""
    monkeypatch.setattr(reliability, "CHAPTERS", (lambda _folder: {"actual_effects": 2},))

    assert 1 == reliability.main([])
    assert {"actual_effects": 2} == json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("payloads", "twice"),
    [
        ([], False),
        (['{"room": 1}'], False),
        (['{"room": 1}', '{"room": 2}'], False),
        (['{"room": 1, "night": 2}', '{"night": 2, "room": 1}'], True),
    ],
)
def test_the_check_goes_by_content(payloads: list[str], twice: bool) -> None:
    """Two effects are one booking made twice if their contents are equal, in whatever order, under whatever keys."""
    effects = [(f"key-{n}", payload, f"r-{n}") for n, payload in enumerate(payloads)]

    assert twice is reliability.booked_twice(effects)

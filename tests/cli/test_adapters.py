"""``survives check``, ``table`` and ``new-adapter`` on systems out of process: what is read, and the exit status."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from model.claims import CLAIMS
from stateful.foreign import catalogue, examine
from tests.foreign.scripts import PREAMBLE, QUICK

ROOT = Path(__file__).parents[2]
HANGS = """
hello(claims=CLAIMS[:1])
def start(request):
    if request["with"]["payload"]["guest"]["nights"] == 3:
        with open("standing", "w") as out: out.write(f"{os.getpid()} {folder}")
        hear()
    return send(request)
serve(start)
"""
"""A system that answers nothing to another payload."""
NEEDS_OTHER = '# /// script\n# requires-python = "<3"\n# ///\n'


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Examinations of the few orders that the tests are about."""
    named = re.compile(
        "once|repeated|another payload after success|killed (before|after) the send|killed .* 2 of start"
    )

    def orders(hello, recipe):
        return [o for o in catalogue.orders(hello, recipe) if named.fullmatch(o.name)]

    monkeypatch.setattr(examine, "orders", orders)


@pytest.fixture
def quick(survives):
    """A small system in the current folder."""
    Path("quick.py").write_text(PREAMBLE + QUICK)
    return "quick.py"


def test_a_file_that_holds_what_it_claims_survives(survives, quick):
    """Status 0; a line a claim that was made, the others by name, and the bound."""
    said = survives("check", quick, "honest", "at-most-once,progress:operator")
    lines = said.out.splitlines()

    assert (0, "") == (said.status, said.err)
    assert "tiny, driven by quick.py honest at-most-once,progress:operator" == lines[0]
    assert "holds        A call has at most one effect. (5 orders, of which 2 end waiting for an operator)" in lines
    assert (
        "holds        Every accepted call comes to an end. [operator] (5 orders, of which 2 end waiting for an oper"
        in said.out
    )
    assert any(line.startswith("unclaimed    effect-kept, stable-id,") for line in lines)
    assert lines[-1].startswith("SURVIVED 2 hold, 15 unclaimed; 5 orders, 10 process starts, 0 statements swept; ")


def test_a_command_that_breaks_a_claim_is_violated(survives, quick):
    """Status 1; the story, and the command that replays it, which comes out the same."""
    said = survives("check", "--", sys.executable, quick, "sends again", "at-most-once")
    (replay,) = [line.split("survives replay ")[1] for line in said.out.splitlines() if "  replay:  " in line]
    again = survives("replay", replay, "--times", 2)
    honest = survives("replay", replay, "--subject", f"{quick} honest at-most-once")

    assert (1, 1, 0) == (said.status, again.status, honest.status)
    assert "violated     A call has at most one effect. (5 orders)" in said.out
    assert (
        "at-most-once: k1 was sent 2 times: by w1, by w9\n  1  w1: start k1 p1, killed after the send: killed"
        in said.out
    )
    assert "  seen again 5 times of 5\n" in said.out
    assert "expected violated, and it came out as violated 2 times of 2" in again.out
    assert "expected violated, and it came out as holds" in honest.out


def test_the_json_is_whole(survives, quick):
    """One document: each claim once, its end and its order, and what depends on the machine under one key."""
    said = survives("check", quick, "sends again", "at-most-once,approval-needed", "--json")
    ends = {row["id"]: row["status"] for row in said.json["claims"] if row["status"] != "unclaimed"}
    broken = said.json["claims"][0]["violation"]

    assert (1, "survives-claims", 1, list(CLAIMS)) == (
        said.status,
        said.json["format"],
        said.json["version"],
        [row["id"] for row in said.json["claims"]],
    )
    assert {"at-most-once": "violated", "approval-needed": "unsupported"} == ends
    assert (["w1: start k1 p1, killed after the send"], True) == (broken["steps"], Path(broken["trace"]).exists())
    assert {"holds": 0, "violated": 1, "unsupported": 1, "unclaimed": 15, "unknown": 0, "vacuous": 0} == said.json[
        "totals"
    ]
    assert {"seconds"} == said.json["timing"].keys()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("hello(version=2); hear()", "TROUBLE: line 1: it speaks version 2 of the protocol"),
        ("hello(); hear(); write('hm\\n'); hear()", "TROUBLE: line 2 of its standard output is noise"),
        ("hello()\nserve(lambda r: {'outcome': 'pending'})", "TROUBLE: a call never came to its effect"),
    ],
)
def test_what_cannot_be_judged_is_unknown(survives, body, says):
    """Status 3, and why."""
    Path("x.py").write_text(PREAMBLE + body)
    said = survives("check", "x.py")

    assert (3, "", True) == (said.status, said.err, says in said.out)
    assert "UNKNOWN" in said.out


def test_a_file_that_is_not_executable_is_told(survives):
    """A path is taken for a command, and told that it is none."""
    Path("plain").write_text("no program")
    said = survives("check", "--", "./plain")

    assert (3, True) == (
        said.status,
        "TROUBLE: './plain' cannot be started: Permission denied; check the" in said.out,
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["check", "quick.py", "honest", "at-most-once", "--mistake", "M002"], "no seeded mistakes; drop the option"),
        (["check", "quick.py", "honest", "at-most-once", "--contracts", "fencing=none"], "has its own contracts"),
        (["check", "quick.py", "--patience", "0"], "0.0 is not in the range"),
        (["table", "nothing"], "there is no adapter 'nothing'; one of agent_once,"),
        (["new-adapter", "my-queue"], "'my-queue' is no module's name; use letters, digits and _, such as my_queue"),
        (["new-adapter", "class"], "'class' is no module's name"),
        (["new-adapter", "../x"], "'../x' is no module's name"),
        (["new-adapter", "quick"], "quick.py is there already; choose another name, or remove it"),
        (["new-adapter", "x", "--folder", "nowhere"], "'nowhere' does not exist"),
    ],
)
def test_wrong_use_is_told(survives, quick, arguments, says):
    """Status 2, and one message that says what is right."""
    before = Path(quick).read_text()
    said = survives(*arguments)

    assert (2, "", True) == (said.status, said.out, says in " ".join(said.err.split())), said.err
    assert before == Path(quick).read_text()


def test_what_new_adapter_writes_survives(survives):
    """The skeleton runs as it stands and holds what it claims, before its statements too."""
    wrote = survives("new-adapter", "my_queue")
    said = survives("check", "my_queue.py")

    assert (0, "wrote my_queue.py; try it with: survives check my_queue.py\n") == (wrote.status, wrote.out)
    assert (0, "my_queue 0, driven by my_queue.py") == (said.status, said.out.splitlines()[0])
    assert "SURVIVED 4 hold, 13 unclaimed; 6 orders" in said.out
    assert "NAME" not in Path("my_queue.py").read_text()


def test_a_table_of_one_system(survives, quick):
    """Status 0 whatever came out: a table judges, and is not a check; the page and the JSON say the same."""
    said = survives("table", quick, "--json", "--html", "page.html")
    ((row,), page) = (said.json, Path("page.html").read_text())

    assert (3, "quick.py") == (said.status, row["adapter"])
    assert "its last words: 'IndexError: list index out of range'" in row["troubles"][0]
    assert ("<html" in page, "http://" in page, "https://" in page, "quick.py" in page) == (True, False, False, True)


@pytest.mark.parametrize("form", [[], ["--json"], ["--markdown"]])
def test_a_table_says_what_came_of_each(survives, quick, form):
    """A system that breaks its claim was judged, and so the status is 0."""
    Path("liar.py").write_text(
        (PREAMBLE + QUICK).replace("sys.argv[1]", "'sends again'").replace("sys.argv[2]", "'at-most-once'")
    )
    said = survives("table", "liar.py", *form)

    assert (0, "") == (said.status, said.err)
    assert "violated" in said.out
    assert {"--json": "[", "--markdown": "| claim | tiny |"}.get("".join(form), "tiny, driven by liar.py") == (
        said.out.splitlines()[0]
    )


def test_a_table_says_which_could_not_be_judged(survives):
    """Status 3, and the row says that its environment cannot be made, and why."""
    Path("x.py").write_text(NEEDS_OTHER)
    said = survives("table", "x.py")
    as_json = survives("table", "x.py", "--json")

    assert (3, 3) == (said.status, as_json.status)
    assert re.search(r"x\.py: not judged: \S*x\.py: needs Python <3, and this is 3\.", said.out.splitlines()[-1])
    assert ("unknown", []) == (as_json.json[0]["status"], as_json.json[0]["claims"])
    assert "needs Python <3" in as_json.json[0]["troubles"][0]


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here")
def test_a_system_that_is_no_python_survives(survives):
    """The example in JavaScript speaks the protocol by itself, and holds what it claims."""
    said = survives("check", "--json", "--", "node", ROOT / "examples" / "adapters" / "toy.mjs")

    assert (0, "toy.mjs", 4) == (said.status, said.json["system"], said.json["totals"]["holds"])


def test_json_of_a_table_is_one_document(survives, quick):
    """What several systems came to is one list, in the order in which they were named."""
    for name in ("a.py", "b.py"):
        Path(name).write_text(NEEDS_OTHER)
    said = survives("table", "b.py", "a.py", "--json")

    assert ["b.py", "a.py"] == [row["adapter"] for row in json.loads(said.out)]


def test_whoever_ends_it_leaves_nothing(started, tmp_path):
    """SIGTERM in the middle of an order that hangs: status 3 at once, no process of the system, none of its folders."""
    os.mkfifo(tmp_path / "standing")
    (tmp_path / "hangs.py").write_text(PREAMBLE + HANGS)
    process = started("from stateful.cli import main; main()", "check", "hangs.py")
    with Path(tmp_path / "standing").open() as standing:
        pid, folder = standing.read().split()
    process.terminate()
    out, err = process.communicate(timeout=30)

    assert (3, "") == (process.returncode, err)
    assert "TROUBLE: interrupted after" in out
    assert (False, False) == (Path(f"/proc/{pid}").exists(), Path(folder).parent.exists())


def test_whoever_ends_a_table_ends_all_of_it(started, tmp_path):
    """SIGTERM at the first system: the second is not begun, and the table tells what it has."""
    os.mkfifo(tmp_path / "standing")
    (tmp_path / "hangs.py").write_text(PREAMBLE + HANGS)
    (tmp_path / "second.py").write_text("print('begun', file=open('begun', 'w'))\n")
    process = started("from stateful.cli import main; main()", "table", "hangs.py", "second.py", "--markdown")
    with Path(tmp_path / "standing").open() as standing:
        standing.read()
    process.terminate()
    out, _ = process.communicate(timeout=30)

    assert (3, False) == (process.returncode, (tmp_path / "begun").exists())
    assert "Trouble: interrupted after" in out

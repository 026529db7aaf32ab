"""What docs/protocol.md says that is said, is said."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from stateful.commands.foreign import How, check_adapter
from stateful.foreign import examine
from stateful.foreign.facts import OUTCOMES
from stateful.foreign.order import Order
from tests.foreign.bad import ANSWERING, HELD
from tests.foreign.scripts import PREAMBLE

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"
HEAD = "| the adapter | what is said |\n|---|---|\n"
NEEDS = '# /// script\n# dependencies = ["no-such-thing==0"]\n# ///\n'
LEAVES = "subprocess.Popen(['sleep', '600'], start_new_session=True)\nserve(send)"
ADAPTERS = {
    "prints noise on its standard output": HELD + "write('hello\\n'); hear()",
    "floods it": ANSWERING + "write('{}\\n' * 66); hear()",
    "answers twice, late or about another request": HELD
    + "say(id=1, outcome='done'); say(id=1, outcome='done'); hear()",
    "speaks another version": "hello(version=2); hear()",
    "does not answer": "hear(); hear()",
    "dies by itself": HELD + "raise ValueError('...')",
    "leaves a process behind in another session": "hello(claims=CLAIMS[1:])\n" + LEAVES,
    "cannot be started, or its environment not be made": NEEDS,
}


def table() -> dict[str, str]:
    """The page's last table."""
    rows = PAGE.read_text("utf-8").partition(HEAD)[2].partition("\n\n")[0].splitlines()
    return dict(row.strip("|").strip().split(" | ") for row in rows)


def pattern(quoted: str) -> str:
    """What matches a quoted message: how many processes, the patience and what is left out may differ."""
    return re.escape(quoted).replace("34", r"\d+").replace("60\\ s", r"0\.3 s").replace(r"\.\.\.", ".*")


def test_each_row_has_an_adapter():
    """The tests below leave out no row of the page."""
    assert list(ADAPTERS) == list(table())


@pytest.mark.parametrize("row", ADAPTERS)
def test_what_the_page_quotes_is_said(nothing_is_left, monkeypatch, capsys, tmp_path, row):
    """Each message of the page is what a user reads; the exit status is 3 where a claim could not be judged."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setattr(examine, "orders", lambda hello, recipe: [Order("once", recipe.steps)])
    Path("x.py").write_text(PREAMBLE + ADAPTERS[row] if ADAPTERS[row] is not NEEDS else NEEDS)
    patience = 0.3 if row == "does not answer" else 60
    how = How(1, slow=False, sweep=False, files=False, patience=patience)
    status = check_adapter(("x.py",), tmp_path / "out", how, as_json=False)
    said = capsys.readouterr().out
    marked = "LEFT BEHIND" if "LEFT BEHIND" in table()[row] else "TROUBLE"

    assert re.search(pattern(table()[row]), said), said
    assert (0 if marked == "LEFT BEHIND" else 3, True) == (status, f"  {marked}: " in said)


def said_on_the_page() -> list[tuple[str, dict]]:
    """Each message that the page shows, and who says it."""
    blocks = re.findall(r"```text\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    lines = re.split(r"\n(?=[<>])", "\n".join(block.strip() for block in blocks))
    return [("toAdapter" if line[0] == ">" else "fromAdapter", json.loads(line[1:])) for line in lines]


@pytest.mark.parametrize(("name", "message"), said_on_the_page())
def test_what_the_page_shows_is_in_the_schema(name, message):
    """Each message of the page is one that the schema knows."""
    schema = json.loads((PAGE.parents[1] / "stateful" / "foreign" / "protocol.schema.json").read_text("utf-8"))
    validator = Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": schema["$defs"]})

    assert [] == [error.message for error in validator.iter_errors(message)]


def test_the_page_names_what_can_be_asked():
    """The page has a row for each request of a called system, and one for each outcome, and no other."""
    rows = {
        word
        for row in re.findall(r"^\| (`.*?) \|", PAGE.read_text("utf-8"), re.MULTILINE)
        for word in [row.strip("`")]
    }
    asked = {"start", "recover", "observe", "decide", "cancel", "reconcile", "advance", "close"}

    assert rows == {"do", "outcome", *asked, *OUTCOMES}

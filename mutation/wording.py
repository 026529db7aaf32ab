"""Mutants that reword a sentence: a message or a statement in SQL, which has one meaning in either case.

What a message says to whom is a matter of tests of messages, not of arithmetic, so these are neither run nor counted.
A literal without a space is a word of the protocol, and counted.
"""

from __future__ import annotations

import io
import json
import textwrap
import tokenize
from pathlib import Path


def _tokens(lines: list[str], name: str) -> list[str]:
    """The tokens of a function, whatever it is called."""
    source = textwrap.dedent("\n".join(lines)).replace(name, "f")
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    return [t.string for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type not in skipped]


def is_reworded(before: list[str], after: list[str]) -> bool:
    """Whether two lists of tokens differ in one literal alone, which is a sentence."""
    pairs = [(a, b) for a, b in zip(before, after, strict=False) if a != b]
    if len(before) != len(after) or len(pairs) != 1:
        return False
    old, new = pairs[0]
    return old[-1] in "\"'" and new[-1] in "\"'" and " " in old


def reworded(path: Path) -> set[str]:
    """The names of such mutants in a module, given its file of results, without the module's name."""
    mutated = path.with_suffix("")
    lines = mutated.read_text().splitlines()
    spans = json.loads(Path(f"{mutated}.spans").read_text())["spans"]
    tokens = {name: _tokens(lines[first - 1 : last], name) for name, (first, last) in spans.items()}
    return {
        name
        for name, found in tokens.items()
        if "__mutmut_" in name and is_reworded(tokens[name.rpartition("__mutmut_")[0] + "__mutmut_orig"], found)
    }


def difference(path: Path, name: str) -> str:
    """What a mutant changes, in a line or a few: the tokens' lines before and after."""
    mutated = path.with_suffix("")
    lines = mutated.read_text().splitlines()
    spans = json.loads(Path(f"{mutated}.spans").read_text())["spans"]
    first, last = spans[name]
    original = name.rpartition("__mutmut_")[0] + "__mutmut_orig"
    start, end = spans[original]
    old, new = lines[start - 1 : end], lines[first - 1 : last]
    gone = [f"- {line.strip()}" for line in old if line not in new and original not in line]
    come = [f"+ {line.strip()}" for line in new if line not in old and name not in line]
    return "\n".join(gone + come)

"""The copy that is mutated, under ``build/``: what is mutated never stands in the working tree."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORK = ROOT / "build" / "mutation"
MUTANTS = WORK / "mutants"
COPIED = ("model", "impl", "stateful", "tests", "examples", "docs", "benchmarks", "pyproject.toml", "README.md")
JUDGES = ("stateful", "tests", "examples", "pyproject.toml")
"""What decides whether a mutant dies, besides itself."""
PLUGIN = "mutation_plugin.py"


def _listed() -> set[str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *COPIED]
    out = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return {name for name in out.split("\0") if name and (ROOT / name).is_file()}


def refresh() -> None:
    """Bring the copy up to date. A file that is the same keeps its time, by which mutmut knows what has changed."""
    listed = _listed()
    pairs = {name: (ROOT / name).read_bytes() for name in listed}
    pairs[PLUGIN] = (ROOT / "mutation" / "plugin.py").read_bytes()
    for top in COPIED:
        for old in (WORK / top).rglob("*"):
            if old.is_file() and str(old.relative_to(WORK)) not in pairs:
                old.unlink()
        if top not in {"model", "impl"}:
            shutil.rmtree(MUTANTS / top, ignore_errors=True)
    for name, content in pairs.items():
        copy = WORK / name
        if not copy.exists() or copy.read_bytes() != content:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)


def judges_hash() -> str:
    """A hash of all that judges a mutant: where it changes, what survived is tried again."""
    found = hashlib.sha256()
    for name in sorted(n for n in _listed() if n.split("/")[0] in JUDGES):
        found.update(name.encode() + b"\0" + hashlib.sha256((ROOT / name).read_bytes()).digest())
    return found.hexdigest()

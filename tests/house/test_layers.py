"""The house rules that a linter does not know: imports run downward, and everything public says what it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = ("model", "impl", "stateful", "examples", "tests")
"""From the bottom up: each may import itself and what stands before it."""
ALLOWED_ABOVE_STATEFUL = {"examples": {"model", "impl", "stateful", "examples"}, "tests": set(LAYERS)}

IMPURE = {
    "asyncio",
    "concurrent",
    "datetime",
    "io",
    "logging",
    "multiprocess",
    "multiprocessing",
    "os",
    "pathlib",
    "random",
    "secrets",
    "select",
    "shutil",
    "signal",
    "socket",
    "sqlite3",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "time",
    "uuid",
}
"""What the model must never know: files, clocks, chance, processes."""


def modules_of(layer: str) -> list[Path]:
    return sorted((ROOT / layer).rglob("*.py"))


def imported(source: str, package: str = "") -> Iterator[str]:
    """The full names of the modules that ``source`` imports, wherever in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield f"{package}.{node.module or ''}" if node.level else str(node.module)


def upward(layer: str, source: str) -> set[str]:
    """The imports of ``source`` that run upward from ``layer``."""
    allowed = ALLOWED_ABOVE_STATEFUL.get(layer) or set(LAYERS[: LAYERS.index(layer) + 1])
    names = set(imported(source, layer))
    return {name for name in names if name.split(".")[0] in set(LAYERS) - allowed}


def impure(source: str) -> set[str]:
    """The imports of ``source`` that a pure module must not have."""
    return {name for name in imported(source) if name.split(".")[0] in IMPURE}


def undocumented(source: str) -> list[str]:
    """What ``source`` has of public top-level functions and classes without a docstring; ``""`` is the module."""
    tree = ast.parse(source)
    documented = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    bare = [
        node.name
        for node in tree.body
        if isinstance(node, documented) and not node.name.startswith("_") and not ast.get_docstring(node)
    ]
    return bare if ast.get_docstring(tree) else ["", *bare]


ALL = [(layer, path) for layer in LAYERS[:4] for path in modules_of(layer)]
PRODUCT = [path for layer, path in ALL if layer != "examples"]


def _relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_tree_is_there() -> None:
    """The rules look at something: the model and the dispatcher are found."""
    names = {_relative(path) for _, path in ALL}

    assert {"model/step.py", "impl/protocol.py"} <= names


@pytest.mark.parametrize(("layer", "path"), ALL, ids=[_relative(path) for _, path in ALL])
def test_imports_run_downward(layer: str, path: Path) -> None:
    """A module imports its own layer and those below it."""
    assert set() == upward(layer, path.read_text())


@pytest.mark.parametrize("path", modules_of("impl"), ids=_relative)
def test_the_subject_never_sees_the_oracle(path: Path) -> None:
    """A dispatcher shares the model's words and contracts, never its transition function, properties or worlds."""
    oracle = {"model.step", "model.properties", "model.possible"}

    assert set() == oracle & set(imported(path.read_text()))


@pytest.mark.parametrize("path", modules_of("model"), ids=_relative)
def test_the_model_is_pure(path: Path) -> None:
    """A module of the model imports nothing that knows a file, a clock, chance or a process."""
    assert set() == impure(path.read_text())


@pytest.mark.parametrize("path", PRODUCT, ids=_relative)
def test_everything_public_says_what_it_is(path: Path) -> None:
    """Every module, and every public function and class at its top, has a docstring."""
    assert [] == undocumented(path.read_text())


@pytest.mark.parametrize(
    ("layer", "source"),
    [
        ("model", "from impl import protocol"),
        ("model", "def late():\n    import stateful.cli"),
        ("impl", "from stateful.cli import main"),
        ("impl", "import tests.model"),
        ("stateful", "import examples.harness"),
    ],
)
def test_an_upward_import_is_found(layer: str, source: str) -> None:
    """The rule has teeth: an import upward is found, inside a function too."""
    assert upward(layer, source)


@pytest.mark.parametrize("source", ["import os.path", "from time import sleep", "if x:\n    import random as r"])
def test_an_impure_import_is_found(source: str) -> None:
    """The rule has teeth: a clock, chance or the system is found under any spelling."""
    assert impure(source)


def test_a_bare_name_is_found() -> None:
    """The rule has teeth: a module, a class and a function without docstrings are found, private ones are not."""
    assert ["", "A", "b"] == undocumented("class A: pass\nasync def b(): pass\ndef _c(): pass")

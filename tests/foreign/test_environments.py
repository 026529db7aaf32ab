"""Environments of adapters: what a script says that it needs, and what is made of it, or not, once."""

from __future__ import annotations

import sys
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Thread

import pytest

from stateful.foreign import environment
from stateful.foreign.environment import EnvironmentFailedError, Metadata, metadata_of, python_for

NONE = Metadata()
NEEDS = '# /// script\n# dependencies = ["no-such-thing==0"]\n# ///\n'
EMBEDDED = '''\
# /// script
# embedded-csharp = """
# /// <summary>
# /// text
# ///
# /// </summary>
# public class MyClass { }
# """
# dependencies = ["a"]
# ///
'''


@pytest.fixture
def script(tmp_path):
    """A script with this text."""

    def write(text: str | bytes) -> Path:
        path = tmp_path / "x.py"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """An empty cache of environments, and an index that cannot be reached."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_OFFLINE", "1")
    return tmp_path / "cache" / "survives" / "environments"


@pytest.mark.parametrize(
    ("text", "metadata"),
    [
        ("", NONE),
        ("print('no metadata')\n", NONE),
        ("# /// script\n# ///\n", NONE),
        ('# /// script\n# dependencies = ["a==1", "b>=2"]\n# ///\n', Metadata(("a==1", "b>=2"))),
        ('# /// script\n# requires-python = ">=3.10"\n# dependencies = []\n# ///\n', Metadata((), ">=3.10")),
        (
            '"""Words."""\nimport os\n\n# /// script\n#\n# dependencies = [\n#   "a",\n# ]\n# ///\nos\n',
            Metadata(("a",)),
        ),
        ('# /// other\n# dependencies = ["a"]\n# ///\n', NONE),
        ('# /// other\n# x = 1\n# ///\n\n# /// script\n# dependencies = ["a"]\n# ///\n', Metadata(("a",))),
        ('# /// script\r\n# dependencies = ["a"]\r\n# ///\r\n', Metadata(("a",))),
        ('\ufeff# /// script\n# dependencies = ["a"]\n# ///\n', Metadata(("a",))),
        ('# /// script\n# dependencies = ["a"]\n# [tool.x]\n# y = 1\n# ///\n', Metadata(("a",))),
        (EMBEDDED, Metadata(("a",))),
    ],
)
def test_metadata_is_read_as_pep_723_says(script, text, metadata):
    """The block of type script is found wherever it stands, and whatever else it holds."""
    assert metadata == metadata_of(script(text))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (NEEDS + "\n" + NEEDS, "has 2 blocks of script metadata; leave one"),
        ("# /// script\n# dependencies = [\n# ///\n", "its script metadata is wrong: Invalid value (at "),
        (
            '# /// script\n# dependencies = "a"\n# ///\n',
            "is wrong: dependencies is 'a', not a list of strings; see PEP 723",
        ),
        ("# /// script\n# dependencies = [1]\n# ///\n", "is wrong: dependencies is [1], not a list of strings"),
        ("# /// script\n# requires-python = 3\n# ///\n", "is wrong: requires-python is 3, not a string; see PEP 723"),
        ('# /// script\n# requires-python = "3.x"\n# ///\n', "is wrong: Invalid specifier: '3.x'; see PEP 723"),
        (
            '# /// script\n# dependencies = ["a"]\n',
            "its script metadata is no block; begin each of its lines with # and a",
        ),
        ("# /// script\n#dependencies = []\n# ///\n", "its script metadata is no block; begin each of its lines"),
        (
            b"\xff\xfe",
            "cannot be read: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte; name a",
        ),
    ],
)
def test_metadata_that_is_wrong_is_told(script, text, says):
    """What is wrong is told with the file, the reason and the remedy."""
    path = script(text)
    with pytest.raises(EnvironmentFailedError) as failed:
        metadata_of(path)

    assert (f"{path}: ", True) == (str(failed.value)[: len(f"{path}: ")], says in str(failed.value)), failed.value


def test_a_script_that_is_not_there_is_told(tmp_path):
    """A name that is no file's is told as such."""
    with pytest.raises(EnvironmentFailedError) as failed:
        python_for(tmp_path / "x.py")

    assert f"{tmp_path / 'x.py'}: cannot be read: No such file or directory; name a Python file in UTF-8" == str(
        failed.value
    )


@pytest.mark.parametrize("wanted", [">=99", "<3", "==2.7.*", "~=99.1", ">=3.10,<3.11.0a0"])
def test_another_python_is_told(script, cache, wanted):
    """A script that needs another Python is told so, in whichever form it says it, and nothing is made."""
    path = script(f'# /// script\n# requires-python = "{wanted}"\n# dependencies = ["a"]\n# ///\n')
    here = ".".join(map(str, sys.version_info[:3]))
    with pytest.raises(EnvironmentFailedError) as failed:
        python_for(path)

    assert f"{path}: needs Python {wanted}, and this is {here}; run survives with another Python" == str(failed.value)
    assert not cache.exists()


def test_who_needs_nothing_runs_here(script, cache):
    """A script without dependencies runs in this interpreter, and nothing is made."""
    path = script('# /// script\n# requires-python = ">=3.10"\n# ///\n')

    assert (Path(sys.executable), False) == (python_for(path), cache.exists())


def test_a_distribution_that_is_not_there_is_told(script, cache):
    """What the installer says last is told, and nothing half made is left."""
    path = script(NEEDS)
    with pytest.raises(EnvironmentFailedError) as failed:
        python_for(path)

    assert str(failed.value) == (
        f"{path}: its environment cannot be installed: No matching distribution found for no-such-thing==0; "
        "check its dependencies and the index"
    )
    assert [".lock"] == [p.suffix for p in cache.iterdir()]


def made(folder, *_):
    """Make an environment, but for its content."""
    (folder / "bin").mkdir(parents=True)
    (folder / "complete").touch()


def test_two_at_once_make_one_environment(script, cache, monkeypatch):
    """Of two that need the same environment one makes it, and the other waits."""
    path, both, makers, found = script(NEEDS), Barrier(2), [], []

    def make(folder, *_):
        makers.append(folder)
        with pytest.raises(BrokenBarrierError):
            both.wait(0.2)  # nobody else gets here
        made(folder)

    monkeypatch.setattr(environment, "_make", make)
    threads = [Thread(target=lambda: found.append(python_for(path))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 1 == len(makers)
    assert [makers[0] / "bin" / "python"] * 2 == found


def test_what_a_death_has_left_is_made_anew(script, cache, monkeypatch):
    """An environment that is not complete is thrown away."""
    path = script(NEEDS)
    half = cache / metadata_of(path).key / "half"
    half.mkdir(parents=True)
    monkeypatch.setattr(environment, "_run", lambda *_: half.parent.mkdir(exist_ok=True))

    python_for(path)

    assert ["complete"] == [p.name for p in half.parent.iterdir()]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, EnvironmentFailedError])
def test_an_interruption_leaves_nothing(script, cache, monkeypatch, error):
    """Whatever ends the making of an environment, it leaves nothing half made."""
    path = script(NEEDS)

    def run(command, _):
        (cache / metadata_of(path).key).mkdir(parents=True)
        raise error

    monkeypatch.setattr(environment, "_run", run)
    with pytest.raises(error):
        python_for(path)

    assert [".lock"] == [p.suffix for p in cache.iterdir()]


def test_an_installer_that_hangs_is_told(nothing_is_left, script, cache, monkeypatch):
    """An installer that does not end is ended."""
    monkeypatch.setattr(environment, "INSTALL_SECONDS", 0.1)
    monkeypatch.setattr(environment, "_commands", lambda *_: (["sleep", "600"], []))
    path = script(NEEDS)
    with pytest.raises(EnvironmentFailedError) as failed:
        python_for(path)

    assert f"{path}: its environment is not there after 0.1 s; see whether the index can be reached" == str(
        failed.value
    )


def test_a_cache_that_cannot_be_written_is_told(script, cache):
    """The folder is named, why it cannot be written, and how to choose another."""
    cache.parent.parent.write_text("a file")
    with pytest.raises(EnvironmentFailedError) as failed:
        python_for(script(NEEDS))

    assert f"{cache}: cannot be written: Not a directory; name another folder with XDG_CACHE_HOME" == str(
        failed.value
    )


def test_the_same_needs_share_one_environment():
    """An environment is known by what is in it, in whichever order it was named, and not by who asked for it."""
    keys = {Metadata(d, r).key for d, r in ((("a", "b"), ""), (("b", "a"), ">=3.10"))}

    assert (1, True) == (len(keys), Metadata(("a",)).key not in keys)


@pytest.mark.parametrize(
    ("uv", "pip", "words"),
    [
        ("/bin/uv", "23", [["/bin/uv", "venv"], ["/bin/uv", "pip", "install"]]),
        (None, "22.3", [[sys.executable, "-m", "venv"], [sys.executable, "-m", "pip", "--python"]]),
        (None, "22.2.2", [[sys.executable, "-m", "venv"], ["/e/bin/python", "-m", "pip", "install"]]),
        (None, None, [[sys.executable, "-m", "venv"], ["/e/bin/python", "-m", "pip", "install"]]),
    ],
)
def test_an_environment_is_made_with_what_there_is(monkeypatch, uv, pip, words):
    """By uv if it is there, by our pip if it can fill another environment, and else by one of its own."""

    def version(_):
        if pip is None:
            raise environment.PackageNotFoundError
        return pip

    monkeypatch.setattr(environment.shutil, "which", lambda _: uv)
    monkeypatch.setattr(environment, "version", version)
    commands = environment._commands(Path("/e"), ("-r", "a"))

    assert words == [c[: len(w)] for c, w in zip(commands, words, strict=True)]
    assert ["--", "-r", "a"] == commands[1][-3:]
    assert (pip == "22.3") == ("--without-pip" in commands[0])

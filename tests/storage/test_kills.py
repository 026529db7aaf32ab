"""Real deaths agree with the record: a killed process leaves what it had done, for the page cache survives it."""

from __future__ import annotations

import json

import pytest

DIES_AT_EACH_CALL = """
import json, os, pickle, shutil, sys, tempfile
from pathlib import Path
from stateful.boundaries import Gate
from stateful.storage.disk import Disk
from stateful.storage.medium import RecordingMedium
from stateful.storage.ways import Way

class Death:
    # Ends the process inside a storage call, before it is done.
    def __init__(self, at, medium, out):
        self.left, self.medium, self.out = at, medium, out

    def before(self, call, path):
        self.left -= 1
        if not self.left:
            self.out.write_bytes(pickle.dumps((self.medium.log.base, self.medium.log.operations)))
            os._exit(9)

def child(at, folder, out):
    medium = RecordingMedium(folder, way=Way(sys.argv[2]))
    connection = medium.connect(Gate(), folder / "a.sqlite3")
    connection.execute("PRAGMA journal_mode = " + sys.argv[1]).fetchall()
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.execute("PRAGMA wal_autocheckpoint = 4")
    connection.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, text)")
    (folder / "checkpoint").mkdir()
    medium.start_recording()
    medium.recorder.plan = Death(at, medium, out)
    for n in range(3):
        connection.execute("INSERT INTO t VALUES (?, ?)", (n, "x" * 9_000))
        draft = folder / "checkpoint" / "draft"
        medium.files.write_new(draft, b"%d" % n)
        medium.files.rename(draft, folder / "checkpoint" / "real")
    os._exit(0)

def files_in(folder):
    paths = [p for p in folder.rglob("*") if p.is_file() and not p.name.endswith("-shm")]
    return {str(p.relative_to(folder)): p.read_bytes() for p in paths}

deaths, differing = 0, []
root = Path(tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
try:
    for at in range(1, 500):
        folder, out = root / str(at), root / f"{at}.log"
        folder.mkdir()
        pid = os.fork()
        if not pid:
            child(at, folder, out)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if not status:
            break
        assert status == 9, status
        deaths += 1
        base, operations = pickle.loads(out.read_bytes())
        disk = Disk(base)
        for operation in operations:
            disk.apply(operation)
        if disk.files() != files_in(folder):
            differing.append(at)
        shutil.rmtree(folder)
finally:
    shutil.rmtree(root)
print(json.dumps([deaths, differing]))
"""


@pytest.mark.parametrize(("journal", "least"), [("DELETE", 40), ("TRUNCATE", 40), ("PERSIST", 40), ("WAL", 20)])
def test_a_killed_process_leaves_the_log_applied_in_full(in_python, way, journal, least) -> None:
    """At each storage call the process ends inside it: the files are the log so far, nothing of it lost."""
    deaths, differing = json.loads(in_python(DIES_AT_EACH_CALL, journal, way))

    assert [] == differing
    assert deaths >= least

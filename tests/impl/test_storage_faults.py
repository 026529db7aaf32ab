"""The dispatcher when its storage fails: refused, unknown, or stopped, and what each of these leaves behind."""

from __future__ import annotations

import errno
import os
import sqlite3

import pytest

from impl.protocol import Answer, NoAnswerError, Request, Site, StoppedError
from impl.sqlite import (
    CheckpointFile,
    DamagedCheckpointError,
    DamagedStoreError,
    ForkedStoreError,
    Ledger,
    RealFiles,
    SqliteDispatcher,
    SqliteSink,
    UnavailableStoreError,
)
from model.contracts import Contracts, Durability, Limits
from model.words import Kind
from stateful.boundaries import Gate
from stateful.children import Child
from stateful.clock import LogicalClock, SharedTime
from stateful.storage.medium import RecordingMedium
from stateful.storage.plan import Call, FaultPlan, Until

ROOM = {"book": "room"}
REFUSED = Answer(Kind.REFUSED, "ledger.sqlite3: disk is full")
FAILED = Answer(Kind.REFUSED, "ledger.sqlite3: storage failed (disk I/O error)")
MAYBE = Answer(Kind.UNKNOWN, "may have been stored")
NOBODY = 65534


class FailingFiles(RealFiles):
    """Real files, one kind of operation of which fails."""

    fails = ""

    def _ask(self, name):
        if name == self.fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def read(self, path):
        self._ask("read")
        return super().read(path)

    def write_new(self, path, data):
        self._ask("write_new")
        super().write_new(path, data)

    def sync(self, path):
        self._ask("sync")
        super().sync(path)

    def rename(self, source, target):
        self._ask("rename")
        super().rename(source, target)

    def sync_folder(self, folder):
        self._ask("sync_folder")
        super().sync_folder(folder)


class Place:
    """A folder whose SQLite calls can be failed, with a sink and a dispatcher in it."""

    def __init__(self, durability):
        self.medium = RecordingMedium()
        self.folder = self.medium.folder
        self.contracts = Contracts(durability=durability)
        self.files = FailingFiles()
        self.time = SharedTime()
        self.clock = LogicalClock(self.time)
        self.sink = SqliteSink(self.folder / "sink" / "sink.sqlite3", self.connect, self.clock, self.contracts)
        self.dispatcher = self.opened()

    def connect(self, path):
        connection = self.medium.connect(Gate(), path)
        sqlite3.Connection.execute(connection, "PRAGMA busy_timeout = 0")
        return connection

    def opened(self):
        site = Site(
            self.folder,
            "w1",
            self.contracts,
            Limits(),
            self.clock,
            self.files,
            self.sink,
            self.connect,
            {},
            100,
            {},
        )
        return SqliteDispatcher(site)

    def fail(self, call, code=0, until=Until.ONCE, at=1, path=""):
        self.medium.recorder.plan = plan = FaultPlan(at, call, path, code, until)
        return plan

    def mend(self):
        self.medium.recorder.plan = None

    def submitted(self, key="k1"):
        """What a submission comes to with the fault that is planned, and once more without it."""
        first = self.dispatcher.submit(key, ROOM)
        self.mend()
        return first, self.dispatcher.submit(key, ROOM)

    def keys_after_a_crash(self, tmp_path):
        """The keys that a process reads which comes after a crash."""
        for name, data in self.medium.snapshot().items():
            if name.startswith("ledger"):
                (tmp_path / name).write_bytes(data)
        connection = sqlite3.connect(tmp_path / "ledger.sqlite3")
        keys = [key for (key,) in connection.execute("SELECT key FROM intents")]
        connection.close()
        return keys


@pytest.fixture
def place():
    """Places under a durability contract, closed in the end."""
    made = []

    def make(durability=Durability.DELETE_EXTRA):
        made.append(Place(durability))
        return made[-1]

    yield make
    for one in made:
        one.mend()
        one.medium.close()


JOURNALS = pytest.mark.parametrize(
    "durability",
    [Durability.DELETE_EXTRA, Durability.WAL_FULL, Durability.TRUNCATE_FULL, Durability.PERSIST_FULL],
)


@JOURNALS
def test_a_full_disk_is_a_refusal_that_changes_nothing(place, durability):
    """The submission is refused, and the next one finds nothing of it."""
    here = place(durability)
    here.fail(Call.WRITE, sqlite3.SQLITE_FULL)

    assert (REFUSED, Answer(Kind.OK)) == here.submitted()


@JOURNALS
def test_a_sync_that_fails_before_the_commit_is_a_refusal(place, durability, tmp_path):
    """The first sync of a commit fails: nothing is stored, for those who go on and for those who come after a crash."""
    here = place(durability)
    here.fail(Call.SYNC)
    first = here.dispatcher.submit("k1", ROOM)

    assert (FAILED, []) == (first, here.keys_after_a_crash(tmp_path))


def test_a_journal_that_is_gone_when_its_folder_cannot_be_synced_is_unknown(place):
    """SQLite says that the commit failed, and it is stored: a refusal would be a lie."""
    here = place(Durability.TRUNCATE_FULL)
    plan = here.fail(Call.SYNC, at=4)

    assert (MAYBE, Answer(Kind.REPLAYED)) == here.submitted()
    assert 1 == plan.fired


def test_after_an_unknown_commit_the_next_one_writes(place):
    """What was read may not be durable, so that the next transaction makes it so before anybody is told."""
    here = place(Durability.TRUNCATE_FULL)
    here.fail(Call.SYNC, at=4, until=Until.FOR_EVER)
    here.dispatcher.submit("k1", ROOM)
    plan = here.fail(Call.WRITE, at=10_000)
    replayed, written = here.dispatcher.submit("k1", ROOM), plan.counts.total()

    assert (Answer(Kind.REPLAYED), True) == (replayed, written > 0)
    assert (Answer(Kind.REPLAYED), written) == (here.dispatcher.submit("k1", ROOM), plan.counts.total())


def test_a_log_that_cannot_be_synced_at_all_is_unknown(place):
    """The frames stand in the log, and only another write can undo them, which fails as well."""
    here = place(Durability.WAL_FULL)
    here.fail(Call.SYNC, until=Until.FOR_EVER)

    assert (MAYBE, Answer(Kind.OK)) == here.submitted()


def test_without_that_write_a_crash_brings_a_refused_transaction_back(place, tmp_path, monkeypatch):
    """This is why a log whose sync failed is written to again before anything is called refused."""
    monkeypatch.setattr(Ledger, "_touch", lambda self: None)
    here = place(Durability.WAL_FULL)
    here.fail(Call.SYNC)

    assert (FAILED, ["k1"]) == (here.dispatcher.submit("k1", ROOM), here.keys_after_a_crash(tmp_path))


def test_nothing_looks_overdue_where_nothing_can_be_read(place):
    """A reaper that cannot look sees nothing, and does nothing."""
    here = place()
    here.dispatcher.submit("k1", ROOM)
    here.dispatcher.claim("k1")
    here.time.now_ms = 10_000
    seen = len(here.dispatcher.overdue())
    other = sqlite3.connect(here.folder / "ledger.sqlite3", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")

    assert (1, ()) == (seen, here.dispatcher.overdue())
    other.close()


@pytest.mark.parametrize("work", ["apply", "lookup"])
def test_a_sink_that_fails_is_silent_and_names_its_file_in_the_error(place, work):
    """Whether it has acted is not known, so that it has no answer."""
    here = place()
    here.fail(Call.OPEN, until=Until.FOR_EVER)
    with pytest.raises(NoAnswerError, match=r"sink\.sqlite3: cannot be opened for writing"):
        here.sink.apply(Request("k1", ROOM, 1)) if work == "apply" else here.sink.lookup("k1", ROOM, 1)


# -- damage ---------------------------------------------------------------------------------------------------


def damaged(here):
    """The ledger with all but its first page overwritten, under the dispatcher that has it open; and its bytes."""
    here.dispatcher.submit("k1", ROOM)
    here.dispatcher.close()
    path = here.folder / "ledger.sqlite3"
    data = path.read_bytes()
    path.write_bytes(data[:4096] + bytes(n * 7 % 251 for n in range(len(data) - 4096)))
    here.medium.let_go()
    here.dispatcher = here.opened()
    return path, path.read_bytes()


def test_damage_that_is_met_at_work_stops_the_dispatcher(place):
    """The error names the file, and everything after it is refused with the same; not a byte changes."""
    here = place()
    path, data = damaged(here)
    for _ in range(2):
        with pytest.raises(DamagedStoreError, match=r"ledger\.sqlite3: is damaged, or not a database"):
            here.dispatcher.submit("k1", ROOM)

    assert data == path.read_bytes()


def test_a_store_that_was_found_damaged_is_not_touched_again(place):
    """Whoever mends the file under a running process starts it anew: what it has read of it is not to be trusted."""
    here = place()
    path, _ = damaged(here)
    with pytest.raises(DamagedStoreError):
        here.dispatcher.submit("k1", ROOM)
    plan = here.fail(Call.WRITE, until=Until.FOR_EVER)
    with pytest.raises(DamagedStoreError):
        here.dispatcher.cancel("k1")

    assert 0 == plan.counts.total()
    assert path.exists()


@JOURNALS
@pytest.mark.parametrize("left", [b"", None], ids=["emptied", "gone"])
def test_an_empty_ledger_beside_a_checkpoint_is_no_fresh_start(place, durability, left):
    """The checkpoint says that there was one: it is refused, and stays empty."""
    here = place(durability)
    CheckpointFile(here.folder / "checkpoint", here.files).record("k1", 1, "r-1")
    here.dispatcher.close()
    here.medium.let_go()
    path = here.folder / "ledger.sqlite3"
    path.unlink()
    if left is not None:
        path.write_bytes(left)
    with pytest.raises(
        DamagedStoreError, match=r"ledger\.sqlite3: is empty or missing, and the checkpoint beside it"
    ):
        here.opened()

    assert b"" == path.read_bytes()


def test_an_empty_ledger_beside_no_checkpoint_is_a_fresh_start(place):
    """Nobody can tell it from one whose maker died before the schema was there."""
    here = place()
    here.dispatcher.close()
    here.medium.let_go()
    (here.folder / "ledger.sqlite3").write_bytes(b"")

    assert Answer(Kind.OK) == here.opened().submit("k1", ROOM)


def test_a_stop_is_no_plain_exception_of_a_defect():
    """Everything that says that a file cannot be used is a StoppedError, which engines take for a refusal."""
    errors = (DamagedStoreError, DamagedCheckpointError, ForkedStoreError, UnavailableStoreError)

    assert [True] * 4 == [issubclass(error, StoppedError) for error in errors]


# -- forks and permissions ------------------------------------------------------------------------------------


def in_child(work):
    """What a forked child's work returns."""
    with Child(work) as child:
        return child.wait().sent


def test_a_handle_does_not_survive_a_fork(place):
    """The child is told what to do instead; the parent goes on as if nothing had been."""
    here = place()

    def go_on():
        try:
            here.dispatcher.submit("k1", ROOM)
        except ForkedStoreError as error:
            here.dispatcher.close()
            return str(error)
        return "it went on"

    said = in_child(go_on)

    assert f"was opened by process {os.getpid()}, and this is its fork" in said
    assert said.endswith("; open it anew in each process, after the fork")
    assert Answer(Kind.OK) == here.dispatcher.submit("k1", ROOM)


def test_a_child_that_opens_its_own_is_served(place):
    """Only the handle is the parent's; the store is anybody's."""
    here = place()

    assert Answer(Kind.OK) == in_child(lambda: here.opened().submit("k1", ROOM))
    assert Answer(Kind.REPLAYED) == here.dispatcher.submit("k1", ROOM)


@pytest.mark.parametrize("mode", [0o444, 0o555], ids=["the file", "its folder"])
def test_what_may_not_be_written_is_refused(place, mode):
    """A file that may only be read, or a folder that takes no journal, as somebody who is not root meets them."""
    here = place()
    ledger = here.folder / "ledger.sqlite3"
    for path in (here.folder, *here.folder.rglob("*")):
        path.chmod(0o777)
    (ledger if mode == 0o444 else here.folder).chmod(mode)
    before = ledger.read_bytes()

    def submit():
        if os.geteuid() == 0:
            os.setgroups([])
            os.setresuid(NOBODY, NOBODY, NOBODY)
        return here.opened().submit("k1", ROOM)

    answer = in_child(submit)

    assert Kind.REFUSED is answer.kind
    assert "attempt to write a readonly database" in answer.reason
    assert before == ledger.read_bytes()


# -- the checkpoint -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", ["read", "write_new", "sync", "rename"])
def test_a_checkpoint_that_cannot_be_written_is_refused(place, fails):
    """Whoever reads it reads what stood there before."""
    here = place()
    here.dispatcher.submit("k1", ROOM)
    token = here.dispatcher.claim("k1").token
    here.dispatcher.checkpoint("k1", token, "")
    here.files.fails = fails
    answer = here.dispatcher.checkpoint("k1", token, "r-1")
    here.files.fails = ""

    what = "read" if fails == "read" else "written"
    assert Answer(Kind.REFUSED, f"checkpoint.json: cannot be {what} (Input/output error)") == answer
    assert {"k1": {"token": token, "receipt": ""}} == here.dispatcher.checkpoint_file.read()


def test_a_checkpoint_whose_name_is_not_durable_is_unknown(place):
    """It can be read and a power cut may undo it; asked again it is not called done before the folder is synced."""
    here = place()
    here.dispatcher.submit("k1", ROOM)
    token = here.dispatcher.claim("k1").token
    here.files.fails = "sync_folder"
    twice = [here.dispatcher.checkpoint("k1", token, "r-1") for _ in range(2)]
    here.files.fails = ""

    assert [Answer(Kind.UNKNOWN, "written, and not known to be durable")] * 2 == twice
    assert Answer(Kind.REPLAYED, receipt="r-1") == here.dispatcher.checkpoint("k1", token, "r-1")


def test_a_checkpoint_stands_although_the_lock_cannot_be_given_back(place):
    """Somebody reads the ledger: its transaction cannot end well, and has nothing to store."""
    here = place()
    here.dispatcher.submit("k1", ROOM)
    token = here.dispatcher.claim("k1").token
    reader = sqlite3.connect(here.folder / "ledger.sqlite3", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM intents").fetchall()
    answer = here.dispatcher.checkpoint("k1", token, "r-1")
    reader.close()

    assert Answer(Kind.OK) == answer
    assert Answer(Kind.OK) == here.dispatcher.renew("k1", token)


def test_a_checkpoint_folder_whose_name_is_not_durable_is_made_anew(place):
    """The dispatcher does not start, and leaves no folder that the next would take for a durable one."""
    here = place()
    folder = here.folder / "checkpoint"
    folder.rmdir()
    here.files.fails = "sync_folder"
    with pytest.raises(UnavailableStoreError, match="checkpoint: cannot be made durable"):
        here.opened()

    assert not folder.exists()

"""The checkpoint file: replaced atomically, and never trusted when it is damaged."""

from __future__ import annotations

import json

import pytest

from impl.protocol import Answer
from impl.sqlite import CheckpointFile, DamagedCheckpointError, RealFiles
from model.words import Kind


class Recorder(RealFiles):
    """Real files that note each call, and stop before the n-th one that changes something."""

    def __init__(self, stop_before=0):
        self.calls = []
        self._stop_before = stop_before

    def _note(self, name, path):
        self.calls.append((name, path.name))
        if len(self.calls) == self._stop_before:
            raise KeyboardInterrupt

    def write_new(self, path, data):
        self._note("write_new", path)
        super().write_new(path, data)

    def sync(self, path):
        self._note("sync", path)
        super().sync(path)

    def rename(self, source, target):
        self._note("rename", source)
        super().rename(source, target)

    def sync_folder(self, folder):
        self._note("sync_folder", folder)
        super().sync_folder(folder)


def test_no_file_means_no_entries(tmp_path):
    """Before anything is recorded there is nothing to read."""
    assert CheckpointFile(tmp_path, RealFiles()).read() == {}


def test_an_entry_is_read_back(tmp_path):
    """What is recorded stands in the file as canonical JSON."""
    progress = CheckpointFile(tmp_path, RealFiles())
    assert progress.record("k1", 3, "r-1") == Answer(Kind.OK)
    assert progress.path.read_bytes() == b'{"keys":{"k1":{"receipt":"r-1","token":3}},"version":1}'
    assert progress.read() == {"k1": {"token": 3, "receipt": "r-1"}}


def test_other_keys_are_kept(tmp_path):
    """A worker that records one key keeps what others recorded."""
    CheckpointFile(tmp_path, RealFiles()).record("k1", 1, "r-1")
    CheckpointFile(tmp_path, RealFiles()).record("k2", 4, "")
    assert set(CheckpointFile(tmp_path, RealFiles()).read()) == {"k1", "k2"}


def test_the_draft_is_durable_before_it_takes_the_name(tmp_path):
    """Written, synced, renamed, and the folder synced, in this order."""
    files = Recorder()
    CheckpointFile(tmp_path, files).record("k1", 1, "r-1")
    assert files.calls == [
        ("write_new", "checkpoint.json.new"),
        ("sync", "checkpoint.json.new"),
        ("rename", "checkpoint.json.new"),
        ("sync_folder", tmp_path.name),
    ]


def test_the_same_entry_is_replayed_without_a_write(tmp_path):
    """What stands there already is not written again; its name is synced, as whoever wrote it may have died before."""
    CheckpointFile(tmp_path, RealFiles()).record("k1", 1, "r-1")
    files = Recorder()
    assert CheckpointFile(tmp_path, files).record("k1", 1, "r-1") == Answer(Kind.REPLAYED, receipt="r-1")
    assert files.calls == [("sync_folder", tmp_path.name)]


@pytest.mark.parametrize("stop_before", [1, 2, 3, 4])
def test_a_death_leaves_the_old_file_or_the_new(tmp_path, stop_before):
    """Wherever the process dies, the file is whole."""
    CheckpointFile(tmp_path, RealFiles()).record("k1", 1, "r-1")
    with pytest.raises(KeyboardInterrupt):
        CheckpointFile(tmp_path, Recorder(stop_before)).record("k1", 2, "r-2")
    token = CheckpointFile(tmp_path, RealFiles()).read()["k1"]["token"]
    assert token == (2 if stop_before == 4 else 1)


WHOLE = json.dumps({"version": 1, "keys": {"k1": {"token": 1, "receipt": "r-1"}}}).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        WHOLE[:-5],
        b"\x00" * len(WHOLE),
        b"\xff\xfe",
        b"[]",
        b'{"version": 1}',
        b'{"version": 2, "keys": {}}',
        b'{"version": true, "keys": {}}',
        b'{"version": 1, "keys": []}',
        b'{"version": 1, "keys": {"k1": 3}}',
        b'{"version": 1, "keys": {"k1": {"token": 1}}}',
        b'{"version": 1, "keys": {"k1": {"token": true, "receipt": ""}}}',
        b'{"version": 1, "keys": {"k1": {"token": -1, "receipt": ""}}}',
        b'{"version": 1, "keys": {"k1": {"token": 1, "receipt": 7}}}',
    ],
)
def test_a_damaged_file_is_an_error_and_is_kept(tmp_path, data):
    """A torn or malformed file is named, and neither read over nor replaced."""
    progress = CheckpointFile(tmp_path, RealFiles())
    progress.path.write_bytes(data)
    with pytest.raises(DamagedCheckpointError) as caught:
        progress.record("k1", 2, "r-2")
    assert str(progress.path) in str(caught.value)
    assert "restore it from a backup" in caught.value.remedy
    assert progress.path.read_bytes() == data


def test_a_token_of_zero_is_a_token(tmp_path):
    """Where nothing fences, what is recorded has the token 0, and is read back."""
    progress = CheckpointFile(tmp_path, RealFiles())
    progress.path.write_bytes(b'{"version": 1, "keys": {"k1": {"token": 0, "receipt": "r-1"}}}')
    assert progress.read() == {"k1": {"token": 0, "receipt": "r-1"}}


def test_a_draft_that_was_left_behind_is_replaced_whole(tmp_path):
    """A shorter file over a longer one has nothing of it, and may be written to by its owner alone."""
    files, path = RealFiles(), tmp_path / "draft"
    path.write_bytes(b"longer than what comes")
    files.write_new(path, b"short")
    assert b"short" == path.read_bytes()
    path.unlink()
    files.write_new(path, b"new")
    assert 0 == path.stat().st_mode & 0o133


def test_a_long_file_is_written_and_read_whole(tmp_path):
    """Reads and writes go on until all is done."""
    files = RealFiles()
    data = bytes(range(256)) * 1000
    files.write_new(tmp_path / "long", data)
    assert files.read(tmp_path / "long") == data

"""A folder that does not sync says so before anything is recorded in it."""

from __future__ import annotations

import errno
import os
import stat

import pytest

from stateful.storage.abi import UnsupportedStorageError
from stateful.storage.medium import RecordingMedium
from stateful.storage.probe import check_syncs


@pytest.mark.parametrize("what", ["file", "folder"])
@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP, errno.EIO])
def test_a_file_system_without_syncs_is_unsupported(tmp_path, monkeypatch, what, code) -> None:
    """The message names the folder, its file system, what it does not do, and what to do."""
    real = os.fsync

    def fsync(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode) == (what == "folder"):
            raise OSError(code, os.strerror(code))
        real(handle)

    monkeypatch.setattr("os.fsync", fsync)
    with pytest.raises(UnsupportedStorageError) as raised:
        check_syncs(tmp_path)

    told = str(raised.value)
    assert told.startswith(f"{tmp_path} is on a file system (")
    assert f"does not sync a {what} ({os.strerror(code)})" in told
    assert "set TMPDIR" in told


def test_a_recorder_asks_before_it_records(monkeypatch) -> None:
    """The power engine and the fault engine meet the reason when they open their folder, which they leave clean."""
    made = []

    def refuse(folder):
        made.append(folder)
        raise UnsupportedStorageError("no syncs here")

    monkeypatch.setattr("stateful.storage.medium.check_syncs", refuse)
    with pytest.raises(UnsupportedStorageError, match="no syncs here"):
        RecordingMedium()

    assert [False] == [folder.exists() for folder in made]


def test_a_folder_that_syncs_passes_and_is_left_empty(tmp_path) -> None:
    """Nothing of the probe stays."""
    check_syncs(tmp_path)

    assert [] == list(tmp_path.iterdir())

"""What each setting of SQLite is worth when the power fails: the same three transactions, every crash state of each."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("journal", "synchronous"), [("DELETE", "EXTRA"), ("TRUNCATE", "FULL"), ("PERSIST", "FULL"), ("WAL", "FULL")]
)
def test_a_durable_setting_survives(recorded, survey, journal, synchronous) -> None:
    """No state lost an acknowledged transaction, is corrupt, or has half of one."""
    found = survey(recorded(journal, synchronous).transactions())

    assert set() == found.bad
    assert found.counts.distinct > 90


def test_a_deleted_journal_may_come_back(recorded, survey) -> None:
    """With DELETE and FULL the journal's name is gone before its folder was synced: it may undo what was acknowledged."""
    assert {"lost"} == survey(recorded("DELETE", "FULL").transactions()).bad


def test_a_journal_that_is_synced_once_may_be_half_there(recorded, survey) -> None:
    """With DELETE and NORMAL the journal's header may arrive before its pages, and acknowledgements are lost."""
    bad = survey(recorded("DELETE", "NORMAL").transactions()).bad

    assert {"lost", "corrupt"} <= bad


def test_a_log_that_is_never_synced_loses_and_corrupts_nothing(recorded, survey) -> None:
    """With WAL and NORMAL acknowledgements are lost, but no transaction is torn and no page damaged."""
    assert {"lost"} == survey(recorded("WAL", "NORMAL").transactions()).bad


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_without_syncs_nothing_is_safe(recorded, survey, journal) -> None:
    """With OFF acknowledgements are lost and databases corrupt."""
    assert {"lost", "corrupt"} <= survey(recorded(journal, "OFF").transactions()).bad


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_a_disk_that_lies_is_found_out(recorded, survey, journal) -> None:
    """The check has teeth: if every sync is ignored, the safest settings lose, tear and corrupt."""
    found = survey(recorded(journal, "EXTRA").transactions(), ignore_syncs=True)

    assert {"lost", "corrupt"} <= found.bad
    assert not found.counts.is_exhaustive

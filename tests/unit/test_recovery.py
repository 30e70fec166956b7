"""The decision about one unfinished attempt, case by case."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs.core.offsets import OffsetRanges
from spark_jobs.core.recovery import Decision, decide, has_passed, stands_at_starts, unnamed_files
from spark_jobs.core.txlog import Attempt, fold
from tests.support.log_entries import (
    TABLE_UUID,
    finished_phases,
    make_batch,
    make_progress,
    offset_commit,
    parquet_written,
)

if TYPE_CHECKING:
    from spark_jobs.core.batch import Batch
    from spark_jobs.core.progress import Progress
    from spark_jobs.core.txlog import Entry


def verdict(
    batch: Batch, entries: tuple[Entry, ...], progress: Progress, *, present: bool = True, named: bool = False
) -> Decision:
    """Decide about an attempt with these entries."""
    attempt = Attempt(TABLE_UUID, batch.attempt, batch, entries, (), len(entries))
    decided = decide(attempt, progress, has_all_files=lambda: present, names_its_files=lambda: named)
    assert decided.reason
    return decided.decision


def phases(batch: Batch, count: int) -> tuple[Entry, ...]:
    """The first phases of the batch."""
    return finished_phases(batch)[:count]


def test_landed_is_marked() -> None:
    """The attempt's uuid in the table's last commits settles it, whatever the log has."""
    batch = make_batch()
    progress = make_progress().advanced(batch, None)
    for count in range(1, 6):
        assert verdict(batch, phases(batch, count), progress) is Decision.MARK


def test_landed_long_ago_is_marked() -> None:
    """IcebergSnapshotCreated is written only after the commit was seen, so it stands without last-commits."""
    batch = make_batch()
    assert verdict(batch, phases(batch, 5), make_progress(500)) is Decision.MARK


def test_a_restored_table_has_not_landed_what_the_log_remembers() -> None:
    """A catalog set back to before the commit names none of its files: nothing may be marked or deleted."""
    batch = make_batch()
    assert verdict(batch, phases(batch, 5), make_progress()) is Decision.ADOPT
    assert verdict(batch, phases(batch, 5), make_progress(), present=False) is Decision.LEAVE


def test_landed_long_ago_without_that_phase_is_marked_by_its_files() -> None:
    """A table past the range whose snapshots name the files has the commit."""
    batch = make_batch()
    assert verdict(batch, phases(batch, 4), make_progress(500), named=True) is Decision.MARK


def test_complete_files_at_the_starts_are_adopted() -> None:
    """Everything written, the table still at the starts: commit without reading again."""
    batch = make_batch()
    assert verdict(batch, phases(batch, 4), make_progress()) is Decision.ADOPT


def test_adoption_survives_the_loss_of_earlier_objects() -> None:
    """ParquetWritten alone carries all a commit needs."""
    batch = make_batch()
    assert verdict(batch, phases(batch, 4)[3:], make_progress()) is Decision.ADOPT


@pytest.mark.parametrize("count", [1, 2, 3])
def test_unfinished_writing_is_left(count: int) -> None:
    """Before ParquetWritten the range is done again and the files are left alone: it may still be alive."""
    batch = make_batch()
    assert verdict(batch, phases(batch, count), make_progress()) is Decision.LEAVE


def test_missing_files_are_never_adopted() -> None:
    """A commit does not look whether its files exist, so adoption does."""
    batch = make_batch()
    assert verdict(batch, phases(batch, 4), make_progress(), present=False) is Decision.LEAVE


def test_unbalanced_batch_is_never_adopted() -> None:
    """Balances that do not account for every offset are not committed by adoption either."""
    batch = make_batch()
    short = parquet_written(make_batch(end=9))
    assert verdict(batch, (offset_commit(batch), short), make_progress()) is Decision.LEAVE


@pytest.mark.parametrize("count", [1, 3, 4])
def test_passed_without_it_is_swept(count: int) -> None:
    """When the table moved beyond the starts without the attempt, it can never land."""
    batch = make_batch()
    assert verdict(batch, phases(batch, count), make_progress(5)) is Decision.SWEEP


def test_next_generation_has_passed() -> None:
    """An attempt of an earlier generation can never land, whatever its offsets."""
    batch = make_batch()
    assert verdict(batch, phases(batch, 4), make_progress(0, generation=1)) is Decision.SWEEP


def test_rolled_back_table_is_left_alone() -> None:
    """A table that stands below the starts was changed by somebody: neither commit nor delete."""
    batch = make_batch(start=5)
    assert verdict(batch, phases(batch, 4), make_progress(3)) is Decision.LEAVE
    assert verdict(make_batch(generation=2), phases(batch, 4), make_progress()) is Decision.LEAVE


def test_unreadable_attempt_is_left_alone() -> None:
    """Without a single readable object nothing is known, so nothing is done."""
    attempt = fold(TABLE_UUID, "a", {"1-OffsetCommit.json": "", "4-ParquetWritten.json": "{"})
    decided = decide(attempt, make_progress(9), has_all_files=lambda: True, names_its_files=lambda: False)
    assert decided.decision is Decision.LEAVE


def test_new_partition_does_not_object() -> None:
    """A partition the table does not know yet neither blocks an adoption nor counts as passed."""
    batch = make_batch()
    wider = type(batch)(
        batch.pipeline,
        batch.table,
        batch.topic,
        0,
        OffsetRanges.between({0: 0, 3: 40}, {0: 10, 3: 50}),
        "a",
        1,
    )
    assert stands_at_starts(make_progress(), wider)
    assert not has_passed(make_progress(), wider)
    assert has_passed(make_progress(1), wider)


def test_sweep_spares_what_is_named_or_owed() -> None:
    """Only files that no snapshot names and no pending entry owes are given to deletion."""
    assert unnamed_files(["a", "b", "c"], named=frozenset("a"), owed=frozenset("c")) == ("b",)

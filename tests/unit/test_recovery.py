"""The decision about one unfinished attempt, case by case."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from spark_jobs.lake.named_files import unnamed_files
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.protocol.progress import PendingDeadLetters
from spark_jobs.protocol.source import has_passed, may_replay, stands_at_starts
from spark_jobs.protocol.work import Settler
from spark_jobs.protocol.works.changes import RETYPE
from spark_jobs.protocol.works.drain import DRAIN
from spark_jobs.protocol.works.rebuild import REBUILD
from spark_jobs.protocol.works.redrive import REDRIVE
from spark_jobs.protocol.works.replay import REPLAY
from spark_jobs.recovery.decide import Decision, attempts_of, decide
from spark_jobs.txlog.entries import Attempt, Held, Published, fold, is_waiting
from tests.support.log_entries import (
    TABLE_UUID,
    finished_phases,
    held_written,
    make_batch,
    make_progress,
    offset_commit,
    parquet_written,
)

if TYPE_CHECKING:
    from spark_jobs.protocol.batch import Batch
    from spark_jobs.protocol.progress import Progress
    from spark_jobs.txlog.entries import Entry


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
    progress = make_progress().after_batch(batch, None)
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


SOURCE = {"cluster_id": "c", "topic_id": "t"}


@pytest.mark.parametrize("table", [{"cluster_id": "other"}, {"topic_id": "other"}])
def test_a_batch_of_another_source_is_left_alone(table: dict[str, str]) -> None:
    """The table was given another topic at the same offsets: they mean other records there.

    It is not deleted either as long as the offsets may come to mean the same again.
    """
    batch = replace(make_batch(), **SOURCE)
    assert verdict(batch, phases(batch, 4), replace(make_progress(), **SOURCE)) is Decision.ADOPT
    moved = replace(make_progress(), **{**SOURCE, **table})
    assert verdict(batch, phases(batch, 4), moved) is Decision.LEAVE
    assert verdict(batch, phases(batch, 4), replace(moved, next_offsets={0: 5})) is Decision.SWEEP
    replay = replace(_replay(), **SOURCE)
    assert may_replay(replace(make_progress(10), **SOURCE), replay)
    assert not may_replay(replace(make_progress(10), **{**SOURCE, **table}), replay)


@pytest.mark.parametrize("unknown", [{"cluster_id": None}, {"topic_id": None}])
def test_an_id_that_nobody_knows_does_not_object(unknown: dict[str, None]) -> None:
    """Of the batch, from a broker before 2.8 or a damaged log, or of the table."""
    batch, table = replace(make_batch(), **SOURCE), replace(make_progress(), **SOURCE)
    assert stands_at_starts(table, replace(batch, **unknown))
    assert stands_at_starts(replace(table, **unknown), batch)


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


def test_what_was_planned_before_a_rollback_never_lands() -> None:
    """Not from the same offsets either, to which the table came once more."""
    batch, before = make_batch(), make_progress()
    after = replace(before, rollbacks=before.rollbacks + 1)
    assert stands_at_starts(before, batch)
    assert not stands_at_starts(after, batch)
    assert has_passed(after, batch)


def test_work_behind_the_offsets_is_left_to_the_next_replay() -> None:
    """A drain settles its own attempts, and those that nobody can read."""
    works = [DRAIN, REPLAY, REBUILD, REDRIVE, RETYPE]
    attempts = [Attempt(TABLE_UUID, str(work), replace(make_batch(), kind=work), (), (), 1) for work in works]
    attempts.append(Attempt(TABLE_UUID, "unreadable", None, (), (), 0))
    settled = {settler: [each.uuid for each in attempts_of(settler, attempts)] for settler in Settler}
    assert settled == {
        Settler.DRAIN: ["drain", "unreadable"],
        Settler.REPLAY: ["replay", "rebuild", "redrive", "retype"],
    }


def test_sweep_spares_what_is_named_or_owed() -> None:
    """Only files that no snapshot names and no pending entry owes are given to deletion."""
    assert unnamed_files(["a", "b", "c"], frozenset("ac")) == ("b",)


HELD = Held("strict", (), "run-1", 2_000)
PUBLISHED = Published("a sale", "ada", "run-2", 3_000)


def test_a_held_batch_is_neither_adopted_nor_swept() -> None:
    """Whether or not the object that says why can be read: its own files' object says that it is held."""
    batch = make_batch()
    for said in ((HELD,), ()):
        entries = (*phases(batch, 3), *said, held_written(batch))
        assert verdict(batch, entries, make_progress()) is Decision.HOLD


def test_a_batch_that_died_while_it_was_being_held_is_done_again() -> None:
    """Without its files' object nobody knows them: the range is read and judged again."""
    batch = make_batch()
    assert verdict(batch, (*phases(batch, 3), HELD), make_progress()) is Decision.LEAVE


def test_held_files_that_are_gone_are_not_waited_for() -> None:
    """A held batch whose files were deleted by somebody is done again instead of waiting for ever."""
    batch = make_batch()
    entries = (*phases(batch, 3), HELD, held_written(batch))
    assert verdict(batch, entries, make_progress(), present=False) is Decision.LEAVE


def test_a_published_batch_is_adopted_by_any_recovery() -> None:
    """The operator's word is in the log: whoever comes next commits the files, if they are whole."""
    batch = make_batch()
    entries = (*phases(batch, 3), HELD, held_written(batch), PUBLISHED)
    assert verdict(batch, entries, make_progress()) is Decision.ADOPT
    assert verdict(batch, entries, make_progress(), present=False) is Decision.LEAVE
    landed = make_progress().after_batch(batch, None)
    assert verdict(batch, entries, landed) is Decision.MARK


def test_a_discarded_batch_is_swept() -> None:
    """Past its offsets nobody can commit it any more, published or not."""
    batch = make_batch()
    for said in ((), (PUBLISHED,)):
        entries = (*phases(batch, 3), HELD, held_written(batch), *said)
        assert verdict(batch, entries, make_progress(10)) is Decision.SWEEP


def test_waiting_ends_when_the_table_moves() -> None:
    """Held is what an operator can still decide about; a passed one is not."""
    batch = make_batch()
    entries = (*phases(batch, 3), HELD, held_written(batch))
    attempt = Attempt(TABLE_UUID, batch.attempt, batch, entries, (), 4)
    assert is_waiting(attempt, make_progress())
    assert not is_waiting(attempt, make_progress(10))
    assert not is_waiting(attempt, make_progress(generation=1))


def _replay(epoch: int = 0) -> Batch:
    return replace(make_batch(), kind=REPLAY, epoch=epoch)


@pytest.mark.parametrize("count", range(1, 5))
def test_a_replay_that_may_still_land_is_left_alone(count: int) -> None:
    """The table is far past its offsets, as always: that says nothing, and nobody adopts it."""
    batch = _replay()
    assert verdict(batch, phases(batch, count), make_progress(500)) is Decision.LEAVE
    assert verdict(batch, phases(batch, count), make_progress(0)) is Decision.LEAVE


@pytest.mark.parametrize("count", range(1, 5))
def test_a_replay_of_an_earlier_epoch_is_swept(count: int) -> None:
    """It can never land; unless it did, and the table still names its files."""
    batch = _replay()
    later = replace(make_progress(500), replay_epoch=1)
    assert verdict(batch, phases(batch, count), later) is Decision.SWEEP
    landed = verdict(batch, phases(batch, count), later, named=True)
    assert landed is (Decision.MARK if count == 4 else Decision.SWEEP)


def test_a_replay_lands_only_in_its_epoch_on_drained_offsets() -> None:
    """Another replay, a rollback, another generation and offsets that the table has not reached refuse it."""
    batch, there = _replay(3), replace(make_progress(10), replay_epoch=3)
    assert may_replay(there, batch)
    assert not may_replay(replace(there, replay_epoch=4), batch)
    assert not may_replay(replace(there, generation=1), batch)
    assert not may_replay(replace(there, next_offsets={0: 9}), batch)
    after = there.after_replay(batch, PendingDeadLetters(batch.attempt, batch.ranges, (), replaces=True))
    assert after.next_offsets == there.next_offsets
    assert not may_replay(after, batch)
    assert has_passed(after, batch)

"""Recovery on real tables and a real log: of what earlier runs left, nothing is lost, doubled or left."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from spark_jobs.commit.sweep import sweep_files
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.lake.tables import dead_letters_of, progress_of
from spark_jobs.protocol.batch import Balance
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.recovery.decide import RecoveryResult
from spark_jobs.txlog.entries import IcebergSnapshotCreated
from spark_jobs.txlog.store import CLOSING_AFTER_US, TxlogStore
from tests.support.lake import TOPIC, write_rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.recovery_scene import Scene


def test_nothing_to_do_is_nothing(scene: Scene) -> None:
    """A table without unfinished attempts costs no interrupt, no broker and no change."""
    assert scene.recover() == RecoveryResult()
    assert scene.source.asked == 0
    assert scene.interrupted == []


def test_no_table_is_nothing(scene: Scene) -> None:
    """Before a pipeline's first batch there is nothing to recover."""
    scene.pipeline = PipelineConfig(name="p", topic=TOPIC, table="demo.none")
    assert scene.recover() == RecoveryResult()


def test_complete_files_are_adopted_without_reading(scene: Scene) -> None:
    """A batch that died before its commit lands from its files, keeps its attempt, and reads nothing."""
    request = scene.leave(0, 10, 4, dead_letters=[3], files=True)
    result = scene.recover()
    assert [adopted.batch.attempt for adopted in result.adopted] == [request.batch.attempt]
    assert result.adopted[0].counts.balance == Balance(rows=9, dead_letters=1)
    assert scene.lake.offsets() == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert scene.lake.next_offset() == 10
    assert scene.dead_letter_table().scan().to_arrow()["_kafka_offset"].to_pylist() == [3]
    assert scene.files() == scene.named()
    assert scene.unfinished() == ()
    summary = scene.lake.load().current_snapshot().summary.additional_properties  # type: ignore[union-attr]
    assert (summary["sluice.actor"], summary["sluice.adopted-by"]) == ("dead", "run-recover")


def test_batch_without_files_is_adopted(scene: Scene) -> None:
    """Tombstones only: nothing to commit but the offsets, and those are adopted like files."""
    scene.leave(0, 10, 4, files=False)
    assert len(scene.recover().adopted) == 1
    assert scene.lake.next_offset() == 10
    assert scene.lake.offsets() == []


@pytest.mark.parametrize("phases", [1, 2, 3])
def test_unfinished_writing_is_left_then_swept(scene: Scene, phases: int) -> None:
    """Files of a run that was killed while writing stay until the range is done again, then they go."""
    request = scene.leave(0, 10, phases)
    before = scene.files()
    result = scene.recover()
    assert [left.attempt for left in result.left] == [request.batch.attempt]
    assert scene.interrupted == [request.batch.attempt]
    assert scene.files() == before
    scene.lake.drain(0, 12)
    result = scene.recover()
    assert result.swept == (request.batch.attempt,)
    assert result.swept_files == len(before)
    assert scene.files() == scene.named()
    assert scene.lake.offsets() == list(range(12))
    assert scene.recover() == RecoveryResult()


def test_missing_file_is_not_adopted(scene: Scene) -> None:
    """A commit would name a file that is gone, so the range is done again."""
    request = scene.leave(0, 10, 4)
    scene.lake.load().io.delete(request.written.data_files[0].path)
    assert "missing" in scene.recover().left[0].reason
    assert scene.lake.next_offset() == 0


def test_cut_file_is_not_adopted(scene: Scene) -> None:
    """A file of the wrong size is not committed."""
    request = scene.leave(0, 10, 4)
    output = scene.lake.load().io.new_output(request.written.data_files[0].path)
    with output.create(overwrite=True) as stream:
        stream.write(b"PAR1")
    assert len(scene.recover().left) == 1


def test_landed_is_marked(scene: Scene) -> None:
    """A run that died right after its commit is marked with its snapshot; nothing is committed again."""
    request = scene.leave(0, 10, 4)
    committed = scene.lake.commit(request)
    result = scene.recover()
    assert result == RecoveryResult(marked=(request.batch.attempt,))
    (attempt,) = scene.connections.txlog.attempts(request.table_uuid)
    created = attempt.entry(IcebergSnapshotCreated)
    assert created is not None
    assert created.snapshot_id == committed.snapshot_id
    assert scene.lake.offsets() == list(range(10))
    assert scene.source.asked == 0


def test_owed_dead_letters_are_finished_first(scene: Scene) -> None:
    """A run that died between its data and its dead letters gets them in, once, before anything else."""
    request = scene.leave(0, 10, 4, dead_letters=[2, 5])
    scene.lake.commit(request)
    assert scene.recover().marked == (request.batch.attempt,)
    scene.recover()
    offsets = scene.dead_letter_table().scan().to_arrow()["_kafka_offset"].to_pylist()
    assert sorted(offsets) == [2, 5]
    assert scene.files() == scene.named()


def test_owed_dead_letters_are_finished_without_a_log(scene: Scene) -> None:
    """The table alone says what it owes: a lost log loses no dead letter."""
    scene.lake.commit(scene.lake.request(0, 10, dead_letters=[2]))
    scene.recover()
    assert scene.dead_letter_table().scan().to_arrow()["_kafka_offset"].to_pylist() == [2]


def test_sweep_spares_what_is_named_or_owed(scene: Scene) -> None:
    """Even a sweep of an attempt that landed deletes nothing that a snapshot names or the table owes."""
    request = scene.leave(0, 10, 3, dead_letters=[2])
    scene.lake.commit(request)
    pending = progress_of(scene.lake.load()).pending_dead_letters
    assert pending is not None
    (attempt,) = scene.unfinished()
    tables = [scene.lake.load(), scene.dead_letter_table()]
    before = scene.files()
    assert sweep_files(attempt, tables, before_delete=lambda: None) == 0
    assert scene.files() == before
    tables[0].metadata.properties["sluice.pending-dead-letters"] = "null"
    assert sweep_files(attempt, tables, before_delete=lambda: None) == len(pending.files)


def test_a_late_mark_spares_dead_letters_that_only_their_own_table_names(scene: Scene) -> None:
    """The data table stops naming dead letters with its next batch; a mark after it sweeps none."""
    request = scene.leave(0, 10, 4, dead_letters=[2])
    scene.lake.commit(request)
    scene.lake.drain(10, 20)
    assert progress_of(scene.lake.load()).pending_dead_letters is None
    result = scene.recover()
    assert (result.marked, result.swept_files) == ((request.batch.attempt,), 0)
    assert scene.dead_letter_table().scan().to_arrow()["_kafka_offset"].to_pylist() == [2]
    assert scene.files() == scene.named()


def test_a_mark_leaves_dead_letters_that_a_table_made_anew_may_still_name(scene: Scene) -> None:
    """Somebody dropped their table: a run that owed them before may bring them in once more, and late."""
    request = scene.leave(0, 10, 4, dead_letters=[2])
    scene.lake.commit(request)
    scene.lake.drain(10, 20)
    dropped = scene.dead_letter_table()
    scene.lake.open().drop_table(dead_letters_of(scene.lake.name()))
    write_rows(scene.lake.load(), 0, [1], request.batch.attempt)
    result = scene.recover()
    assert (result.marked, result.swept_files) == ((request.batch.attempt,), 1)
    files = dropped.inspect.files()["file_path"].to_pylist()
    assert [dropped.io.new_input(file).exists() for file in files] == [True]


def test_only_one_of_two_complete_attempts_is_adopted(scene: Scene) -> None:
    """Two runs wrote the same range: the older one's files are committed, the other's are swept."""
    first, second = scene.leave(0, 10, 4), scene.leave(0, 10, 4)
    result = scene.recover()
    assert len(result.adopted) == len(result.swept) == 1
    assert {result.adopted[0].batch.attempt, *result.swept} == {first.batch.attempt, second.batch.attempt}
    assert scene.lake.offsets() == list(range(10))
    assert scene.files() == scene.named()


def test_adopted_run_that_wakes_has_landed(scene: Scene) -> None:
    """The stopped run whose files were adopted finds its own commit; nothing is doubled or deleted."""
    request = scene.leave(0, 10, 4)
    adopted = scene.recover().adopted[0]
    assert scene.lake.commit(request).snapshot_id == adopted.snapshot_id
    assert scene.lake.offsets() == list(range(10))


def test_swept_run_that_wakes_is_swept_again(scene: Scene) -> None:
    """What a run writes after it was swept goes too: at once when it logs it, or else when it is closed."""
    request = scene.leave(0, 10, 3)
    scene.recover()
    scene.lake.drain(0, 10)
    scene.recover()
    write_rows(scene.lake.load(), 0, [1], request.batch.attempt)
    assert scene.recover().swept == ()
    scene.log(request, 4)
    assert scene.recover().swept_files == 1
    write_rows(scene.lake.load(), 0, [1], request.batch.attempt)
    late_us = 10**17  # the store's clock is the file system's
    assert scene.recover(now_us=late_us).swept_files == 1
    assert scene.unfinished(late_us + CLOSING_AFTER_US) == ()
    assert scene.files() == scene.named()


def test_a_whole_batch_is_adopted_whatever_became_of_its_topic(scene: Scene) -> None:
    """Its source was checked after the last read and its files may be all that is left: no look at Kafka."""
    scene.leave(0, 10, 4)
    scene.source.topic_id = "another"
    assert len(scene.recover().adopted) == 1
    assert scene.lake.offsets() == list(range(10))
    assert scene.source.asked == 0


def test_rolled_back_table_is_never_adopted_into(scene: Scene) -> None:
    """A commit on top of a rollback would hide it, so adoption checks the anchor as a drain does."""
    scene.lake.drain(0, 5)
    scene.leave(5, 10, 4)
    table = scene.lake.load()
    first = table.metadata.snapshots[0].snapshot_id
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert "rolled back" in scene.recover().left[0].reason


@pytest.mark.parametrize("damaged", ["1-OffsetCommit.json", "3-FlushStart.json", "4-ParquetWritten.json"])
def test_damaged_log_loses_nothing(scene: Scene, tmp_path: Path, damaged: str) -> None:
    """Whichever object is damaged, the range is adopted or done again; every file ends up named or gone."""
    request = scene.leave(0, 10, 4)
    path = tmp_path / "state" / request.table_uuid / request.batch.attempt / damaged
    path.write_text(path.read_text()[:-20])
    scene.recover()
    if scene.lake.next_offset() == 0:
        scene.lake.drain(0, 10)
        scene.recover()
    assert scene.lake.offsets() == list(range(10))
    assert scene.files() == scene.named()
    assert scene.unfinished() == ()


def test_log_under_the_table_is_refused(scene: Scene) -> None:
    """A log that orphan removal would delete is refused before anything is done."""
    below = TxlogStore(f"{scene.lake.load().location()}/state", {})
    scene.connections = replace(scene.connections, txlog=below)
    with pytest.raises(ConfigError) as caught:
        scene.recover()
    assert caught.value.code == "log-under-table"

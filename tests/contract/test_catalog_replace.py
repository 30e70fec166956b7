"""Replacing the rows of offset ranges in one snapshot, on every catalog."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table.snapshots import Operation

from spark_jobs.commit.anchor import check_anchor
from spark_jobs.commit.pending_commit import commit_pending
from spark_jobs.commit.replace import ReplacedOffsets, Rewriter, stage_replace
from spark_jobs.commit.swap import land
from spark_jobs.lake.data_files import to_data_file
from spark_jobs.lake.named_files import named_of
from spark_jobs.lake.parquet_writer import SplitWriter
from spark_jobs.lake.tables import data_location, progress_of
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from spark_jobs.protocol.progress import PendingDeadLetters
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.storage.create_only import find_files
from spark_jobs.storage.paths import normalise_path
from tests.support.foreign_deletes import delete_by_equality, delete_by_position
from tests.support.lake import Once, write_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from spark_jobs.commit.swap import Committed, Swap
    from spark_jobs.protocol.batch import WrittenFile
    from spark_jobs.protocol.work import FailPoints
    from tests.support.lake import Lake


@dataclass(frozen=True)
class Replacing:
    """A replay without an epoch."""

    identifier: str
    attempt: str
    replaced: ReplacedOffsets
    files: list[WrittenFile]
    rewriter: Rewriter
    fail_point: ClassVar[str] = "replay"

    def stage(self, table: Table, _connections: object) -> Swap:
        check_anchor(table)
        return stage_replace(
            table,
            self.replaced,
            [to_data_file(file, table.metadata) for file in self.files],
            progress=progress_of(table).with_attempt(self.attempt),
            summary={"sluice.attempt": self.attempt},
            rewriter=self.rewriter,
        )


def replace_rows(
    lake: Lake,
    *ranges: tuple[int, int, int],
    offsets: tuple[int, ...] = (),
    generation: int = 0,
    before_swap: Callable[[], None] | None = None,
) -> Committed:
    """Replace (partition, start, end) ranges by one row for each of ``offsets`` of partition 0."""
    attempt = uuid.uuid4().hex
    replaced = ReplacedOffsets.of(generation, (OffsetRange(*r) for r in ranges))
    files = write_rows(lake.load(), 0, offsets, attempt) if offsets else []
    points = Once("replay.before-swap", before_swap) if before_swap else None
    return land(lake.access(points), Replacing(lake.name(), attempt, replaced, files, Rewriter(attempt)))


def paths(lake: Lake) -> set[str]:
    """Every data file that is read."""
    return {task.file.file_path for task in lake.load().scan().plan_files()}


def rows(lake: Lake) -> list[dict[str, Any]]:
    """Every row, by partition and offset."""
    found = lake.load().scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: (row["_kafka_partition"], row["_kafka_offset"]))


def merge_files(lake: Lake) -> None:
    """What a compaction does: one ``replace`` snapshot in which one file holds all rows."""
    table = lake.load()
    merged = write_merged(table)
    with (
        table.transaction() as transaction,
        transaction.update_snapshot(snapshot_properties={"sluice.test": "compaction"}).overwrite() as swap,
    ):
        for task in table.scan().plan_files():
            swap.delete_data_file(task.file)
        for file in merged:
            swap.append_data_file(file)


def write_merged(table: Table) -> list[DataFile]:
    """One file with all rows in order, one for each partition."""
    writer = SplitWriter(
        table.metadata,
        table.io,
        file_prefix=f"merged-{uuid.uuid4().hex}",
        row_group_bytes=1 << 20,
        max_open_files=8,
    )
    everything = (
        table.scan().to_arrow().sort_by([("_kafka_partition", "ascending"), ("_kafka_offset", "ascending")])
    )
    writer.write(everything.cast(arrow_schema(table.schema())))
    return [to_data_file(file, table.metadata) for file in writer.close()]


def test_whole_files_are_dropped_and_others_stay_as_they_are(lake: Lake) -> None:
    """One overwrite snapshot, anchored; the table's offsets do not move."""
    lake.make_table()
    first, second, third = (lake.request(start, start + 10) for start in (0, 10, 20))
    for request in (first, second, third):
        lake.commit(request)
    before = progress_of(lake.load())
    committed = replace_rows(lake, (0, 10, 20), offsets=(10, 12))
    assert lake.offsets() == [*range(10), 10, 12, *range(20, 30)]
    kept = {file.path for request in (first, third) for file in request.written.data_files}
    assert kept < paths(lake)
    table = lake.load()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary.operation is Operation.OVERWRITE
    assert snapshot.snapshot_id == committed.snapshot_id == progress_of(table).anchor
    assert progress_of(table).next_offsets == before.next_offsets
    assert snapshot.summary.additional_properties["total-records"] == "22"


@pytest.mark.parametrize(
    "partition_by", [(), ("day(at)",), ("bucket(4, name)",), ("truncate(2, name)", "hour(at)")]
)
def test_straddling_files_keep_their_other_rows(sqlite_lake: Lake, partition_by: tuple[str, ...]) -> None:
    """Files merged by a compaction are written again without the range, partition by partition."""
    lake = sqlite_lake
    lake.make_table(partition_by=partition_by)
    for start in range(0, 60, 10):
        lake.drain(start, start + 10)
    merge_files(lake)
    before = {row["_kafka_offset"]: row for row in rows(lake)}
    replace_rows(lake, (0, 15, 35), offsets=(20,))
    after = rows(lake)
    assert [row["_kafka_offset"] for row in after] == [*range(15), 20, *range(35, 60)]
    assert all(row == before[row["_kafka_offset"]] for row in after)


def test_rows_of_other_partitions_and_generations_stay(sqlite_lake: Lake) -> None:
    """The same offsets of another Kafka partition or an earlier generation are other rows."""
    lake = sqlite_lake
    lake.make_table(starts={0: 0, 1: 0})
    for partition in (0, 1):
        lake.drain(0, 20, partition=partition)
    merge_files(lake)
    replace_rows(lake, (0, 0, 20), generation=7)
    assert len(rows(lake)) == 40
    replace_rows(lake, (1, 5, 15))
    found = [(row["_kafka_partition"], row["_kafka_offset"]) for row in rows(lake)]
    assert found == [*((0, o) for o in range(20)), *((1, o) for o in [*range(5), *range(15, 20)])]


def test_a_null_partition_is_replaced_too(sqlite_lake: Lake) -> None:
    """Rows whose partition column is null have a partition of their own."""
    lake = sqlite_lake
    lake.make_table(partition_by=("bucket(4, name)", "at"))
    lake.drain(0, 10)
    table = lake.load()
    attempt = uuid.uuid4().hex
    writer = SplitWriter(
        table.metadata, table.io, file_prefix=attempt, row_group_bytes=1 << 20, max_open_files=8
    )
    empty = [
        {"id": o, "_kafka_partition": 0, "_kafka_offset": o, "_kafka_generation": 0, "_kafka_topic": "t"}
        for o in range(10, 20)
    ]
    writer.write(pa.Table.from_pylist(empty, schema=arrow_schema(table.schema())))
    request = lake.request(10, 20, files=False)
    written = replace(request.written, data_files=tuple(writer.close()))
    lake.commit(replace(request, written=written))
    replace_rows(lake, (0, 12, 18))
    assert lake.offsets() == [*range(12), 18, 19]
    replace_rows(lake, (0, 0, 20))
    assert lake.offsets() == []


def test_an_empty_range_makes_a_snapshot_and_changes_no_row(lake: Lake) -> None:
    """Nothing there to drop is no error: a backfill only adds."""
    lake.make_table(starts={0: 100})
    lake.drain(100, 110)
    before = lake.load().metadata.current_snapshot_id
    replace_rows(lake, (0, 40, 60), offsets=(41, 42))
    assert lake.offsets() == [41, 42, *range(100, 110)]
    assert lake.load().metadata.current_snapshot_id != before


def test_an_append_that_comes_first_stays(lake: Lake) -> None:
    """The lists are made again for the new main; what was written for the first try is used again."""
    lake.make_table()
    lake.drain(0, 20)
    committed = replace_rows(lake, (0, 5, 10), offsets=(7,), before_swap=lambda: _drain_more(lake))
    assert committed.retries == 1
    assert lake.offsets() == [*range(5), 7, *range(10, 30)]
    assert progress_of(lake.load()).next_offsets == {0: 30}


def _drain_more(lake: Lake) -> None:
    lake.drain(20, 30)


def test_a_compaction_that_comes_first_is_computed_anew(lake: Lake) -> None:
    """The files of the first list are gone by then: nothing of it may be sent."""
    lake.make_table()
    for start in (0, 10, 20):
        lake.drain(start, start + 10)
    committed = replace_rows(lake, (0, 10, 20), offsets=(15,), before_swap=lambda: merge_files(lake))
    assert committed.retries == 1
    assert lake.offsets() == [*range(10), 15, *range(20, 30)]


def test_twice_is_once(sqlite_lake: Lake) -> None:
    """The same range replaced again gives the same rows."""
    lake = sqlite_lake
    lake.make_table()
    lake.drain(0, 30)
    for _ in range(2):
        replace_rows(lake, (0, 10, 20), offsets=tuple(range(10, 20)))
    assert lake.offsets() == list(range(30))


def test_nested_nulls_stay_nulls(sqlite_lake: Lake) -> None:
    """A null list of structs is not an empty one, in the rows that are only written again."""
    lake = sqlite_lake
    lake.make_table()
    lake.drain(0, 20)
    replace_rows(lake, (0, 5, 6))
    (file,) = paths(lake)
    with lake.load().io.new_input(file).open() as stream:
        headers = pq.read_table(stream, columns=["_kafka_headers"]).column(0)
    assert headers.null_count == len(headers) == 19


def test_rows_another_engine_deleted_come_back_in_the_range_only(lake: Lake) -> None:
    """A straddling file is written again without them; what the replay brings is in the table."""
    lake.make_table()
    for start in (0, 10, 20, 30):
        lake.drain(start, start + 10)
    merge_files(lake)
    (file,) = paths(lake)
    delete_by_position(lake.load(), file, (3, 17, 35))
    assert lake.offsets() == [o for o in range(40) if o not in (3, 17, 35)]
    replace_rows(lake, (0, 10, 20), offsets=(10, 17))
    assert lake.offsets() == [0, 1, 2, *range(4, 10), 10, 17, *range(20, 35), *range(36, 40)]


@pytest.mark.parametrize("deleted", [17, 35], ids=["inside", "outside"])
def test_equality_deletes_are_refused_wherever_their_rows_are(sqlite_lake: Lake, deleted: int) -> None:
    """Also where a plan by bounds would not see them: the rows they delete would come back unasked."""
    lake = sqlite_lake
    lake.make_table()
    for start in (0, 10, 20, 30):
        lake.drain(start, start + 10)
    merge_files(lake)
    delete_by_equality(lake.load(), "_kafka_offset", [deleted])
    before = lake.load().metadata.current_snapshot_id
    with pytest.raises(ConfigError) as refused:
        replace_rows(lake, (0, 10, 20), offsets=(10,))
    assert refused.value.code == "equality-deletes"
    assert lake.load().metadata.current_snapshot_id == before


def test_who_pays_a_debt_that_is_paid_leaves_no_file(sqlite_lake: Lake) -> None:
    """Two runs bring the same replaced dead letters in: what the slower one had written again goes."""
    lake = sqlite_lake
    lake.make_table()
    lake.drain(0, 10, dead_letters=[3, 5])

    def pay(fail_points: FailPoints | None = None) -> None:
        progress = progress_of(lake.load())
        commit_pending(lake.access(fail_points), lake.name(), progress, {})

    pay()
    owed = PendingDeadLetters(uuid.uuid4().hex, OffsetRanges.between({0: 4}, {0: 6}), (), replaces=True)
    lake.act(lambda p: replace(p, pending_dead_letters=owed, replay_epoch=p.replay_epoch + 1))
    pay(Once("dead-letters.before-swap", pay))
    table = lake.load("t_dead_letters")
    there = frozenset(
        normalise_path(file.location)
        for file in find_files(data_location(table), owed.attempt, table.io.properties)
    )
    assert len(there) == 1
    assert named_of(table, there) == there
    assert [row["_kafka_offset"] for row in table.scan().to_arrow().to_pylist()] == [3]

"""Plans an export: its records, and those that Kafka cannot accept, before it produces any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And, BooleanExpression

from spark_jobs.connections.connect import load_drained
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.lake.file_rows import rows_of_file
from spark_jobs.lake.row_filters import equals, is_in_any, is_in_range
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.progress_parts import skipped_ranges
from spark_jobs.schema.archive_columns import HEADERS, KAFKA, KEY, RAW, VALUE
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.iceberg_types import IDENTITY, OFFSET, PARTITION

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections


_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """One offset range per partition, at the table's state; ``records`` counts them by partition.

    ``notes`` are what the target will not have as it was.
    """

    table: Table
    generation: int
    ranges: tuple[OffsetRange, ...]
    records: dict[int, int]
    notes: tuple[str, ...] = ()

    @property
    def partitions(self) -> int:
        """Return the number of partitions that the target needs."""
        return max((each.partition for each in self.ranges), default=-1) + 1


def plan_export(
    pipeline: PipelineConfig, connections: Connections, wanted: Sequence[OffsetRange] = ()
) -> ExportPlan:
    """Return the plan: ``wanted``, or everything drained from the topic's current generation.

    Raises ``ConfigError``: ``no-table-yet``, ``export-needs-archive``, ``export-range`` for what was not
    drained, and ``not-exportable`` for records that no producer can write.
    """
    table = load_drained(pipeline, connections)
    pipeline.layout.refuse("export", pipeline=pipeline.name)
    progress = progress_of(table)
    drained = [
        OffsetRange(p, progress.starts.get(p, 0), end) for p, end in sorted(progress.next_offsets.items())
    ]
    ranges = tuple(sorted(wanted, key=lambda each: each.partition)) or tuple(each for each in drained if each)
    _check_ranges(pipeline, ranges, drained)
    # Clients write the time at hand where a record's is 0.
    if found := _where(table, ranges, progress.generation, equals(f"{KAFKA}.event_timestamp_ms", 0)):
        raise fault("not-exportable", found=", ".join(found), pipeline=pipeline.name)
    records = {each.partition: count_records(table, each, progress.generation) for each in ranges}
    return ExportPlan(
        table, progress.generation, ranges, records, tuple(_notes(table, ranges, progress.generation))
    )


def _check_ranges(
    pipeline: PipelineConfig, ranges: Sequence[OffsetRange], drained: Sequence[OffsetRange]
) -> None:
    by_partition = {each.partition: each for each in drained}
    partitions = [each.partition for each in ranges]
    for each in ranges:
        whole = by_partition.get(each.partition)
        if whole is None:
            raise fault("export-range.partition", wanted=each, pipeline=pipeline.name)
        if each.start < whole.start or each.end > whole.end:
            raise fault("export-range", wanted=each, found=whole, pipeline=pipeline.name)
        if partitions.count(each.partition) > 1:
            raise fault("export-range.twice", number=each.partition, pipeline=pipeline.name)


def _notes(table: Table, ranges: Sequence[OffsetRange], generation: int) -> list[str]:
    found = _where(table, ranges, generation, equals(f"{KAFKA}.timestamp_type", "log_append"))
    note = f"times set by the broker become times set by the producer: {', '.join(found)}"
    skipped = [
        str(skip)
        for each in ranges
        for skip in skipped_ranges(progress_of(table).skipped, generation, each.partition)
        if skip.start < each.end and each.start < skip.end
    ]
    left_out = f"skipped records are not in the archive: {', '.join(skipped)}"
    return [*([note] if found else []), *([left_out] if skipped else [])]


def _where(
    table: Table, ranges: Sequence[OffsetRange], generation: int, which: BooleanExpression
) -> list[str]:
    """Return the coordinates of the first such records."""
    inside = And(is_in_any(ranges, generation), which)
    scan = table.scan(inside, selected_fields=(PARTITION, OFFSET), limit=_MOST_NAMED + 1)
    rows = scan.to_arrow().sort_by([(PARTITION, "ascending"), (OFFSET, "ascending")]).to_pylist()
    places = [f"{row[PARTITION]}:{row[OFFSET]}" for row in rows[:_MOST_NAMED]]
    return [*places, "…"] if len(rows) > _MOST_NAMED else places


# Records as an archive has them, read back in the order of their partition with bounded memory.


_SELECTED = (f"{KEY}.{RAW}", f"{VALUE}.{RAW}", HEADERS, f"{KAFKA}.event_timestamp_ms", *IDENTITY)
NO_TIMESTAMP = -1
MAX_WINDOW_OFFSETS = 500_000
WINDOW_BYTES = 64 << 20
_MOST_PACKED = 16  # times as many bytes as in a file, more where they repeat much
_CHUNK_RECORDS = 1_000  # of which there are Python objects


def archived_chunks(table: Table, offsets: OffsetRange, generation: int) -> Iterator[Iterator[Chunk]]:
    """Yield records of these offsets in order, by windows of about 64 MiB."""
    start, width = offsets.start, _first_width(table, offsets, generation)
    while start < offsets.end:
        window = OffsetRange(offsets.partition, start, min(start + width, offsets.end))
        rows = _rows(table, window, generation)
        yield _chunks(window.partition, rows)
        start = window.end
        width = max(1, min(MAX_WINDOW_OFFSETS, width * WINDOW_BYTES // max(1, 2 * rows.nbytes), width * 4))


def _first_width(table: Table, offsets: OffsetRange, generation: int) -> int:
    """Return a window that fits, from the files' bytes per record; each window unpacks them again."""
    files = [task.file for task in table.scan(is_in_range(offsets, generation)).plan_files()]
    packed, records = sum(each.file_size_in_bytes for each in files), sum(each.record_count for each in files)
    return max(1, min(MAX_WINDOW_OFFSETS, WINDOW_BYTES * records // max(1, _MOST_PACKED * packed)))


def offset_of_record(table: Table, offsets: OffsetRange, generation: int, number: int) -> int:
    """Return the offset of the record with this many records before it, or the end."""
    left, start = number, offsets.start
    while start < offsets.end:
        window = OffsetRange(offsets.partition, start, min(start + MAX_WINDOW_OFFSETS, offsets.end))
        found = table.scan(is_in_range(window, generation), selected_fields=(OFFSET,)).to_arrow()
        if left < found.num_rows:
            return int(found.sort_by(OFFSET).column(OFFSET)[left].as_py())
        left -= found.num_rows
        start = window.end
    return offsets.end


def count_records(table: Table, offsets: OffsetRange, generation: int) -> int:
    """Return the number of these records."""
    return int(table.scan(is_in_range(offsets, generation)).count())


def _rows(table: Table, window: OffsetRange, generation: int) -> pa.Table:
    inside = is_in_range(window, generation)
    scan = table.scan(inside, selected_fields=_SELECTED)
    schema = scan.projection()
    parts = [rows for task in scan.plan_files() for rows in rows_of_file(scan.io, task, schema, inside)]
    found = pa.concat_tables(parts or [arrow_schema(schema).empty_table()])
    is_sorted = (np.diff(found.column(OFFSET).to_numpy()) > 0).all()
    return found if is_sorted else found.sort_by(OFFSET)


def _chunks(partition: int, rows: pa.Table) -> Iterator[Chunk]:
    for batch in filter(len, rows.to_batches(_CHUNK_RECORDS)):
        headers = batch.column(HEADERS).to_pylist()
        times = pc.fill_null(pc.struct_field(batch.column(KAFKA), "event_timestamp_ms"), NO_TIMESTAMP)
        yield Chunk(
            partition,
            batch.column(OFFSET).to_pylist(),
            times.to_pylist(),
            pc.struct_field(batch.column(KEY), RAW).to_pylist(),
            pc.struct_field(batch.column(VALUE), RAW).to_pylist(),
            [[(one["key"], one["value"]) for one in each] if each else None for each in headers],
        )

"""Evaluates suites on committed rows: the newest commits, or requested offsets. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.table import FileScanTask, Table

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.config.suites import When
from spark_jobs.connections.connect import load_drained
from spark_jobs.lake.data_files import to_data_file
from spark_jobs.lake.file_rows import ALWAYS_TRUE, rows_of_file
from spark_jobs.lake.row_filters import is_in_any
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.batch import WrittenFile
from spark_jobs.protocol.offsets import NO_RANGES, OffsetRanges
from spark_jobs.protocol.progress import Progress
from spark_jobs.quality.judge import columns_of, judge
from spark_jobs.quality.results import SuiteResult, merged
from spark_jobs.schema.arrow_schema import arrow_schema, no_rows
from spark_jobs.schema.iceberg_types import GENERATION, OFFSET, PARTITION
from spark_jobs.storage.errors import storage_error
from spark_jobs.txlog.entries import Held, is_waiting

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression

    from spark_jobs.connections.connect import Connections


@dataclass(frozen=True, slots=True)
class QualityResult:
    """Every suite's result. ``ranges`` are the offsets evaluated by suites of kind "after".

    A gate's result is that of the batch it holds now; without one it has no failed expectation.
    """

    ranges: OffsetRanges
    suites: tuple[SuiteResult, ...]


def check_quality(
    pipeline: PipelineConfig, connections: Connections, *, since: Mapping[int, int] | None = None
) -> QualityResult:
    """Evaluate committed rows from the offsets ``since`` on (by partition), by default the last batch.

    Rows are judged in parts of at most a batch, so memory does not grow with how much that is. Raises
    ``ConfigError`` (``no-table-yet``) before the first batch, and ``RetryableError``.
    """
    table = load_drained(pipeline, connections)
    progress = progress_of(table)
    ranges = _committed(progress, since)
    after = [suite for suite in pipeline.quality if suite.when is When.AFTER]
    columns = columns_of(after, table.schema())
    parts: dict[str, list[SuiteResult]] = {suite.name: [] for suite in after}
    for part in _cut(ranges, pipeline.max_batch_records) if after and ranges else ():
        rows = rows_of_ranges(table, part, progress.generation, columns)
        for suite in after:
            parts[suite.name].append(judge(suite, rows, table.schema()).result)
    holding = _holding(table, progress, connections)
    found = (
        merged(suite.name, parts[suite.name])
        if suite.name in parts
        else holding.get(suite.name, SuiteResult(suite.name, 0, ()))
        for suite in pipeline.quality
    )
    return QualityResult(ranges, tuple(found))


def _committed(progress: Progress, since: Mapping[int, int] | None) -> OffsetRanges:
    ends = progress.next_offsets
    if since is not None:
        starts = {p: min(since.get(p, progress.starts.get(p, 0)), end) for p, end in ends.items()}
        if newer := OffsetRanges.between(starts, ends):
            return newer
    return progress.last_drained() if progress.last_drain else NO_RANGES


def _cut(ranges: OffsetRanges, most_records: int) -> Iterator[OffsetRanges]:
    """Yield parts of at most this many offsets, one partition each; a small range is one part."""
    if ranges.records <= most_records:
        yield ranges
        return
    for whole in ranges:
        for piece in whole.cut(most_records):
            yield OffsetRanges((piece,))


def _holding(table: Table, progress: Progress, connections: Connections) -> dict[str, SuiteResult]:
    """Return, by suite, the result of the batch that it holds."""
    uuid = str(table.metadata.table_uuid)
    unfinished = connections.txlog.unfinished(uuid, now_us=connections.now_us())
    held = [entry for each in unfinished if is_waiting(each, progress) and (entry := each.entry(Held))]
    results = [SuiteResult.from_json(each) for entry in held for each in entry.failed]
    return {result.suite: result for result in results}


# The rows a suite is judged on: those of files that are written, or those of committed offsets.
#
# They come by partition and offset, so that the first that fail are the first there are: a scan has the
# newest commit first. They are not read by PyIceberg's scan, which takes a null list of structs for an empty
# one.


def rows_of_files(table: Table, files: Sequence[WrittenFile], columns: Sequence[str]) -> pa.Table:
    """Return these columns of data files that are not in a snapshot yet.

    ``table`` is loaded after they were written: files of an earlier schema have nulls in columns added since.
    Raises ``RetryableError`` when storage fails, ``ConfigError`` when it refuses.
    """
    tasks = [FileScanTask(to_data_file(file, table.metadata)) for file in files]
    return _read(table, lambda: tasks, columns, ALWAYS_TRUE)


def rows_of_ranges(table: Table, ranges: OffsetRanges, generation: int, columns: Sequence[str]) -> pa.Table:
    """Return these columns of rows within the ranges. Raises as ``rows_of_files``."""
    inside = is_in_any(ranges, generation)
    return _read(table, table.scan(row_filter=inside).plan_files, columns, inside)


def _read(
    table: Table,
    plan: Callable[[], Iterable[FileScanTask]],
    columns: Sequence[str],
    row_filter: BooleanExpression,
) -> pa.Table:
    schema = table.schema().select(*columns, GENERATION, PARTITION, OFFSET)
    found = [no_rows(arrow_schema(schema))]
    try:
        for task in plan():
            found += rows_of_file(table.io, task, schema, row_filter)
    except OSError as error:
        raise storage_error(error, "reading the rows to judge", table=".".join(table.name())) from error
    rows = pa.concat_tables(found).sort_by([(PARTITION, "ascending"), (OFFSET, "ascending")])
    return rows.select(arrow_schema(table.schema().select(*columns)).names)

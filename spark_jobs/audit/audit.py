"""Audit of a table against Kafka: every readable record of the drained ranges is in it once, unchanged.

Works through the topic in windows of offsets, so memory does not grow with the table. Reads only.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.audit.counts import AuditCounts, AuditResult, example_offsets
from spark_jobs.audit.findings import RoundedColumn, unreadable
from spark_jobs.audit.row_check import RowCheck, row_check
from spark_jobs.audit.row_place import removed_by_others
from spark_jobs.audit.stretches import stretches_of
from spark_jobs.audit.trace_answers import FILTERED_AS
from spark_jobs.connections.connect import PipelineTables, shape_of, tables_as_one
from spark_jobs.kafka.reader import Chunk, RangeReader, open_reader
from spark_jobs.lake.record_offsets import dead_letter_offsets, routed_rows
from spark_jobs.lake.row_filters import rows_in
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.progress_parts import is_outdated, may_leave_out
from spark_jobs.records.row_maker import PLACE, placed_rows
from spark_jobs.schema.declared import check_beside, check_own
from spark_jobs.schema.iceberg_types import OFFSET

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections
    from spark_jobs.protocol.source import SourceState
    from spark_jobs.storage.create_only import CreateOnlyStore

    Offsets: TypeAlias = NDArray[np.int64]

NO_OFFSETS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class _Window:
    """Rows of one window in offset order, and the offsets of dead letters.

    Rows have the pipeline's columns and the name of the table that each is in.
    """

    offsets: OffsetRange
    rows: pa.Table
    dead_letter_offsets: Offsets

    @property
    def every(self) -> Offsets:
        """The offsets of both, sorted."""
        return np.sort(np.concatenate([self.rows.column(OFFSET).to_numpy(), self.dead_letter_offsets]))

    @property
    def counts(self) -> AuditCounts:
        """Counts of the tables, independent of Kafka."""
        every = self.every
        doubled = every[1:][np.diff(every) == 0]
        routed = int(pc.sum(pc.is_valid(self.rows.column(PLACE))).as_py() or 0)
        return AuditCounts(
            rows=self.rows.num_rows - routed,
            routed=routed,
            dead_letters=len(self.dead_letter_offsets),
            duplicates=len(doubled),
            examples=example_offsets("doubled", self.offsets.partition, doubled),
        )


def audit(
    pipeline: PipelineConfig,
    connections: Connections,
    *,
    newest_offsets: int | None = None,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> AuditResult:
    """Compare the table with the topic. ``on_progress`` gets finished and total offsets.

    ``newest_offsets`` bounds the work: so many of the newest ones, shared evenly by the partitions.

    Raises ``RetryableError`` and ``ConfigError`` when one of them cannot be read. A table that does not exist
    yet has nothing to compare: every count is 0 and ``lag`` is the whole topic.
    """
    source = connections.admin.source_state(pipeline.topic)
    tables = tables_as_one(connections, pipeline.table)
    named = {each: getattr(pipeline, each) for each in ("topic", "table", "layout")}
    name_it = partial(AuditResult, pipeline=pipeline.name, **named)
    if tables is None:
        return name_it(lag=source.lag({}))
    check_own(tables.data, pipeline)
    beside = tables.dead_letters, tables.routed.values()
    check_beside(tables.data, *beside, pipeline.dead_letters.columns)
    counts = pipeline.layout.audit(
        pipeline, connections, tables, source, newest_offsets=newest_offsets, on_progress=on_progress
    )
    return name_it(
        **{each.name: getattr(counts, each.name) for each in fields(AuditCounts)},
        snapshots=len(tables.data.metadata.snapshots),
        lag=source.lag(progress_of(tables.data).next_offsets),
    )


def audit_rows(
    pipeline: PipelineConfig,
    connections: Connections,
    tables: PipelineTables,
    source: SourceState,
    *,
    newest_offsets: int | None,
    on_progress: Callable[[int, int], None],
) -> AuditCounts:
    """Compare rows with the records at their offsets, window by window. Raises as ``audit``."""
    table, progress = tables.data, progress_of(tables.data)
    stretches = list(stretches_of(table, source, newest_offsets))
    total = sum(len(each.offsets) for each in stretches)
    done, counts = 0, AuditCounts()
    check, today = row_check(pipeline, connections, table), shape_of(pipeline, connections)
    with open_reader(connections.kafka, pipeline.topic) as reader:
        for stretch in stretches:
            window = stretch.offsets
            held = _held(pipeline, connections.state, tables, window)
            missing = NO_OFFSETS
            # Neither what has been skipped nor what Kafka no longer holds is compared with it.
            if stretch.is_skipped:
                found = replace(held.counts, skipped=len(window) - len(np.unique(held.every)))
            elif window.end <= source.low.get(window.partition, 0):
                found = replace(held.counts, gone=len(window))
            else:
                found, missing = _compare_window(check, reader, held)
            if is_outdated(stretch.shape, today):
                found = _outdated(found, window)
            if len(missing) and may_leave_out(stretch.shape, today):
                found += _left_out(window, missing)
            elif len(missing):
                removed = removed_by_others(tables.every, window, progress.generation, missing)
                found += _absent(window.partition, missing, removed)
            counts += found
            done += len(window)
            on_progress(done, total)
    return counts


def _outdated(found: AuditCounts, window: OffsetRange) -> AuditCounts:
    """Return the counts, with differing rows of an earlier configuration counted as outdated."""
    if not found.differing:
        return found
    return replace(
        found,
        differing=0,
        outdated=found.differing,
        outdated_ranges=(window,),
        examples=tuple(each.replace("differing", "outdated") for each in found.examples),
    )


def _left_out(window: OffsetRange, missing: Offsets) -> AuditCounts:
    """Return records without a row that an earlier configuration may have left out."""
    examples = example_offsets("outdated", window.partition, missing)
    return AuditCounts(outdated=len(missing), outdated_ranges=(window,), examples=examples)


def _held(
    pipeline: PipelineConfig, state: CreateOnlyStore, tables: PipelineTables, window: OffsetRange
) -> _Window:
    table, generation = tables.data, progress_of(tables.data).generation
    try:
        dead = dead_letter_offsets(table, tables.dead_letters, generation, window, state)
        routed = routed_rows(table, tables.routed, window)
        return _Window(window, placed_rows(rows_in(table, window, generation), routed), dead)
    except (OSError, pa.ArrowException) as error:
        raise unreadable(str(window), pipeline.name, pipeline.table, error) from error


def _compare_window(check: RowCheck, reader: RangeReader, held: _Window) -> tuple[AuditCounts, Offsets]:
    """Return the counts, and the offsets of readable records that are in no table."""
    found, every = held.counts, held.every
    row_offsets = held.rows.column(OFFSET).to_numpy()
    first_rows = held.rows.take(np.unique(row_offsets, return_index=True)[1])
    missing = [NO_OFFSETS]
    for chunk in reader.read(held.offsets):
        compared, absent = _compare_chunk(check, chunk, first_rows, every)
        found += compared
        missing.append(absent)
    return found, np.concatenate(missing)


def _absent(partition: int, missing: Offsets, removed: Offsets) -> AuditCounts:
    """Return missing offsets, without those that another program removed."""
    lost = np.setdiff1d(missing, removed)
    examples = example_offsets("missing", partition, lost) + example_offsets("removed", partition, removed)
    return AuditCounts(missing=len(lost), removed=len(removed), examples=examples)


def _compare_chunk(
    check: RowCheck, chunk: Chunk, held_rows: pa.Table, every: Offsets
) -> tuple[AuditCounts, Offsets]:
    offsets = np.asarray(chunk.offsets)
    is_counted = not check.takes_tombstones
    is_tombstone = np.fromiter(
        (is_counted and value is None for value in chunk.values), dtype=bool, count=len(offsets)
    )
    # A chunk has its offsets once each, whatever the table has: making sure would take a quarter of an audit.
    missing = np.setdiff1d(offsets[~is_tombstone], every, assume_unique=True)
    by_reason = check.left_out(chunk, missing)
    left_out = np.concatenate([NO_OFFSETS, *by_reason.values()])
    passed = {why: len(at) for why, at in by_reason.items() if why not in FILTERED_AS}
    differences = check.compare(chunk, held_rows)
    differing, rounded = differences.differing, differences.every_rounded
    found = AuditCounts(
        tombstones=int(is_tombstone.sum()),
        filtered=len(left_out) - sum(passed.values()),
        passed=passed,
        differing=len(differing),
        rounded=len(rounded),
        rounded_columns=tuple(
            RoundedColumn(*column, len(rows)) for column, rows in differences.rounded.items() if len(rows)
        ),
        examples=example_offsets("differing", chunk.partition, differing)
        + example_offsets("rounded", chunk.partition, rounded),
    )
    return found, np.setdiff1d(missing, left_out)

"""Chunks of records as segments, by the drain's own decoding and shaping.

A row that fits the columns the table has is the row that a drain writes, but for ``_ingested_at`` and, of a
dead letter, ``batch_id``: both are null until it is in the lake. Of a field that has no column yet a row has
nothing; what the drain then makes a dead letter of, for the type of such a field, moves there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.config.columns import NewFields
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.hot.asked_schemas import AskedSchemas, SchemasAsked
from spark_jobs.hot.seam import Seam
from spark_jobs.hot.segment import Segment
from spark_jobs.hot.watermark import Epoch
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.records.reading_plan import ReadingPlan
from spark_jobs.records.shape import Origin
from spark_jobs.schema.additions import check_declared, declared_evolution
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.metadata_columns import OFFSET, PARTITION

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_jobs.connections.writer_schemas import RecordSchemas
    from spark_jobs.hot.decoding_notes import DecodingNotes
    from spark_jobs.kafka.chunks import Chunk
    from spark_jobs.records.row_maker import RowMaker


class SegmentMaker:
    """Makes the segments of one epoch, with the columns that the table has at the seam."""

    def __init__(
        self, pipeline: PipelineConfig, schemas: RecordSchemas | AskedSchemas, seam: Seam, epoch: Epoch
    ) -> None:
        """Raises ``ConfigError`` as planning a drain does, and what asking for schemas raises."""
        if seam.dead_letters is None:  # dropped: the next drain makes it again
            raise fault("no-table-yet", **pipeline.where)
        check_declared(pipeline, seam.table)
        self._epoch, self._columns = epoch, seam.table.schema()
        self._letters = arrow_schema(seam.dead_letters.schema())
        progress = schemas.planned(seam.progress) if pipeline.has_schemas else seam.progress
        # Columns that were declared since are made, as expressions may speak of them, and left out again.
        missing = replace(declared_evolution(pipeline, self._columns), widenings={})
        self._plan = ReadingPlan(pipeline, schemas, self._columns, progress).with_columns(missing)

    def segments(self, chunk: Chunk, starts: Mapping[int, int]) -> Iterator[Segment]:
        """Return a segment for each of the chunk's partitions, beginning where ``starts`` says.

        It ends behind the last record. Raises what asking for schemas raises.
        """
        made, self._plan = self._plan.make(chunk, self._rows)
        rows = made.rows.select([field.name for field in self._columns.fields])
        rows_of, letters_of = _by_partition(rows), _by_partition(made.dead_letters)
        first = 0
        for partition, count in chunk.counts.items():
            offsets = np.fromiter(chunk.offsets[first : first + count], np.int64, count)
            values = chunk.values[first : first + count]
            first += count
            own = rows_of.get(partition, rows.slice(0, 0))
            letters = letters_of.get(partition, made.dead_letters.slice(0, 0))
            tombstones, filtered = _neither(offsets, values, own, letters)
            counted = made.balances[partition]
            if (len(tombstones), len(filtered)) != (counted.tombstones, counted.get("filtered", 0)):
                raise AssertionError(f"a record of partition {partition} is neither a row nor counted")
            start, end = starts[partition], int(offsets[-1]) + 1
            yield Segment(self._epoch, partition, start, end, own, letters, tombstones, filtered)

    def _rows(self, plan: ReadingPlan) -> RowMaker:
        if plan.growth.has_ended and plan.growth.new_fields is NewFields.ADD:
            plan = plan.under(replace(plan.growth, new_fields=NewFields.IGNORE))
        origin = Origin(plan.pipeline.topic, plan.progress.generation, ingested_at_us=None)
        return plan.rows(origin, letters=self._letters)


def _neither(
    offsets: np.ndarray, values: Sequence[bytes | None], rows: pa.Table, letters: pa.Table
) -> tuple[np.ndarray, np.ndarray]:
    """Return the offsets of tombstones, and of records that a filter left out."""
    there = rows.column(OFFSET).to_numpy()
    if np.array_equal(there, offsets):  # as nearly always
        return offsets[:0], offsets[:0]
    is_tombstone = np.fromiter((value is None for value in values), bool, len(values))
    there = np.concatenate([there, letters.column(OFFSET).to_numpy()])
    return offsets[is_tombstone], np.setdiff1d(offsets[~is_tombstone], there, assume_unique=True)


def _by_partition(table: pa.Table) -> dict[int, pa.Table]:
    """Return each partition's rows, which follow one another; nothing is copied."""
    partitions = table.column(PARTITION).to_numpy()
    bounds = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist(), len(partitions)]
    found = {int(partitions[a]): table.slice(a, b - a) for a, b in pairwise(bounds) if a < b}
    if sum(map(len, found.values())) != len(table):
        raise AssertionError("a partition's rows do not follow one another")
    return found


# What came, as segments: each decoding noted, a partition left out from where schemas are missing.


def segments_of(
    chunks: Iterable[Chunk],
    maker: SegmentMaker,
    notes: DecodingNotes,
    epoch: Epoch,
    starts: Mapping[int, int],
) -> tuple[list[Segment], set[int]]:
    """Return the chunks' segments, from ``starts`` on, and the partitions that end before some of them.

    Of those nothing is made from the chunk on whose schemas are still asked for.
    """
    segments: list[Segment] = []
    waiting: set[int] = set()
    positions, left = dict(starts), deque(chunks)
    while left:
        chunk = left.popleft()
        # Over which partition's records someone died, one by one tells.
        if chunk.runs and (waiting or notes.someone_died):
            left.extendleft(reversed([*chunk.parts()]))
        elif chunk.partition not in waiting:
            try:
                with notes.decoding(epoch, _ranges(chunk)):
                    made = list(maker.segments(chunk, positions))
            except SchemasAsked:
                left.extendleft(reversed([*chunk.parts()]) if chunk.runs else ())
                waiting |= set() if chunk.runs else {chunk.partition}
                continue
            positions |= {segment.partition: segment.end for segment in made}
            segments += made
    return segments, waiting


def _ranges(chunk: Chunk) -> Iterator[OffsetRange]:
    """Where each partition's records of a chunk begin and end."""
    first = 0
    for partition, records in chunk.counts.items():
        last = first + records - 1
        yield OffsetRange(partition, chunk.offsets[first], chunk.offsets[last] + 1)
        first += records

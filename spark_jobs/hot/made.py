"""Chunks of records as segments, by the drain's own decoding and shaping.

A row that fits the columns the table has is the row that a drain writes, but for ``_ingested_at`` and, of a
dead letter, ``batch_id``: both are null until it is in the lake. Of a field that has no column yet a row has
nothing; what the drain then makes a dead letter of, for the type of such a field, moves there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.config.columns import NewFields
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.tables import no_table_yet
from spark_jobs.hot.asked_schemas import SchemasAsked
from spark_jobs.hot.seam import Seam
from spark_jobs.hot.segment import Segment
from spark_jobs.hot.watermark import Epoch
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.records.formats import format_of
from spark_jobs.records.row_maker import NewFieldsSeen, RowMaker
from spark_jobs.records.shape import Origin
from spark_jobs.records.shaped_rows import checked_shaping
from spark_jobs.schema.additions import check_declared, declared_evolution
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.evolution import evolved
from spark_jobs.schema.metadata_columns import OFFSET, PARTITION
from spark_jobs.schema.partitioning import field_names

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_jobs.connections.writer_schemas import RecordSchemas
    from spark_jobs.hot.decoding_notes import DecodingNotes
    from spark_jobs.kafka.chunks import Chunk
    from spark_jobs.protocol.progress import Progress
    from spark_jobs.protocol.schema_id import SchemaKey
    from spark_jobs.records.row_maker import ChunkRows


class SegmentMaker:
    """Makes the segments of one epoch, with the columns that the table has at the seam."""

    def __init__(
        self,
        pipeline: PipelineConfig,
        schemas: RecordSchemas,
        seam: Seam,
        epoch: Epoch,
        *,
        learn: Callable[[Collection[SchemaKey], Progress], object],
    ) -> None:
        """``learn`` lets ``schemas`` know what records name.

        Raises ``ConfigError`` as planning a drain does, and what asking for schemas raises.
        """
        if seam.dead_letters is None:  # dropped: the next drain makes it again
            raise no_table_yet(pipeline)
        check_declared(pipeline, seam.table)
        self._pipeline, self._schemas, self._epoch, self._learn = pipeline, schemas, epoch, learn
        self._progress = schemas.planned(seam.progress) if pipeline.has_schemas else seam.progress
        self._columns = seam.table.schema()
        self._letters = arrow_schema(seam.dead_letters.schema())
        self._maker = self._with_known()

    def segments(self, chunk: Chunk, starts: Mapping[int, int]) -> Iterator[Segment]:
        """Return a segment for each of the chunk's partitions, beginning where ``starts`` says.

        It ends behind the last record. Raises what ``learn`` raises.
        """
        made = self._made(chunk)
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

    def _made(self, chunk: Chunk) -> ChunkRows:
        while True:
            decoder = self._maker.decoder
            try:
                return self._maker.make(chunk)
            except NewFieldsSeen:
                if not (named := decoder.observe(chunk).schemas):
                    break
            self._learn(named, self._progress)
            self._maker = self._with_known()
        passing = decoder.under(replace(decoder.growth, new_fields=NewFields.IGNORE).ended())
        return replace(self._maker, decoder=passing).make(chunk)

    def _with_known(self) -> RowMaker:
        """Return what makes rows by the schemas that are known now."""
        pipeline, progress = self._pipeline, self._progress
        # Columns that were declared since are made, as expressions may speak of them, and left out again.
        missing = replace(declared_evolution(pipeline, self._columns), widenings={})
        schema = arrow_schema(evolved(self._columns, missing))
        known = self._schemas.known(progress)
        decoder = format_of(pipeline, known, self._columns, progress.columns).decoder
        return RowMaker(
            decoder.keeping(progress.kept_columns, progress.generation),
            Origin(pipeline.topic, progress.generation, ingested_at_us=None),
            None,
            schema,
            self._letters,
            shaping=checked_shaping(pipeline, schema, field_names(self._columns, progress.columns)),
            letter_columns={
                name: column
                for name, column in pipeline.dead_letters.columns.items()
                if name in self._letters.names
            },
        )


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

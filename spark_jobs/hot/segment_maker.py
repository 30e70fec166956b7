"""Makes segments from chunks of records, with the decoding and shaping of drains.

A row that fits the table's columns is the row that a drain writes, except ``_ingested_at`` and, for a dead
letter, ``batch_id``: both are null until it is in the lake. A field without a column yet is left out of the
row; if its type makes the drain write a dead letter, the record moves there.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from threading import Thread
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.config.columns import NewFields
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.hot.prefix import Seam
from spark_jobs.hot.segment import Segment
from spark_jobs.hot.tail_status import stopped
from spark_jobs.hot.watermark import Epoch
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.records.reading_plan import ReadingPlan
from spark_jobs.records.shape import Origin
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.declared import check_declared, declared_evolution
from spark_jobs.schema.iceberg_types import OFFSET, PARTITION

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_jobs.connections.writer_schemas import RecordSchemas
    from spark_jobs.hot.decoding_notes import DecodingNotes
    from spark_jobs.hot.prefix import HeldRecords
    from spark_jobs.kafka.chunks import Chunk
    from spark_jobs.kafka.tail_reader import TailReader, Taken
    from spark_jobs.protocol.offsets import SchemaKey
    from spark_jobs.protocol.progress import Progress
    from spark_jobs.records.row_maker import RowMaker
    from spark_jobs.schema.column_source import KnownSchemas


# Schemas that records name are requested in the background: a slow registry does not delay other partitions.
#
# A partition that needs one is retried later; the others continue.


_log = logging.getLogger(__name__)
_AGAIN_SECONDS = 1.0


class SchemasAsked(Exception):
    """Raised if records name schemas that are still being requested."""


class AskedSchemas:
    """The schemas of one pipeline; ``error`` is that of the last request, while partitions wait for it."""

    def __init__(self, pipeline: PipelineConfig, schemas: RecordSchemas) -> None:
        self._pipeline, self._schemas = pipeline, schemas
        self._answered: set[SchemaKey] = set()
        self._thread: Thread | None = None
        self._again_at = 0.0
        self._waiting: set[int] = set()
        self._left: set[int] = set()  # of those the ones that are not read, until there is an answer
        self.error: SluiceError | None = None

    def planned(self, progress: Progress) -> Progress:
        """See ``RecordSchemas``."""
        return self._schemas.planned(progress)

    def known(self, progress: Progress | None = None) -> KnownSchemas:
        """See ``RecordSchemas``."""
        return self._schemas.known(progress)

    def learn(self, named: Collection[SchemaKey], progress: Progress | None = None) -> None:
        """Return if all of ``named`` are known; else request them and raise ``SchemasAsked``."""
        if self._answered.issuperset(named):
            return
        if not self._is_asking:
            self._thread = Thread(target=self._ask, args=(named, progress), name="schemas", daemon=True)
            self._thread.start()
        raise SchemasAsked

    def leave_out(self, reader: TailReader, taken: Taken, late: set[int]) -> None:
        """Stop reading ``late``: the partitions of ``taken`` that wait for schemas."""
        if late:
            reader.leave(late)
            self._left |= late
        self._waiting = (self._waiting - taken.partitions) | late
        if not self._waiting:
            self.error = None

    def try_again(self, reader: TailReader, held: HeldRecords) -> None:
        """Resume the left-out partitions at their ends, if their schemas may be known now."""
        if self._left and not self._is_asking:
            reader.follow({partition: held.tails[partition].end for partition in self._left})
            self._left = set()

    @property
    def _is_asking(self) -> bool:
        """True while a request is open, or the next one is not due."""
        is_under_way = self._thread is not None and self._thread.is_alive()
        return is_under_way or time.monotonic() < self._again_at

    def _ask(self, named: Collection[SchemaKey], progress: Progress | None) -> None:
        try:
            self._schemas.learn(named, progress)
        except SluiceError as error:
            self.error = error.with_traceback(None)
        except Exception as error:  # noqa: BLE001  (else partitions would wait without a reason)
            _log.exception("asking for schemas of %s failed, and is tried again", self._pipeline.name)
            self.error = stopped(self._pipeline, error)
        else:
            self._answered.update(named)
            return
        self._again_at = time.monotonic() + _AGAIN_SECONDS


# Segments of what was read.


class SegmentMaker:
    """Makes the segments of one epoch, with the table's columns at the boundary."""

    def __init__(
        self, pipeline: PipelineConfig, schemas: RecordSchemas | AskedSchemas, seam: Seam, epoch: Epoch
    ) -> None:
        """Prepare decoding. Raises ``ConfigError`` as planning a drain does, and the errors of registries."""
        if seam.dead_letters is None:  # dropped: the next drain makes it again
            raise fault("no-table-yet", **pipeline.where)
        check_declared(pipeline, seam.table)
        self._epoch, self._columns = epoch, seam.table.schema()
        self._letters = arrow_schema(seam.dead_letters.schema())
        progress = schemas.planned(seam.progress) if pipeline.has_schemas else seam.progress
        # Columns declared since then are added, since expressions may use them, and left out of the rows.
        missing = replace(declared_evolution(pipeline, self._columns), widenings={})
        self._plan = ReadingPlan(pipeline, schemas, self._columns, progress).with_columns(missing)

    def segments(self, chunk: Chunk, starts: Mapping[int, int]) -> Iterator[Segment]:
        """Return a segment for each of the chunk's partitions, beginning at ``starts``.

        It ends behind the last record. Raises the errors of requesting schemas.
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
    """Return the consecutive rows of each partition, without copying."""
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
    """Return the chunks' segments from ``starts`` on, and the partitions that end before some of them.

    Those partitions stop before the chunk whose schemas are still being requested.
    """
    segments: list[Segment] = []
    waiting: set[int] = set()
    positions, left = dict(starts), deque(chunks)
    while left:
        chunk = left.popleft()
        # Decoding partitions one by one shows which one's records caused a death.
        if chunk.runs and (waiting or notes.has_suspects):
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
    """Return the position of each partition's records in a chunk."""
    first = 0
    for partition, records in chunk.counts.items():
        last = first + records - 1
        yield OffsetRange(partition, chunk.offsets[first], chunk.offsets[last] + 1)
        first += records

"""The records of one answer: a state of the lake, and the hot segments that follow it by partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression, Or

from spark_jobs.commit.anchor import check_anchor
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import tables_as_one
from spark_jobs.hot.segment import Segment, Share, Tail, shares_of
from spark_jobs.hot.watermark import Epoch, Watermark
from spark_jobs.kafka.reader import cut_below
from spark_jobs.lake.dead_letter_files import leaving
from spark_jobs.lake.file_rows import NOTHING_PENDING, PendingRows, scan_schema
from spark_jobs.lake.record_offsets import as_read, pending_by, pending_to
from spark_jobs.lake.row_filters import is_below, is_in_range
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.source import SourceState, drain_refusal
from spark_jobs.schema.iceberg_types import GENERATION

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections
    from spark_jobs.protocol.progress import PendingDeadLetters, Progress
    from spark_jobs.storage.create_only import CreateOnlyStore


# The boundary between lake and Kafka: a loaded table, its offsets and its other tables as one state.
#
# Any state that the table ever had does: rows of its snapshot lie below its offsets, hot ones at or past.
# A look at both sides sees the lake first, then the topic, which a drain would go on from there.


_NO_END = (1 << 63) - 1  # past every offset


@dataclass(frozen=True)
class Seam:
    """A state of a table, its dead-letter table, and the tables it routes rows to, by name.

    The other tables may be some commits ahead, but not past a replay or a rollback.
    """

    table: Table
    dead_letters: Table | None
    state: CreateOnlyStore
    routed: Mapping[str, Table] = field(default_factory=dict)

    @cached_property
    def progress(self) -> Progress:
        """The table's progress; its ``next_offsets`` are the boundary between lake and hot tail."""
        return progress_of(self.table)

    @cached_property
    def columns(self) -> pa.Schema:
        """The table's columns as returned by its scan."""
        return scan_schema(self.table.scan())

    @cached_property
    def pending_rows(self) -> PendingRows:
        """The rows that complete the dead-letter table for this state.

        Pending dead letters of the table count as present, the rows that they replace as removed; rows of
        later commits are left out.
        """
        if self.dead_letters is None:
            return NOTHING_PENDING
        return self._rows_of(self.pending, self.dead_letters)

    @cached_property
    def pending(self) -> PendingDeadLetters | None:
        """The dead letters that are committed with the table and not yet in their own table."""
        return pending_by(self.table, self.dead_letters)

    def is_before(self, other: Seam) -> bool:
        """True if ``other`` is a later state of the same table."""
        mine, its = self.table.metadata, other.table.metadata
        numbers = (getattr(each, "last_sequence_number", 0) for each in (mine, its))
        return mine.table_uuid == its.table_uuid and next(numbers) < next(numbers)

    def pending_to(self, name: str) -> PendingRows:
        """Return the rows that complete a routed table for this state."""
        return self._rows_of(pending_to(self.table, name, self.routed[name]), self.routed[name])

    def _rows_of(self, pending: PendingDeadLetters | None, other: Table) -> PendingRows:
        replaced = () if pending is None else leaving(self.state, pending).ranges
        gone = (*replaced, *self._ahead(progress_of(other)))
        return as_read(pending, self.progress.generation, gone)

    def _ahead(self, other: Progress) -> Iterator[OffsetRange]:
        if other.generation != self.progress.generation:
            return
        for partition, offset in other.next_offsets.items():
            if offset > (seam := self.progress.next_offsets.get(partition, 0)):
                yield OffsetRange(partition, seam, _NO_END)


def load_seam(pipeline: PipelineConfig, connections: Connections) -> Seam:
    """Load all tables as one state. Raises ``ConfigError`` (``no-table-yet``) and as ``load_table``."""
    tables = tables_as_one(connections, pipeline.table)
    if tables is None:
        raise fault("no-table-yet", **pipeline.where)
    return Seam(tables.data, tables.dead_letters, connections.state, tables.routed)


@dataclass(frozen=True, slots=True)
class Look:
    """The result of one look at a pipeline: the table if it is newer, the topic, and the time."""

    at: float
    seam: Seam | SluiceError | None
    source: SourceState | SluiceError


def look(pipeline: PipelineConfig, connections: Connections) -> tuple[Seam, Epoch, SourceState]:
    """Return the state from which a drain would continue.

    Raises ``ConfigError`` (``no-table-yet``, ``hot-needs-topic-ids``), and what planning a drain raises.
    """
    seam = load_seam(pipeline, connections)
    check_anchor(seam.table)
    progress, source = seam.progress, connections.admin.source_state(pipeline.topic)
    ask_leader = partial(cut_below, connections.kafka, progress, source)
    refusal = drain_refusal(progress, source, table=pipeline.table, ask_leader=ask_leader)
    if refusal is not None:
        raise refusal
    if source.topic_id is None or progress.topic_id is None:
        raise fault("hot-needs-topic-ids", pipeline=pipeline.name, topic=pipeline.topic)
    uuid = str(seam.table.metadata.table_uuid)
    return seam, Epoch(uuid, source.topic_id, progress.generation, progress.rollbacks), source


_COLUMNS = (
    *(("generation", pa.int32()), ("rollbacks", pa.int32()), ("partition", pa.int32())),
    *((name, pa.int64()) for name in ("start_offset", "seam_offset", "end_offset", "hot_rows")),
    *(("snapshot_id", pa.int64()), ("age_ms", pa.int64())),
)


@dataclass(frozen=True)
class Prefix:
    """Every readable record below the watermark's ends, and none at or past them, except skipped ones.

    The lake has the records in ``[start, seam)`` of each share. ``age_ms`` is the age of the look at the
    topic's ends. With ``is_cut`` the lake has more records than the answer may have.
    """

    seam: Seam
    shares: tuple[Share, ...]
    age_ms: int
    is_cut: bool = False

    @property
    def watermark(self) -> Watermark:
        """The watermark of these records."""
        progress = self.seam.progress
        ends = {share.partition: share.end for share in self.shares}
        return Watermark(progress.generation, progress.rollbacks, ends)

    @property
    def lake_filter(self) -> BooleanExpression:
        """The condition that selects the answer's rows and dead letters in the lake."""
        if not self.is_cut:
            return AlwaysTrue()
        generation = self.seam.progress.generation
        kept = [is_in_range(OffsetRange(s.partition, 0, s.end), generation) for s in self.shares]
        earlier = is_below(GENERATION, generation)
        return Or(earlier, *kept) if kept else earlier

    @cached_property
    def rows(self) -> list[pa.Table]:
        """The rows that are not in the lake."""
        return [segment.rows for share in self.shares for segment in share.segments]

    @cached_property
    def dead_letters(self) -> list[pa.Table]:
        """The dead letters that are not in the lake."""
        return [segment.dead_letters for share in self.shares for segment in share.segments]

    def as_table(self) -> pa.Table:
        """Return the watermark as a table with one row per partition, in order."""
        marked = self.watermark
        lake = self.seam.table.metadata.current_snapshot_id
        rows = [
            (
                *(marked.generation, marked.rollbacks, each.partition),
                *(each.start, each.seam, each.end, each.hot_rows, lake, self.age_ms),
            )
            for each in self.shares
        ]
        columns = zip(*rows, strict=True) if rows else [()] * len(_COLUMNS)
        arrays = [pa.array(values, kind) for values, (_, kind) in zip(columns, _COLUMNS, strict=True)]
        return pa.Table.from_arrays(arrays, names=[name for name, _ in _COLUMNS])


# What is held of a pipeline: a state of the lake and of each partition the tail that follows it.
#
# It never changes: who has one has an exact answer, whatever comes, is drained or is let go of meanwhile.


@dataclass(frozen=True)
class HeldRecords:
    """The records held for answers; ``tails`` cover all known partitions of the topic."""

    seam: Seam
    epoch: Epoch
    tails: Mapping[int, Tail]

    @classmethod
    def at(cls, seam: Seam, epoch: Epoch, positions: Mapping[int, int]) -> HeldRecords:
        """Return an empty one that continues from the positions."""
        return cls(seam, epoch, {p: Tail.at(epoch, p, offset) for p, offset in positions.items()})

    @property
    def ends(self) -> dict[int, int]:
        """The ends (exclusive) of the records in an answer, by partition."""
        return {p: max(tail.end, self._seam_of(p)) for p, tail in self.tails.items()}

    @property
    def watermark(self) -> Watermark:
        """The watermark of an answer."""
        return Watermark(self.epoch.generation, self.epoch.rollbacks, self.ends)

    @property
    def size_bytes(self) -> int:
        """Memory used by the hot records."""
        return sum(tail.size_bytes for tail in self.tails.values())

    @property
    def is_overtaken(self) -> bool:
        """True if the lake has records of a partition that were not read here yet."""
        return any(tail.end < self._seam_of(p) for p, tail in self.tails.items())

    def with_more(self, segments: Iterable[Segment], ends: Mapping[int, int]) -> HeldRecords:
        """Return it with further segments; no other record below ``ends`` is readable."""
        tails = dict(self.tails)
        for segment in segments:
            tails[segment.partition] = tails[segment.partition].append(segment)
        for partition, end in ends.items():
            tails[partition] = tails[partition].up_to(end)
        return replace(self, tails=tails)

    def with_partitions(self, positions: Mapping[int, int]) -> HeldRecords:
        """Return it with further partitions, each starting at its position."""
        new = {p: Tail.at(self.epoch, p, offset) for p, offset in positions.items() if p not in self.tails}
        return replace(self, tails={**self.tails, **new})

    def is_ahead_of(self, seam: Seam) -> bool:
        """True if it has a later state of the lake than ``seam``."""
        if seam.is_before(self.seam) or not self.goes_on_under(seam):
            return seam.is_before(self.seam)
        offsets = seam.progress.next_offsets
        return any(offsets.get(p, 0) < at for p, at in self.seam.progress.next_offsets.items())

    def goes_on_under(self, seam: Seam) -> bool:
        """True if records become the same rows with the newer state of the lake."""
        return _what_makes_rows(self.seam) == _what_makes_rows(seam)

    def under(self, seam: Seam) -> HeldRecords:
        """Return it with a newer state of the lake of the same epoch, without the records in it."""
        offsets = seam.progress.next_offsets
        tails = {p: tail.covered(offsets.get(p, tail.start)) for p, tail in self.tails.items()}
        return replace(self, seam=seam, tails=tails)

    def prefix(self, *, age_ms: int, at: Watermark | None = None) -> Prefix:
        """Return the records of an answer, up to ``at``, a watermark of the same epoch."""
        until = None if at is None else at.ends
        seams = {p: self._seam_of(p) for p in self.tails}
        shares = shares_of(self.epoch, self.seam.progress.starts, seams, self.tails, until)
        is_cut = until is not None and any(offset > until.get(p, 0) for p, offset in seams.items())
        return Prefix(self.seam, shares, age_ms, is_cut)

    def _seam_of(self, partition: int) -> int:
        """Return the table's next offset; for a partition that it does not know, the start of reading."""
        known = self.seam.progress.next_offsets
        return known.get(partition, self.tails[partition].start)


def _what_makes_rows(seam: Seam) -> tuple[object, ...]:
    progress, letters = seam.progress, seam.dead_letters
    epoch = seam.table.metadata.table_uuid, progress.generation, progress.rollbacks
    columns = seam.table.schema().fields, None if letters is None else letters.schema().fields
    # One that the registry did not have when it was asked here makes rows of what were dead letters.
    schemas = frozenset(progress.schemas)
    return *epoch, *columns, schemas, progress.columns, progress.kept_columns, progress.schema_spans

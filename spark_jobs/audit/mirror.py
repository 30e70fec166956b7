"""Audit of a mirror against Kafka: every key has the row that its changes leave, and no other key.

All that Kafka holds is folded in memory, by the plain decoder and a fold of its own. Where that is not the
whole topic only keys whose last change it holds are compared. Reads only.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.audit.counts import AuditCounts, example_offsets
from spark_jobs.audit.findings import unreadable
from spark_jobs.audit.plain_fold import OLD_KEY, Place, Row, fold, is_untold, place_of
from spark_jobs.audit.row_check import NOT_COMPARED, RowCheck, row_check
from spark_jobs.audit.stretches import Stretch, stretches_of
from spark_jobs.connections.connect import shape_of
from spark_jobs.formats.connect.plain_keys import old_key
from spark_jobs.kafka.reader import Chunk, RangeReader, open_reader
from spark_jobs.lake.file_rows import rows_of_file
from spark_jobs.lake.record_offsets import dead_letter_offsets
from spark_jobs.lake.tables import progress_of
from spark_jobs.mirror.keys import refuse_other_spellings
from spark_jobs.protocol.progress_parts import is_outdated
from spark_jobs.records.layouts.changes import spelling_of
from spark_jobs.schema.iceberg_types import (
    COMMIT_SEQUENCE,
    HEADERS,
    METADATA_COLUMNS,
    OFFSET,
    PARTITION,
    ROW_ID,
    SEQUENCE,
    SOURCE,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray
    from pyiceberg.table import Table

    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections, PipelineTables
    from spark_jobs.formats.connect.keys import Spelling
    from spark_jobs.protocol.cdc import Cdc
    from spark_jobs.protocol.offsets import OffsetRange
    from spark_jobs.protocol.source import SourceState

_OLD_KEY_HEADER = "__debezium.oldkey"


def audit_mirror(
    pipeline: PipelineConfig,
    connections: Connections,
    tables: PipelineTables,
    source: SourceState,
    *,
    newest_offsets: int | None,
    on_progress: Callable[[int, int], None],
) -> AuditCounts:
    """Compare a mirror with the topic. Raises as ``audit``."""
    cdc = progress_of(tables.data).cdc
    refuse_other_spellings(tables.data, spelling_of(pipeline, cdc), pipeline.name)
    reading = _Reading(pipeline, connections, tables, source, newest_offsets)
    changes = reading.changes(on_progress)
    is_whole = reading.is_whole
    emptied = None if is_whole else _emptied_at(cdc)
    rows, cut_below = fold(changes, emptied, reading.restarts, is_whole=is_whole)
    again = behind_recorded(reading.furthest, cdc) if cdc and not is_whole else set()
    known = {key: row for key, row in rows.items() if row[PARTITION] not in again}
    judging = _Judging(reading, known, cut_below)
    for part in _live_rows(pipeline, tables.data):
        for held in judging.judgeable(part).to_pylist():
            judging.judge(held)
    compared = judging.finished()
    folded = reading.told - compared.rows - compared.missing
    return reading.counts + replace(compared, folded=max(0, folded))


def _emptied_at(cdc: Cdc | None) -> Place | None:
    """Return the last position of a truncate in the source's log."""
    if cdc is None or cdc.truncated_below is None:
        return None
    return cdc.truncated_in, cdc.truncated_below


def behind_recorded(furthest: Mapping[int, tuple[int, int, int]], cdc: Cdc) -> set[int]:
    """Return partitions whose events end before the recorded position: newer changes are missing.

    ``furthest`` is how far each was read in its source's log.
    """
    places = {p: (each.identity, each.commit, each.sequence) for p, each in cdc.positions.items()}
    return {p for p, place in furthest.items() if place < places.get(p, place)}


def _live_rows(pipeline: PipelineConfig, table: Table) -> Iterator[pa.Table]:
    for task in table.scan().plan_files():
        try:
            yield from rows_of_file(table.io, task, table.schema())
        except (OSError, pa.ArrowException) as error:
            raise unreadable(task.file.file_path, pipeline.name, pipeline.table, error) from error


@dataclass(slots=True)
class _Reading:
    """Kafka's records at the drained offsets; ``counts`` and ``told`` cover the records read so far."""

    pipeline: PipelineConfig
    connections: Connections
    tables: PipelineTables
    source: SourceState
    newest_offsets: int | None
    counts: AuditCounts = field(default_factory=AuditCounts)
    told: int = 0
    own: str | None = None
    furthest: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    check: RowCheck = field(init=False)
    stretches: list[Stretch] = field(init=False)
    first: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        table, cdc = self.tables.data, progress_of(self.tables.data).cdc
        self.own = cdc.source if cdc else None
        self.check = row_check(self.pipeline, self.connections, table)
        if SOURCE not in self.check.schema.names:  # a mirror that an earlier version filled
            self.check = replace(self.check, schema=self.check.schema.append(pa.field(SOURCE, pa.string())))
        self.stretches = list(stretches_of(table, self.source, self.newest_offsets))
        held = [each.offsets for each in self.stretches if not self._is_gone(each.offsets)]
        ends = dict(progress_of(table).next_offsets)
        self.first = ends | {each.partition: each.start for each in reversed(held)}

    @property
    def is_whole(self) -> bool:
        """True if all records behind the rows were read."""
        progress = progress_of(self.tables.data)
        begun = progress.first_offsets
        return all(self.first[p] <= begun.get(p, 0) for p in progress.next_offsets)

    @property
    def restarts(self) -> tuple[dict[int, int], ...]:
        """Offsets from which the source counts its positions again."""
        cdc = progress_of(self.tables.data).cdc
        return cdc.restarts if cdc else ()

    @property
    def outdated(self) -> list[OffsetRange]:
        """Offsets with rows of another configuration than today's."""
        today = shape_of(self.pipeline, self.connections)
        return [each.offsets for each in self.stretches if is_outdated(each.shape, today)]

    def changes(self, on_progress: Callable[[int, int], None]) -> Iterator[Row]:
        """Yield the changes, as the plain decoder reads them, and count other records."""
        total, done = sum(len(each.offsets) for each in self.stretches), 0
        with open_reader(self.connections.kafka, self.pipeline.topic) as reader:
            for stretch in self.stretches:
                if stretch.is_skipped:
                    self.counts += AuditCounts(skipped=len(stretch.offsets))
                elif self._is_gone(stretch.offsets):
                    self.counts += AuditCounts(gone=len(stretch.offsets))
                else:
                    yield from self._changes_in(reader, stretch.offsets)
                done += len(stretch.offsets)
                on_progress(done, total)

    def _is_gone(self, offsets: OffsetRange) -> bool:
        return offsets.end <= self.source.low.get(offsets.partition, 0)

    def _changes_in(self, reader: RangeReader, offsets: OffsetRange) -> Iterator[Row]:
        table, generation = self.tables.data, progress_of(self.tables.data).generation
        state = self.connections.state
        letters = dead_letter_offsets(table, self.tables.dead_letters, generation, offsets, state)
        self.counts += AuditCounts(dead_letters=len(letters))
        for chunk in reader.read(offsets):
            yield from self._changes_of(chunk, letters)

    def _changes_of(self, chunk: Chunk, letters: NDArray[np.int64]) -> Iterator[Row]:
        says_nothing = [value is None and not self.check.takes_tombstones for value in chunk.values]
        is_letter = np.isin(chunk.offsets, letters)
        records = chunk.take(np.flatnonzero(~(is_letter | says_nothing)).tolist())
        read = self.check.rows_of(records)
        rows, passed = read.table.to_pylist(), read.passed
        # What the drain made a row of, and is none.
        told = [*(row[OFFSET] for row in rows), *(records.offsets[at] for at in chain(*passed.values()))]
        lost = np.setdiff1d(records.offsets, told)
        self.told += len(rows)
        self.counts += AuditCounts(
            tombstones=sum(says_nothing),
            passed={kind: len(at) for kind, at in passed.items()},
            differing=len(lost),
            examples=example_offsets("differing", chunk.partition, lost),
        )
        spelling = spelling_of(self.pipeline, progress_of(self.tables.data).cdc)
        foreign = [row[OFFSET] for row in rows if self._is_foreign(row)]
        found = example_offsets("foreign", chunk.partition, np.array(foreign))
        self.counts += AuditCounts(foreign=len(foreign), examples=found)
        for row in rows:
            if self._is_foreign(row):
                continue
            if row[COMMIT_SEQUENCE] is not None:
                identity, sequence = place_of(row, self.restarts)
                place = identity, row[COMMIT_SEQUENCE], sequence
                self.furthest[chunk.partition] = max(place, self.furthest.get(chunk.partition, place))
            if (old_key := _old_key(row[HEADERS], spelling)) is not None:
                row[OLD_KEY] = old_key
            yield row

    def _is_foreign(self, row: Row) -> bool:
        """True if an event has another source or table than the mirror's, or than the first event read."""
        self.own = row[SOURCE] if self.own is None else self.own
        return row[SOURCE] not in {None, self.own}


@dataclass(slots=True)
class _Judging:
    """Comparison of the table's rows with those of the fold; ``left`` are unmatched."""

    reading: _Reading
    left: dict[str, Row]
    cut_below: Place | None
    counts: AuditCounts = field(default_factory=AuditCounts)
    rows: int = 0
    met: set[str] = field(default_factory=set)
    is_whole: bool = field(init=False)
    compared: list[str] = field(init=False)
    outdated: list[OffsetRange] = field(init=False)

    def __post_init__(self) -> None:
        check = self.reading.check
        passed_over = NOT_COMPARED | check.kept
        self.compared = [name for name in check.schema.names if name not in passed_over]
        self.is_whole, self.outdated = self.reading.is_whole, self.reading.outdated

    def judgeable(self, part: pa.Table) -> pa.Table:
        """Return the rows that can be judged: for a topic that was cut, few of a large table."""
        if self.is_whole or self.reading.restarts:
            return part
        is_known = pc.is_in(part.column(ROW_ID), pa.array([*self.left, *self.met], pa.string()))
        for partition, first in self.reading.first.items():
            is_of_it = pc.equal(part.column(PARTITION), partition)
            is_read = pc.and_(is_of_it, pc.greater_equal(part.column(OFFSET), first))
            is_known = pc.or_(is_known, is_read)
        if self.cut_below is not None:
            is_known = pc.or_(is_known, pc.less(part.column(SEQUENCE), self.cut_below[1]))
        return part.filter(is_known)

    def judge(self, held: Row) -> None:
        """Judge one row of the table."""
        key = held[ROW_ID]
        said = self.left.pop(key, None)
        if key in self.met:
            self._count("doubled", held, duplicates=1)
        elif said is None:
            if self._is_known(held):
                self._count("differing", held, differing=1)
        else:
            self.rows += 1
            compared = self.compared
            if held.get(SOURCE) is None:  # a row of an earlier version
                compared = [name for name in compared if name != SOURCE]
            if self._is_told_again(held, said):
                compared = [name for name in compared if name not in METADATA_COLUMNS]
            if any(not _is_same(held[name], said[name]) for name in compared):
                self._differs(held)
        self.met.add(key)

    def finished(self) -> AuditCounts:
        """Return the counts, with the rows that the table lacks."""
        for said in self.left.values():
            self._count("missing", said, missing=1)
        return self.counts + AuditCounts(rows=self.rows)

    def _is_known(self, held: Row) -> bool:
        """True if the fold would have the row."""
        is_cut = self.cut_below is not None and place_of(held, self.reading.restarts) < self.cut_below
        return self.is_whole or is_cut or held[OFFSET] >= self.reading.first[held[PARTITION]]

    def _is_told_again(self, held: Row, said: Row) -> bool:
        """True if this event repeats the row's own one, which Kafka no longer has."""
        places = [(place_of(row, self.reading.restarts), row[COMMIT_SEQUENCE]) for row in (held, said)]
        is_told = said[COMMIT_SEQUENCE] is not None and places[0] == places[1]
        return is_told and not self.is_whole and held[OFFSET] < said[OFFSET]

    def _differs(self, held: Row) -> None:
        partition, offset = held[PARTITION], held[OFFSET]
        made = [
            each for each in self.outdated if each.partition == partition and each.start <= offset < each.end
        ]
        if made:
            self._count("outdated", held, outdated=1, outdated_ranges=(made[0],))
        else:
            self._count("differing", held, differing=1)

    def _count(self, what: str, row: Row, **found: Any) -> None:
        place = example_offsets(what, row[PARTITION], np.array([row[OFFSET]]))
        self.counts += AuditCounts(**found, examples=place)


def _is_same(held: object, said: object) -> bool:
    """Compare values as text, so that NaN equals NaN; ignore values that no event has any more."""
    return is_untold(said) or repr(_bare(held)) == repr(_bare(said))


def _bare(value: Any) -> Any:
    """Return the value without types that depend on the reader: UUIDs, and names of UTC."""
    match value:
        case datetime():
            return value.isoformat()
        case UUID():
            return value.bytes
        case list() | tuple():
            return [*map(_bare, value)]
        case dict():
            return {name: _bare(item) for name, item in value.items()}
        case _:
            return value


def _old_key(headers: list[dict[str, Any]] | None, spelling: Spelling) -> str | None:
    """Return the row's key before this change of its key."""
    for header in headers or ():
        if header["key"] == _OLD_KEY_HEADER and header["value"] is not None:
            return old_key(header["value"], spelling)
    return None

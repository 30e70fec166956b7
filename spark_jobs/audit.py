"""Audit a table against Kafka: every readable record of the drained ranges is in it once, and unchanged.

Works through the topic in windows of offsets, so memory does not grow with the table. Reads only.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.core.config import StartKind
from spark_jobs.core.offsets import OffsetRange
from spark_jobs.decode.records import Origin
from spark_jobs.io.arrow_schema import arrow_schema
from spark_jobs.io.catalog import close_catalog
from spark_jobs.io.kafka_reader import RangeReader
from spark_jobs.io.metadata_columns import GENERATION, INGESTED_AT, OFFSET, PARTITION, dead_letter_schema
from spark_jobs.io.tables import dead_letters_of, load_table, progress_of
from spark_jobs.rows import NewFieldsSeen, RowMaker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray
    from pyiceberg.table import Table

    from spark_jobs.core.config import PipelineConfig
    from spark_jobs.core.source import SourceState
    from spark_jobs.io.connections import Connections
    from spark_jobs.io.kafka_reader import Chunk

    Offsets: TypeAlias = NDArray[np.int64]

WINDOW_OFFSETS = 100_000
START_OFFSETS = "sluice.start-offsets"
ATTEMPT = "sluice.attempt"
MAX_CHUNK_BYTES = 16 * 1024 * 1024
# Not Kafka's: they differ between a record and the row that was made of it at another time.
_NOT_COMPARED = {GENERATION, INGESTED_AT}


@dataclass(frozen=True, slots=True)
class AuditResult:
    """Counts over everything the table says it has drained in the current generation.

    ``records`` = rows + dead letters + tombstones; ``missing`` readable records that are none of the three;
    ``duplicates`` rows and dead letters beyond the first of an offset; ``differing`` rows that are not what
    the record says; ``gone`` offsets that Kafka no longer holds, which were checked for doubles only;
    ``lag`` last stable offsets minus next offsets. ``examples`` are coordinates of the first findings.
    """

    pipeline: str
    topic: str
    table: str
    rows: int = 0
    dead_letters: int = 0
    tombstones: int = 0
    missing: int = 0
    duplicates: int = 0
    differing: int = 0
    gone: int = 0
    snapshots: int = 0
    lag: int = 0
    examples: tuple[str, ...] = ()

    @property
    def records(self) -> int:
        """What the drained ranges came to."""
        return self.rows + self.dead_letters + self.tombstones

    @property
    def is_clean(self) -> bool:
        """Nothing missing, doubled or changed."""
        return not (self.missing or self.duplicates or self.differing)


@dataclass(frozen=True, slots=True)
class _Window:
    """What the table holds of one window: rows in offset order, and the offsets of its dead letters."""

    rows: pa.Table
    dead_letter_offsets: Offsets


def audit(
    pipeline: PipelineConfig,
    connections: Connections,
    *,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> AuditResult:
    """Compare the table with the topic. ``on_progress`` gets offsets done and in all.

    Raises ``RetryableError`` and ``ConfigError`` when one of them cannot be read. A table that does not exist
    yet has nothing to compare: every count is 0 and ``lag`` is the whole topic.
    """
    source = connections.admin.source_state(pipeline.topic)
    catalog = connections.open_catalog()
    try:
        table = load_table(catalog, pipeline.table)
        dead_letters = load_table(catalog, dead_letters_of(pipeline.table))
    finally:
        close_catalog(catalog)
    result = AuditResult(pipeline.name, pipeline.topic, pipeline.table)
    if table is None:
        return replace(result, lag=source.lag({}))
    progress = progress_of(table)
    windows = list(_windows(table, source, _drained_from(table, pipeline)))
    total = sum(len(window) for window in windows)
    done = 0
    reader = RangeReader(
        connections.kafka, pipeline.topic, max_chunk_bytes=MAX_CHUNK_BYTES, queue_bytes=4 * MAX_CHUNK_BYTES
    )
    try:
        for window in windows:
            held = _held(table, dead_letters, progress.generation, window)
            found = _compare_window(table, reader, held, window, low=source.low.get(window.partition, 0))
            result = _add(result, found)
            done += len(window)
            on_progress(done, total)
    finally:
        reader.close()
    return replace(result, snapshots=len(table.metadata.snapshots), lag=source.lag(progress.next_offsets))


def _drained_from(table: Table, pipeline: PipelineConfig) -> dict[int, int]:
    """The first drained offset by partition; partitions not named were drained from their beginning.

    The table's first snapshot says it. Where that has expired, a pipeline that starts at the earliest offset
    needs no such bound, and another one is compared from the oldest commit on that is left.
    """
    if progress_of(table).earlier:
        return {}  # a later generation begins at the earliest offsets of its topic
    said = [
        snapshot.summary.additional_properties for snapshot in table.metadata.snapshots if snapshot.summary
    ]
    commits = [each for each in said if START_OFFSETS in each]
    birth = [each for each in commits if ATTEMPT not in each]
    if not birth and pipeline.start.kind is StartKind.EARLIEST:
        return {}
    starts: dict[int, int] = {}
    for each in birth or commits:
        for partition, start in json.loads(each[START_OFFSETS]).items():
            starts[int(partition)] = min(start, starts.get(int(partition), start))
    return starts


def _windows(table: Table, source: SourceState, starts: dict[int, int]) -> Iterator[OffsetRange]:
    """Every drained offset of the current generation; windows are cut at Kafka's low watermark."""
    for partition, end in sorted(progress_of(table).next_offsets.items()):
        start = min(starts.get(partition, 0), end)
        low = max(start, min(source.low.get(partition, end), end))
        for whole in (OffsetRange(partition, start, low), OffsetRange(partition, low, end)):
            yield from whole.cut(WINDOW_OFFSETS) if len(whole) else ()


def _held(table: Table, dead_letters: Table | None, generation: int, window: OffsetRange) -> _Window:
    inside = (
        f"{PARTITION} = {window.partition} and {GENERATION} = {generation}"
        f" and {OFFSET} >= {window.start} and {OFFSET} < {window.end}"
    )
    rows = table.scan(row_filter=inside).to_arrow().sort_by(OFFSET)
    if dead_letters is None:
        return _Window(rows, np.empty(0, dtype=np.int64))
    offsets = dead_letters.scan(row_filter=inside, selected_fields=(OFFSET,)).to_arrow()
    return _Window(rows, np.sort(offsets.column(OFFSET).to_numpy()))


def _compare_window(
    table: Table, reader: RangeReader, held: _Window, window: OffsetRange, *, low: int
) -> AuditResult:
    row_offsets = held.rows.column(OFFSET).to_numpy()
    every = np.sort(np.concatenate([row_offsets, held.dead_letter_offsets]))
    doubled = every[1:][np.diff(every) == 0]
    found = AuditResult(
        "",
        "",
        "",
        rows=len(row_offsets),
        dead_letters=len(held.dead_letter_offsets),
        duplicates=len(doubled),
        examples=_examples("doubled", window.partition, doubled),
    )
    if window.end <= low:
        return replace(found, gone=len(window))
    maker = _row_maker(table)
    first_rows = held.rows.take(np.unique(row_offsets, return_index=True)[1])
    for chunk in reader.read(window):
        found = _add(found, _compare_chunk(maker, chunk, first_rows, every))
    return found


def _row_maker(table: Table) -> RowMaker:
    origin = Origin(progress_of(table).topic, progress_of(table).generation, 0)
    return RowMaker(origin, "", arrow_schema(table.schema()), arrow_schema(dead_letter_schema()))


def _compare_chunk(maker: RowMaker, chunk: Chunk, held_rows: pa.Table, every: Offsets) -> AuditResult:
    offsets = np.asarray(chunk.offsets)
    is_tombstone = np.fromiter((value is None for value in chunk.values), dtype=bool, count=len(offsets))
    missing = np.setdiff1d(offsets[~is_tombstone], every, assume_unique=False)
    differing = _differing(maker, chunk, held_rows)
    return AuditResult(
        "",
        "",
        "",
        tombstones=int(is_tombstone.sum()),
        missing=len(missing),
        differing=len(differing),
        examples=_examples("missing", chunk.partition, missing)
        + _examples("differing", chunk.partition, differing),
    )


def _differing(maker: RowMaker, chunk: Chunk, held_rows: pa.Table) -> Offsets:
    """Offsets of rows that are not what today's decoder makes of the record."""
    try:
        expected = maker.make(chunk).rows
    except NewFieldsSeen:
        # A drained record whose field has no column was drained wrongly, or the column was dropped since.
        return np.asarray(chunk.offsets)
    columns = [name for name in expected.column_names if name not in _NOT_COMPARED]
    offsets = expected.column(OFFSET).to_numpy()
    held_offsets = held_rows.column(OFFSET).to_numpy()
    both = np.intersect1d(offsets, held_offsets, assume_unique=True)
    ours = held_rows.select(columns).take(np.searchsorted(held_offsets, both))
    theirs = expected.select(columns).take(np.searchsorted(offsets, both))
    same = np.ones(len(both), dtype=bool)
    for name in columns:
        same &= _equal(ours.column(name), theirs.column(name))
    return both[~same]


def _equal(left: pa.ChunkedArray, right: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Row by row, null equal to null; nested values as Python sees them."""
    if pa.types.is_nested(left.type):
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        # PyIceberg reads a null list of structs as an empty one.
        return np.fromiter((a == b or not (a or b) for a, b in pairs), dtype=bool, count=len(left))
    equal = pc.fill_null(pc.equal(left.cast(right.type), right), fill_value=False)
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    same: NDArray[np.bool_] = pc.or_(equal, both_null).to_numpy()
    return same


def _examples(what: str, partition: int, offsets: Offsets) -> tuple[str, ...]:
    return tuple(f"{what} {partition}:{offset}" for offset in offsets[:5])


def _add(one: AuditResult, other: AuditResult) -> AuditResult:
    counts = ("rows", "dead_letters", "tombstones", "missing", "duplicates", "differing", "gone")
    sums = {name: getattr(one, name) + getattr(other, name) for name in counts}
    return replace(one, **sums, examples=(one.examples + other.examples)[:20])

"""Audit a table against Kafka: every readable record of the drained ranges is in it once, and unchanged.

Works through the topic in windows of offsets, so memory does not grow with the table. Reads only.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.audit.findings import replay_command
from spark_jobs.audit.removed import removed_by_others
from spark_jobs.audit.rounded import RoundedColumn, merged
from spark_jobs.audit.row_check import row_check
from spark_jobs.connections.shape import shape_of
from spark_jobs.connections.tables import PipelineTables, tables_as_one
from spark_jobs.drain.planning import water_fill
from spark_jobs.kafka.reader import RangeReader, open_reader
from spark_jobs.lake.record_offsets import dead_letter_offsets, routed_rows
from spark_jobs.lake.row_filters import rows_in
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import RetryableError
from spark_jobs.protocol.offsets import OffsetRange, merge
from spark_jobs.protocol.shaped_spans import cut_at_shapes, is_outdated, may_leave_out
from spark_jobs.protocol.skips import cut_at_skips, skipped_ranges
from spark_jobs.records.routing import PLACE, placed_rows
from spark_jobs.schema.metadata_columns import OFFSET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray
    from pyiceberg.table import Table

    from spark_jobs.audit.row_check import RowCheck
    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections
    from spark_jobs.kafka.reader import Chunk
    from spark_jobs.protocol.source import SourceState
    from spark_jobs.storage.create_only import CreateOnlyStore

    Offsets: TypeAlias = NDArray[np.int64]

WINDOW_OFFSETS = 100_000
NO_OFFSETS = np.empty(0, dtype=np.int64)
MAX_EXAMPLES = 20


@dataclass(frozen=True, slots=True)
class AuditCounts:
    """What was found so far, in a window or in all of them.

    ``records`` = rows + routed + dead letters + tombstones + filtered; ``routed`` are rows in other
    tables; ``missing`` readable records that are none of
    these;
    ``removed`` those of them that another writer took out, as the kept snapshots show;
    ``filtered`` those that the pipeline's filter leaves out, and that are neither;
    ``outdated`` rows and records that another configuration than today's had made something else of, or
    nothing, ``outdated_ranges`` the windows they are in;
    ``skipped`` offsets that an operator left out and nothing brought in since;
    ``duplicates`` rows and dead letters beyond the first of an offset; ``differing`` rows that are not what
    the record says; ``rounded`` rows that are the record's but for an integer of which a column of floating
    point holds only the nearest double, ``rounded_columns`` where; ``gone`` offsets that Kafka no longer
    holds, which were checked for doubles only. ``examples`` are coordinates of the first findings.
    """

    rows: int = 0
    routed: int = 0
    dead_letters: int = 0
    tombstones: int = 0
    missing: int = 0
    removed: int = 0
    filtered: int = 0
    skipped: int = 0
    duplicates: int = 0
    differing: int = 0
    rounded: int = 0
    gone: int = 0
    outdated: int = 0
    outdated_ranges: tuple[OffsetRange, ...] = ()
    rounded_columns: tuple[RoundedColumn, ...] = ()
    examples: tuple[str, ...] = ()

    def __add__(self, other: AuditCounts) -> AuditCounts:
        names = [field.name for field in fields(AuditCounts)]
        sums: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in names}
        sums["rounded_columns"] = merged(sums["rounded_columns"])
        sums["outdated_ranges"] = merge(sums["outdated_ranges"])
        return AuditCounts(**{**sums, "examples": sums["examples"][:MAX_EXAMPLES]})

    @property
    def records(self) -> int:
        """What the drained ranges came to."""
        return self.rows + self.routed + self.dead_letters + self.tombstones + self.filtered

    @property
    def is_clean(self) -> bool:
        """Nothing missing, doubled or changed; what is outdated is as it was made."""
        return not (self.missing or self.duplicates or self.differing or self.rounded)

    def outdated_mend(self, pipeline: str) -> str:
        """Return what makes rows by today's configuration of what is outdated."""
        return replay_command(pipeline, " ".join(map(str, self.outdated_ranges)))


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult(AuditCounts):
    """Counts over everything the table says it has drained in the current generation.

    ``lag``: last stable offsets minus next offsets.
    """

    pipeline: str
    topic: str
    table: str
    snapshots: int = 0
    lag: int = 0


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Offsets that were skipped or not, and made into rows by one ``shape``, all of them."""

    offsets: OffsetRange
    is_skipped: bool
    shape: str


@dataclass(frozen=True, slots=True)
class _Window:
    """What the tables hold of one window: rows in offset order, and the offsets of dead letters.

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
        """What is there, whatever Kafka says."""
        every = self.every
        doubled = every[1:][np.diff(every) == 0]
        routed = int(pc.sum(pc.is_valid(self.rows.column(PLACE))).as_py() or 0)
        return AuditCounts(
            rows=self.rows.num_rows - routed,
            routed=routed,
            dead_letters=len(self.dead_letter_offsets),
            duplicates=len(doubled),
            examples=_examples("doubled", self.offsets.partition, doubled),
        )


def audit(
    pipeline: PipelineConfig,
    connections: Connections,
    *,
    newest_offsets: int | None = None,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> AuditResult:
    """Compare the table with the topic. ``on_progress`` gets offsets done and in all.

    ``newest_offsets`` bounds the work: so many of the newest ones, shared evenly by the partitions.

    Raises ``RetryableError`` and ``ConfigError`` when one of them cannot be read. A table that does not exist
    yet has nothing to compare: every count is 0 and ``lag`` is the whole topic.
    """
    source = connections.admin.source_state(pipeline.topic)
    tables = tables_as_one(connections, pipeline.table)
    name_it = partial(AuditResult, pipeline=pipeline.name, topic=pipeline.topic, table=pipeline.table)
    if tables is None:
        return name_it(lag=source.lag({}))
    table = tables.data
    progress = progress_of(table)
    stretches = list(_stretches(table, source, newest_offsets))
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
    found_in_all = {field.name: getattr(counts, field.name) for field in fields(AuditCounts)}
    return name_it(
        **found_in_all, snapshots=len(table.metadata.snapshots), lag=source.lag(progress.next_offsets)
    )


def _stretches(table: Table, source: SourceState, newest_offsets: int | None) -> Iterator[_Stretch]:
    """The offsets the current generation is past, cut at the low watermark, where shapes change and at skips.

    What kills a decoder was skipped, and must not be decoded here.
    """
    progress = progress_of(table)
    drained = {p: end - progress.starts.get(p, 0) for p, end in progress.next_offsets.items()}
    wanted = drained if newest_offsets is None else water_fill(drained, newest_offsets)
    for partition, end in sorted(progress.next_offsets.items()):
        start = end - wanted[partition]
        skipped = skipped_ranges(progress.skipped, progress.generation, partition)
        low = max(start, min(source.low.get(partition, end), end))
        for whole in (OffsetRange(partition, start, low), OffsetRange(partition, low, end)):
            for piece, is_skipped in cut_at_skips(whole, skipped) if len(whole) else ():
                for of_one, shape in cut_at_shapes(piece, progress.shaped_by):
                    yield from (_Stretch(window, is_skipped, shape) for window in of_one.cut(WINDOW_OFFSETS))


def _outdated(found: AuditCounts, window: OffsetRange) -> AuditCounts:
    """Return what was found, rows that differ being what an earlier configuration made."""
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
    examples = _examples("outdated", window.partition, missing)
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
        raise RetryableError(
            f"the rows of {window} cannot be read: {type(error).__name__}: {error}",
            code="data-file-unreadable",
            hint=f"{mends.command('audit', pipeline.name, '--metadata')} names the files that are gone or"
            " damaged, and for each the command that mends it.",
            table=pipeline.table,
        ) from error


def _compare_window(check: RowCheck, reader: RangeReader, held: _Window) -> tuple[AuditCounts, Offsets]:
    """Counts, and the offsets of readable records that are nowhere."""
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
    """Return what is missing, without what another writer removed."""
    lost = np.setdiff1d(missing, removed)
    examples = _examples("missing", partition, lost) + _examples("removed", partition, removed)
    return AuditCounts(missing=len(lost), removed=len(removed), examples=examples)


def _compare_chunk(
    check: RowCheck, chunk: Chunk, held_rows: pa.Table, every: Offsets
) -> tuple[AuditCounts, Offsets]:
    offsets = np.asarray(chunk.offsets)
    is_counted = not check.decoder.takes_tombstones
    is_tombstone = np.fromiter(
        (is_counted and value is None for value in chunk.values), dtype=bool, count=len(offsets)
    )
    missing = np.setdiff1d(offsets[~is_tombstone], every, assume_unique=False)
    left_out = np.concatenate([NO_OFFSETS, *check.left_out(chunk, missing).values()])
    differences = check.compare(chunk, held_rows)
    differing, rounded = differences.differing, differences.every_rounded
    found = AuditCounts(
        tombstones=int(is_tombstone.sum()),
        filtered=len(left_out),
        differing=len(differing),
        rounded=len(rounded),
        rounded_columns=tuple(
            RoundedColumn(*column, len(rows)) for column, rows in differences.rounded.items() if len(rows)
        ),
        examples=_examples("differing", chunk.partition, differing)
        + _examples("rounded", chunk.partition, rounded),
    )
    return found, np.setdiff1d(missing, left_out)


def _examples(what: str, partition: int, offsets: Offsets) -> tuple[str, ...]:
    return tuple(f"{what} {partition}:{offset}" for offset in offsets[:5])

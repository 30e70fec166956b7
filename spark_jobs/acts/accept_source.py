"""Topics that moved or were re-created: comparison with the table's source, and accepting them.

The last rows of every partition decide. Where the same records stand at the same offsets, the log was moved
as it is, and the table goes on; everything else is another log, and becomes the table's next generation. So
does one that lost its end and grew again, whatever stands there now. Offsets past the last row (skipped,
discarded, filtered, letters) say nothing of the log: they are named, with what reads them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.acts.act import batch_of_act, land_act, summary_of_act
from spark_jobs.acts.changes import follow_source
from spark_jobs.audit.row_check import RowCheck, row_check
from spark_jobs.commit.batch_commit import ChangeCommit
from spark_jobs.config.quantities import Start
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import load_drained, load_fresh, load_routed
from spark_jobs.drain.planning import resolve_start
from spark_jobs.kafka.reader import RangeReader, cut_below, open_reader
from spark_jobs.lake.record_offsets import routed_rows
from spark_jobs.lake.row_filters import offsets_in, rows_in
from spark_jobs.lake.tables import progress_of
from spark_jobs.mirror.fold import FILE, FOLDED_COLUMNS, ROW, first_new, fold, had_by
from spark_jobs.protocol.cdc import Cdc
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.progress_parts import cut_at_skips, skipped_ranges
from spark_jobs.protocol.source import SourceState, check_identity, check_name, check_starts, has_other_ids
from spark_jobs.protocol.works.changes import ACCEPT
from spark_jobs.records.row_maker import PLACE, placed_rows
from spark_jobs.schema.arrow_schema import no_rows
from spark_jobs.schema.iceberg_types import OFFSET, PARTITION, TIMESTAMP

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.commit.swap import Committed
    from spark_jobs.connections.connect import Connections


COMPARED_OFFSETS = 100  # by partition, up to the last row


@dataclass(frozen=True, slots=True)
class SourceComparison:
    """The table's source and the current one: ``same`` of ``compared`` rows are in the topic.

    ``objections`` say in words what speaks against its being the same log; ``progress`` is the table's.
    Of the partitions ``cut`` Kafka lost what the table had reached, whatever stands there now. At ``unshown``
    offsets the table has no row, and no later one in their partition: other records may stand there.
    """

    progress: Progress
    source: SourceState
    compared: int
    same: int
    objections: tuple[str, ...]
    cut: tuple[int, ...] = ()
    unshown: tuple[OffsetRange, ...] = ()

    @property
    def has_changed(self) -> bool:
        """True if topic id or cluster id differ, or partitions or their ends are missing."""
        is_other = has_other_ids(self.progress, self.source)
        return is_other or bool(self.cut) or not set(self.progress.next_offsets) <= set(self.source.end)

    @property
    def continues(self) -> bool:
        """True if the table's offsets mean the same records there, as rows of an uncut log show."""
        return self.same > 0 and not self.objections and not self.cut


def compare_source(pipeline: PipelineConfig, connections: Connections) -> SourceComparison:
    """Compare the topic with the table's last rows, as far as it still has their offsets. Reads only.

    Raises ``ConfigError`` (``no-table-yet``), ``SourceChanged`` when the topic has another name than the one
    the table was filled from, which no comparison makes its own, and what reading Kafka raises.
    """
    table = load_drained(pipeline, connections)
    progress = progress_of(table)
    source = connections.admin.source_state(pipeline.topic)
    check_name(progress, source, table=pipeline.table)
    check = row_check(pipeline, connections, table)
    routed = load_routed(partial(load_fresh, connections), table)
    compared, same, objections, unshown = 0, 0, [], []
    with open_reader(connections.kafka, pipeline.topic) as reader:
        for partition, end in sorted(progress.next_offsets.items()):
            if (objection := _out_of_reach(source, progress, partition)) is not None:
                objections.append(objection)
                continue
            shown = _after_last_row(table, routed, progress, partition)
            if (first := max(shown, source.low[partition])) < end:
                unshown.append(OffsetRange(partition, first, end))
            for window in _last_drained(progress, source, partition, shown):
                rows, equal = _compare(check, table, routed, reader, window)
                compared, same = compared + rows, same + equal
                if equal < rows:
                    objections.append(f"{rows - equal} of {rows} rows of {window} are not in the topic so")
    cut = tuple(p for p in sorted(progress.next_offsets) if _is_cut(connections, progress, source, p))
    return SourceComparison(progress, source, compared, same, tuple(objections), cut, tuple(unshown))


def accept_source(
    pipeline: PipelineConfig,
    connections: Connections,
    comparison: SourceComparison,
    *,
    start: Start,
    reason: str,
) -> Committed:
    """Accept the current topic as the table's source, in one commit.

    The same log keeps the generation and its offsets; another one opens the next generation at ``start``.
    Raises ``CommitConflict`` when the table moved since the comparison, and what a commit raises.
    """
    found = partial(connections.admin.offsets_for_times, pipeline.topic)
    starts = None if comparison.continues else resolve_start(start, comparison.source, found)
    follow = partial(follow_source, source=comparison.source, starts=starts)
    return _accept(pipeline, connections, comparison.progress, follow, reason)


def _accept(
    pipeline: PipelineConfig,
    connections: Connections,
    compared: Progress,
    follow: Callable[[Progress], Progress],
    reason: str,
) -> Committed:
    """Commit ``change`` of the compared progress, which must still be the table's."""

    def change(progress: Progress) -> Progress:
        refuse_moved(progress, compared, **pipeline.where)
        return follow(progress)

    table = load_drained(pipeline, connections)
    batch = batch_of_act(pipeline.name, table, connections, ACCEPT)
    # What the table owes is of the generation that may end here.
    intent = ChangeCommit(batch, change, summary_of_act(connections, reason), pays_first=True)
    return land_act(connections, table, intent, reason)


def refuse_moved(progress: Progress, compared: Progress, *, pipeline: str, table: str) -> None:
    """Raise ``CommitConflict`` (``moved-while-compared``) if the table changed since the comparison."""
    if _standing(progress) != _standing(compared):
        raise fault("moved-while-compared", pipeline=pipeline, table=table)


def _standing(progress: Progress) -> tuple[object, ...]:
    return progress.generation, progress.next_offsets, progress.rollbacks, progress.cdc


def _is_cut(connections: Connections, progress: Progress, source: SourceState, partition: int) -> bool:
    # Another cluster, or a topic made anew, counts its leaders' epochs anew: its rows alone can tell.
    if partition not in source.end or has_other_ids(progress, source):
        return False
    is_short = source.end[partition] < progress.next_offsets[partition]
    return is_short or cut_below(connections.kafka, progress, source, partition) is not None


def _out_of_reach(source: SourceState, progress: Progress, partition: int) -> str | None:
    """Return why a partition cannot contain the table's last offset; None if it may."""
    end = progress.next_offsets[partition]
    if partition not in source.end:
        return f"the topic has no partition {partition}"
    low, high = source.low[partition], source.end[partition]
    if high < end:
        return f"partition {partition} ends at offset {high}, the table has reached {end}"
    if low > end:
        return f"partition {partition} begins at offset {low}, past the table's next offset {end}"
    return None


def _after_last_row(table: Table, routed: Mapping[str, Table], progress: Progress, partition: int) -> int:
    """Return the offset after the last row of a partition in any table; the start if it has no row."""
    start, below = progress.starts.get(partition, 0), progress.next_offsets[partition]
    size = COMPARED_OFFSETS
    while below > start:
        window = OffsetRange(partition, max(start, below - size), below)
        rows = [offsets_in(each, window, progress.generation) for each in (table, *routed.values())]
        if (found := np.concatenate(rows)).size:
            return int(found.max()) + 1
        below, size = window.start, 2 * size
    return start


def _last_drained(progress: Progress, source: SourceState, partition: int, end: int) -> Iterator[OffsetRange]:
    first = max(progress.starts.get(partition, 0), end - COMPARED_OFFSETS, source.low[partition])
    if first < end:
        skipped = skipped_ranges(progress.skipped, progress.generation, partition)
        pieces = cut_at_skips(OffsetRange(partition, first, end), skipped)
        yield from (piece for piece, is_skipped in pieces if not is_skipped)


def _compare(
    check: RowCheck, table: Table, routed: Mapping[str, Table], reader: RangeReader, window: OffsetRange
) -> tuple[int, int]:
    """Return the number of rows of the window in all tables, and how many the topic has unchanged."""
    own = rows_in(table, window, progress_of(table).generation)
    rows = placed_rows(own, routed_rows(table, routed, window)).drop_columns(PLACE)
    offsets = rows.column(OFFSET).to_numpy()
    same = 0
    for chunk in reader.read(window):
        found = np.intersect1d(offsets, np.asarray(chunk.offsets))
        differing = np.intersect1d(found, check.compare(chunk, rows).differing)
        same += len(found) - len(differing)
    return len(offsets), same


# A mirror's source whose log began anew: where it did, and going on from there as another identity of it.
#
# A database that is restored from a backup counts its positions from an earlier place. Compared with those
# before, what it tells would be told again; compared among themselves they are right.


_READ_COLUMNS = (*FOLDED_COLUMNS, TIMESTAMP)


@dataclass(frozen=True, slots=True)
class Restart:
    """First offset after the restart by partition; ``progress`` is the table's."""

    progress: Progress
    firsts: dict[int, int]


def find_restart(pipeline: PipelineConfig, connections: Connections) -> Restart | None:
    """Search a mirror's undrained events for a restart of its source; None if there is none.

    Which event shows it is known of its partition alone. The others begin at the first record that Kafka took
    since then: a connector tells what came before first. Reads only; raises as reading Kafka does.
    """
    table = load_drained(pipeline, connections)
    progress = progress_of(table)
    if progress.cdc is None:
        return None
    source = connections.admin.source_state(pipeline.topic)
    check_identity(progress, source, table=pipeline.table)
    starts = source.positions(progress.next_offsets)
    check_starts(starts, source)
    check = row_check(pipeline, connections, table)
    with open_reader(connections.kafka, pipeline.topic) as reader:
        found = [
            event
            for partition, start in sorted(starts.items())
            for event in _restarted(
                check, reader, OffsetRange(partition, start, source.end[partition]), table
            )
        ]
    if not found:
        return None
    at, partition, offset = min(found)
    since = connections.admin.offsets_for_times(pipeline.topic, at)
    firsts = {p: min(since.get(p, end), end) for p, end in source.end.items()}
    firsts |= {p: min(firsts[p], shown) for _, p, shown in found}
    return Restart(progress, firsts | {partition: offset})


def accept_restart(
    pipeline: PipelineConfig, connections: Connections, restart: Restart, *, reason: str
) -> Committed:
    """Continue with the restarted source as a new identity, in one commit.

    Rows stay: which of them the source has no more only a rebuild finds out. Drains and rebuilds that were
    planned before are fenced, since they compared with the positions of before. Raises ``CommitConflict``
    when the table moved since it was looked at, and what a commit raises.
    """

    def follow(progress: Progress) -> Progress:
        cdc = (progress.cdc or Cdc()).with_restart(restart.firsts)
        return replace(progress.with_fence(), cdc=cdc)

    return _accept(pipeline, connections, restart.progress, follow, reason)


def _restarted(
    check: RowCheck, reader: RangeReader, offsets: OffsetRange, table: Table
) -> Iterator[tuple[int, int, int]]:
    """Yield the first event of one partition that shows the restart: Kafka's time in ms, and offset."""
    columns = pa.schema([check.schema.field(name) for name in _READ_COLUMNS if name in check.schema.names])
    parts = [no_rows(columns)]
    for chunk in reader.read(offsets) if len(offsets) else ():
        values = chunk.take([index for index, value in enumerate(chunk.values) if value is not None])
        parts.append(check.rows_of(values).table.select(columns.names))
    rows = pa.concat_tables(parts)
    numbers = pa.array(np.arange(len(rows)))
    folded = fold(
        rows.append_column(FILE, numbers).append_column(ROW, numbers), progress_of(table).cdc or Cdc()
    )
    new = first_new(folded, partial(had_by, table))
    if new is not None:
        (event,) = folded.events.slice(new, 1).to_pylist()
        yield int(event[TIMESTAMP].timestamp() * 1000), event[PARTITION], event[OFFSET]

"""A mirror's source whose log began anew: where it did, and going on from there as another identity of it.

A database that is restored from a backup counts its positions from an earlier place. Compared with those
before, what it tells would be told again; compared among themselves they are right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.acts.accept_source import moved_while_compared
from spark_jobs.acts.act import act
from spark_jobs.audit.row_check import row_check
from spark_jobs.connections.tables import load_drained
from spark_jobs.kafka.reader import open_reader
from spark_jobs.lake.tables import progress_of
from spark_jobs.mirror.fold import FILE, FOLDED_COLUMNS, ROW, fold
from spark_jobs.mirror.retold import first_new, had_by
from spark_jobs.protocol.batch import BatchKind
from spark_jobs.protocol.cdc import Cdc
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.source import check_identity, check_starts
from spark_jobs.schema.arrow_schema import no_rows
from spark_jobs.schema.metadata_columns import OFFSET, PARTITION, TIMESTAMP

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.audit.row_check import RowCheck
    from spark_jobs.commit.landing import Committed
    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections
    from spark_jobs.kafka.reader import RangeReader
    from spark_jobs.protocol.progress import Progress

_READ_COLUMNS = (*FOLDED_COLUMNS, TIMESTAMP)


@dataclass(frozen=True, slots=True)
class Restart:
    """By partition the first offset of what the source tells since; ``progress`` is the table's."""

    progress: Progress
    firsts: dict[int, int]


def find_restart(pipeline: PipelineConfig, connections: Connections) -> Restart | None:
    """Look in what a mirror has not drained for where its source began anew; None where it did not.

    Which event shows it is known of its partition alone. The others begin at the first record that Kafka took
    since then: a connector tells what came before first. Reads only; raises as reading Kafka does.
    """
    table = load_drained(pipeline, connections)
    progress = progress_of(table)
    if not progress.is_mirror:
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
    """Go on with the restarted source as another identity of it, in one commit.

    Rows stay: which of them the source has no more only a rebuild finds out. Drains and rebuilds that were
    planned before are fenced, since they compared with the positions of before. Raises ``CommitConflict``
    when the table moved since it was looked at, and what a commit raises.
    """

    def follow(progress: Progress) -> Progress:
        if _standing(progress) != _standing(restart.progress):
            raise moved_while_compared(pipeline.name, pipeline.table)
        cdc = (progress.cdc or Cdc()).restarted(restart.firsts)
        return replace(progress.fenced(), cdc=cdc)

    table = load_drained(pipeline, connections)
    return act(pipeline.name, table, connections, BatchKind.ACCEPT, reason=reason, change=follow)


def _standing(progress: Progress) -> tuple[object, ...]:
    return progress.generation, progress.next_offsets, progress.rollbacks, progress.cdc


def _restarted(
    check: RowCheck, reader: RangeReader, offsets: OffsetRange, table: Table
) -> Iterator[tuple[int, int, int]]:
    """Yield the first event that shows it, of one partition: Kafka's time in milliseconds, and its place."""
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

"""What a replay would lose: rows and dead letters whose records Kafka no longer holds.

Retention takes a log from its start, and plans see that. Compaction takes records out of its middle, and what
is read there is a gap like a transaction's marker: only the tables still know that a record stood there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.connections.tables import PipelineTables, tables_as_one
from spark_jobs.drain.batch_run import BatchRun
from spark_jobs.lake.record_offsets import dead_letter_offsets, offsets_in_files, routed_rows
from spark_jobs.lake.row_filters import offsets_in
from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import OffsetsUnavailable
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.schema.metadata_columns import OFFSET
from spark_jobs.spark.outcomes import Written
from spark_jobs.storage.errors import storage_error

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyiceberg.table import Table

SHOWN_OFFSETS = 3


def refuse_loss(run: BatchRun, written: Written) -> None:
    """Raise ``OffsetsUnavailable`` (``replay-would-lose``) when offsets that are in the tables were not read.

    Where every offset of a partition's range holds a record, as in most topics, the tables are not asked.
    """
    gapped = [r for r in run.batch.ranges if written.balances[r.partition].gaps]
    tables = tables_as_one(run.connections, run.batch.table) if gapped else None
    if tables is None:
        return  # nothing can be lost, or the commit says that the table is gone
    try:
        held = {r: _held(run, r, tables) for r in gapped}
        lost = {r: np.setdiff1d(held[r], _written(r, tables.data, written)) for r in gapped}
    except OSError as error:
        raise storage_error(error, "reading the offsets to replace", table=run.batch.table) from error
    if any(len(offsets) for offsets in lost.values()):
        raise _would_lose(run, held, {r: offsets for r, offsets in lost.items() if len(offsets)})


def _held(run: BatchRun, r: OffsetRange, tables: PipelineTables) -> NDArray[np.int64]:
    table, generation = tables.data, run.batch.generation
    letters = dead_letter_offsets(table, tables.dead_letters, generation, r, run.connections.state)
    routed = (rows.column(OFFSET).to_numpy() for rows in routed_rows(table, tables.routed, r).values())
    return np.unique(np.concatenate([offsets_in(table, r, generation), letters, *routed]))


def _written(r: OffsetRange, table: Table, written: Written) -> NDArray[np.int64]:
    return offsets_in_files(table.io, written.every_file, r)


def _would_lose(
    run: BatchRun, held: dict[OffsetRange, NDArray[np.int64]], lost: dict[OffsetRange, NDArray[np.int64]]
) -> OffsetsUnavailable:
    counts = ", ".join(
        f"{len(offsets):,} of {len(held[r]):,} of {r} (first {' '.join(map(str, offsets[:SHOWN_OFFSETS]))})"
        for r, offsets in lost.items()
    )
    return OffsetsUnavailable(
        f"the replay would delete rows and dead letters whose records Kafka no longer holds: {counts}",
        code="replay-would-lose",
        hint="Nothing was changed. The topic was compacted since, or its records were deleted. Replay the"
        f" ranges that are whole, or let these rows go: {mends.command('replay', 'PIPELINE')} --range ..."
        " --force; in Dagster `force: true` in the launchpad.",
        table=run.batch.table,
        batch=run.batch.batch_id,
    )

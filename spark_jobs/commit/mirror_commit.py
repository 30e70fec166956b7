"""The commit of a mirror's batch: its events' files, and one file of the positions that do not live.

Everything is looked up in the table as it was loaded, and again after every conflict, for an adopted batch
too: the log knows files, never positions, which a compaction moves.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.commit.row_delta import RowDelta, write_position_deletes
from spark_jobs.commit.swap import stage
from spark_jobs.debezium.keys import Spelling
from spark_jobs.lake.data_files import to_data_file
from spark_jobs.mirror.each_once import each_once
from spark_jobs.mirror.fold import FILE, ROW, Folded, fold
from spark_jobs.mirror.live_rows import locate
from spark_jobs.mirror.spelled_keys import other_among, other_in
from spark_jobs.mirror.written_events import events_of
from spark_jobs.protocol.cdc import Cdc
from spark_jobs.schema.change_columns import ROW_ID

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from spark_jobs.commit.swap import Swap
    from spark_jobs.protocol.batch import WrittenFile
    from spark_jobs.protocol.progress import Progress

# Whoever reads a data file reads them all: from so many on they become one.
MOST_DELETE_FILES = 8
# A drain has looked closer, by its configuration.
_KEYS = Spelling(are_texts=True)


def stage_mirror(
    table: Table, attempt: str, files: Sequence[WrittenFile], progress: Progress, summary: Mapping[str, str]
) -> Swap:
    """Stage one snapshot in which each key of the batch has the row of its newest event, or none.

    ``progress`` is the batch's but for ``cdc``. Raises ``CorruptLog`` where a key has two rows, and as
    storage does.
    """
    folded = fold(events_of(table, files), progress.cdc or Cdc())
    is_spelled = folded.cdc.is_spelled or (other_in(table, _KEYS) is None and _is_spelled(folded))
    located = locate(table, folded.changed_keys, folded.cut)
    is_merged = located.delete_files >= MOST_DELETE_FILES or bool(located.whole)
    dead = _positions(files, folded.dead)
    deletes = _together(located.found, dead, *([located.deleted] if is_merged else ()))
    delta = _delta(table, attempt, files, deletes, located.whole, drops_deletes=is_merged)
    return stage(table, delta, replace(progress, cdc=replace(folded.cdc, is_spelled=is_spelled)), summary)


def stage_rebuilt(
    table: Table, attempt: str, files: Sequence[WrittenFile], progress: Progress, summary: Mapping[str, str]
) -> Swap:
    """Stage one snapshot that has nothing of the table but what these files' events come to.

    ``progress`` says where they begin. Raises as storage does.
    """
    folded = fold(events_of(table, files), progress.cdc or Cdc())
    there = [task.file for task in table.scan().plan_files()]
    delta = _delta(table, attempt, files, _positions(files, folded.dead), there, drops_deletes=True)
    cdc = replace(folded.cdc, is_spelled=_is_spelled(folded))
    return stage(table, delta, replace(progress, cdc=cdc), summary)


def _is_spelled(folded: Folded) -> bool:
    """Whether the batch's keys are all in their one spelling: an earlier version wrote them otherwise."""
    return other_among(folded.events.column(ROW_ID), _KEYS) is None


def _delta(
    table: Table,
    attempt: str,
    files: Sequence[WrittenFile],
    deletes: Mapping[str, NDArray[np.int64]],
    dropped: Sequence[DataFile],
    *,
    drops_deletes: bool,
) -> RowDelta:
    """Write the deleted positions, under a new name that the sweep of the attempt finds."""
    name = f"{attempt}-deletes-{uuid.uuid4().hex[:8]}.parquet"
    added = [to_data_file(file, table.metadata) for file in files]
    return RowDelta(added, write_position_deletes(table, deletes, name), dropped, drops_deletes)


def _positions(files: Sequence[WrittenFile], events: pa.Table) -> dict[str, NDArray[np.int64]]:
    """Return where these events' rows are, by data file."""
    numbers, rows = events.column(FILE).to_numpy(), events.column(ROW).to_numpy()
    return {files[number].path: rows[numbers == number] for number in each_once(numbers).tolist()}


def _together(*positions: Mapping[str, NDArray[np.int64]]) -> dict[str, NDArray[np.int64]]:
    paths = {path for each in positions for path in each}
    return {path: np.concatenate([each[path] for each in positions if path in each]) for path in paths}

"""Changes a column's type: one commit adds the new column, then one per file fills it.

No record is read again. A value that does not fit leaves its row: null in the new column, as it was in the
old. Killed anywhere, the same command goes on: the table says what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And, Not
from pyiceberg.table import FileScanTask, Table, Transaction

from spark_jobs.acts.act import act, batch_of_act, land_act, settle, summary_of_act
from spark_jobs.commit.anchor import check_properties
from spark_jobs.commit.retype_commit import RetypeFileCommit, TableChange
from spark_jobs.commit.sweep import sweep_prefix
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import load_drained
from spark_jobs.lake.file_rows import ALWAYS_TRUE, rows_of_file
from spark_jobs.lake.row_filters import is_null
from spark_jobs.lake.tables import progress_of
from spark_jobs.notices.sender import send_pending
from spark_jobs.protocol.errors import CommitConflict
from spark_jobs.protocol.progress import ColumnMap, Progress
from spark_jobs.protocol.progress_parts import KeptColumn, unfinished
from spark_jobs.protocol.works.changes import RETYPE
from spark_jobs.records.reading_plan import refit_of
from spark_jobs.replay.replay import settle_left_replays
from spark_jobs.reshape.retype_rules import refuse, spelled, type_of
from spark_jobs.schema.evolution import moved
from spark_jobs.schema.iceberg_types import declared_type

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema

    from spark_jobs.commit.swap import Change
    from spark_jobs.connections.connect import Connections
    from spark_jobs.protocol.batch import Batch

# Says in words what was done, after each file.
OnProgress: TypeAlias = "Callable[[str], None]"
# Returns rows with what fits of a kept column in the new one.
_Refitted: TypeAlias = "Callable[[pa.Table], pa.Table]"

# A file may be merged away under the command; an upkeep that never lets it through is told.
_MAX_CONFLICTS = 20


@dataclass(frozen=True, slots=True)
class Retyped:
    """Counts of a retype; ``files`` were rewritten; the values of ``left`` rows fit only ``kept``."""

    column: str
    kept: str
    files: int
    left: int


def retype(
    pipeline: PipelineConfig,
    connections: Connections,
    column: str,
    type_name: str,
    *,
    reason: str,
    on_progress: OnProgress = lambda _: None,
) -> Retyped:
    """Change a top-level column's type, and finish an interrupted change.

    Beside live drains, whose batches in flight are read again. Raises ``ConfigError`` (``cannot-retype``),
    ``BatchHeld`` while a batch waits for an operator, and what commits raise; run it again then.
    """
    settle_left_replays(pipeline, connections)
    kept = _begin(pipeline, connections, column, spelled(type_name), reason)
    table = load_drained(pipeline, connections)
    # What a column held before it was last given another type may fit this one.
    every = [each for each in progress_of(table).kept_columns if each.column == column]
    files = sum(_refill(pipeline, connections, each, reason, on_progress) for each in reversed(every))
    table = load_drained(pipeline, connections)
    act(pipeline.name, table, connections, RETYPE, reason=reason, change=partial(_done, column))
    send_pending(pipeline, connections)
    left = sum(
        len(rows)
        for each in every
        for task in _tasks(table, each)
        for rows in _waiting_rows(table, task, each)
    )
    return Retyped(column, kept.kept, files, left)


def _begin(
    pipeline: PipelineConfig, connections: Connections, column: str, type_name: str, reason: str
) -> KeptColumn:
    """Return the change: an unfinished one, or a new one that one commit begins."""
    table = load_drained(pipeline, connections)
    check_properties(table)
    waiting = unfinished(progress_of(table).kept_columns)
    if waiting is not None and (waiting.column, type_name) == (column, type_of(table, column)):
        return waiting
    refuse(pipeline, table, column, type_name, waiting)
    settle(pipeline, connections, then="retype")
    table = load_drained(pipeline, connections)
    batch = batch_of_act(pipeline.name, table, connections, RETYPE)

    def change(table: Table) -> tuple[Change, Progress]:
        progress = progress_of(table)
        refuse(pipeline, table, column, type_name, unfinished(progress.kept_columns))
        kept = KeptColumn(column, _kept_name(table, column), progress.generation)
        exchange = partial(_exchange, kept=kept, type_name=type_name)
        planned = _planned(table, exchange)
        _rehearse(planned, connections, batch, partial(_refitted, kept=kept, pipeline=pipeline))
        changed = replace(progress, kept_columns=(*progress.kept_columns, kept))
        return exchange, replace(changed, columns=_moved(planned.schema(), progress, kept))

    intent = TableChange(batch, change, summary_of_act(connections, reason))
    return land_act(connections, table, intent, reason).progress.kept_columns[-1]


def _exchange(transaction: Transaction, *, kept: KeptColumn, type_name: str) -> None:
    doc = next(each.doc for each in transaction.table_metadata.schema().fields if each.name == kept.column)
    # Two updates: within one, PyIceberg still takes the renamed column's name for taken.
    with transaction.update_schema() as update:
        update.rename_column(kept.column, kept.kept)
    with transaction.update_schema() as update:
        update.add_column((kept.column,), declared_type(type_name), doc=doc)  # whose name may have dots
        update.move_before((kept.column,), (kept.kept,))


def _planned(table: Table, exchange: Change) -> Table:
    """Return the future table; the new column gets the ids of its commit."""
    rehearsal = table.transaction()
    exchange(rehearsal)
    return Table(table.name(), rehearsal.table_metadata, table.metadata_location, table.io, table.catalog)


def _rehearse(planned: Table, connections: Connections, batch: Batch, refitted: _Refitted) -> None:
    """Raise errors of filling in advance: after the exchange of columns, values wait for it.

    One file of each partitioning is made anew, committed nowhere and swept.
    """
    smallest: dict[int, DataFile] = {}
    for task in sorted(planned.scan().plan_files(), key=lambda each: each.file.file_size_in_bytes):
        smallest.setdefault(task.file.spec_id, task.file)
    for file in smallest.values():
        RetypeFileCommit(batch, file.file_path, refitted, {}).stage(planned, connections)
    sweep_prefix(planned, f"{batch.attempt}-")


def _moved(planned: Schema, progress: Progress, kept: KeptColumn) -> ColumnMap:
    """Return the map with the old column's fields bound to the new one."""
    columns = {field.name: field for field in planned.fields}
    return moved(progress.columns, columns[kept.kept], columns[kept.column])


def _refill(
    pipeline: PipelineConfig,
    connections: Connections,
    kept: KeptColumn,
    reason: str,
    on_progress: OnProgress,
) -> int:
    """Fill the new column from the old one, file by file; return the number of files."""
    done = conflicts = 0
    seen = set[str]()
    refitted = partial(_refitted, kept=kept, pipeline=pipeline)
    while True:
        table = load_drained(pipeline, connections)
        tasks = [each for each in _tasks(table, kept) if each.file.file_path not in seen]
        if not tasks:
            return done
        try:
            for task in tasks:
                waiting = _waiting_rows(table, task, kept)
                if any(refitted(rows).column(kept.column).null_count < len(rows) for rows in waiting):
                    now = load_drained(pipeline, connections)
                    batch = batch_of_act(pipeline.name, now, connections, RETYPE)
                    summary = summary_of_act(connections, reason)
                    intent = RetypeFileCommit(batch, task.file.file_path, refitted, summary)
                    land_act(connections, now, intent, reason)
                    done += 1
                seen.add(task.file.file_path)
                on_progress(f"{len(seen):,} files checked, {done:,} rewritten")
        except CommitConflict:
            conflicts += 1
            if conflicts > _MAX_CONFLICTS:
                raise
            settle_left_replays(pipeline, connections)


def _tasks(table: Table, kept: KeptColumn) -> list[FileScanTask]:
    """Return the files that may have values in the old column alone."""
    fields = (table.schema().find_field(name) for name in (kept.column, kept.kept))
    is_counted = all(each.field_type.is_primitive for each in fields)
    waiting = And(is_null(kept.column), Not(is_null(kept.kept))) if is_counted else ALWAYS_TRUE
    return list(table.scan(waiting).plan_files())


def _waiting_rows(table: Table, task: FileScanTask, kept: KeptColumn) -> Iterator[pa.Table]:
    schema = table.schema().select(kept.column, kept.kept)
    return (rows.filter(_is_waiting(rows, kept)) for rows in rows_of_file(table.io, task, schema))


def _is_waiting(rows: pa.Table, kept: KeptColumn) -> pa.ChunkedArray:
    return pc.and_(pc.is_null(rows.column(kept.column)), pc.is_valid(rows.column(kept.kept)))


def _refitted(rows: pa.Table, *, kept: KeptColumn, pipeline: PipelineConfig) -> pa.Table:
    """Return the rows with the old column's fitting values moved to the new one."""
    at, was = rows.schema.get_field_index(kept.column), rows.schema.get_field_index(kept.kept)
    before, refit = rows.column(was), refit_of(pipeline, kept.column)
    fitted = refit(before, rows.schema.field(at).type)
    moved = np.asarray(pc.and_(_is_waiting(rows, kept), fitted.is_valid()))
    own = np.arange(len(rows))
    # Taken by position: Arrow chooses between values of two columns for few types only.
    both = pa.chunked_array([*rows.column(at).chunks, fitted])
    filled = both.take(pa.array(np.where(moved, own + len(rows), own)))
    rest = before.take(pa.array(own, mask=moved))
    return rows.set_column(at, rows.schema.field(at), filled).set_column(was, rows.schema.field(was), rest)


def _done(column: str, progress: Progress) -> Progress:
    columns = (each.finish() if each.column == column else each for each in progress.kept_columns)
    return replace(progress, kept_columns=tuple(columns))


def _kept_name(table: Table, column: str) -> str:
    """Return a name that no column has, and records' fields are unlikely to have."""
    kind = str(table.schema().find_type(column)).partition("<")[0].partition("(")[0]
    names, name, number = set(table.schema().column_names), f"_{column}_was_{kind}", 2
    while name in names:
        name, number = f"_{column}_was_{kind}_{number}", number + 1
    return name

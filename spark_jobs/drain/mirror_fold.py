"""A mirror's batch before its commit: which events live, and rows whole that their events told in part.

Nothing here decides where rows are: that is looked up when the commit is staged, and by whoever adopts it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.drain.bad_changes import refuse_foreign, stop_at_bad_changes, tell_first_source
from spark_jobs.drain.batch_run import BatchRun
from spark_jobs.formats.connect.events import SNAPSHOT, TRUNCATE
from spark_jobs.lake.parquet_writer import write_files
from spark_jobs.lake.tables import progress_of
from spark_jobs.mirror.fold import Fate, Folded, first_new, fold, had_by
from spark_jobs.mirror.keys import first_of_others, refuse_other_spellings
from spark_jobs.mirror.lookup import made_whole
from spark_jobs.mirror.written_events import events_of, rows_at
from spark_jobs.protocol.cdc import Cdc
from spark_jobs.protocol.errors import fault
from spark_jobs.records.layouts.changes import spelling_of
from spark_jobs.schema.metadata_columns import COMMIT_SEQUENCE, OFFSET, OPERATION, PARTITION, ROW_ID, SEQUENCE
from spark_jobs.spark.outcomes import Written

if TYPE_CHECKING:
    from pyiceberg.table import Table


def fold_written(
    run: BatchRun, table: Table, written: Written
) -> tuple[Written, Mapping[int, Mapping[int, str]]]:
    """Return what the batch comes to, and by partition and offset why events cannot be rows.

    ``table`` is loaded after the files were written. Where there are any of the latter nothing is folded:
    the batch is to be written again without them. Raises ``SourceChanged`` (``another-source``,
    ``another-table``, ``source-restarted``, ``partitions-changed``), ``ConfigError``
    (``mirror-key-changed``, ``mirror-key-spelling``), ``BadRecord``, and
    ``RetryableError`` (``change-not-told-yet``) where a changed key's row comes before those of its old one.
    """
    kept = run.batch.kind.kept(table)
    if kept is not None:
        spelling = spelling_of(run.pipeline, progress_of(table).cdc)
        refuse_other_spellings(table, spelling, run.pipeline.name)
    folded = _folded(run, table, written)
    refuse_foreign(run, folded)
    _refuse_other_keys(run, folded)
    _refuse_restart(run, table, folded)
    _refuse_unordered(run, folded)
    _refuse_without_snapshot(run, table, folded)
    # A rebuild may read partitions that the table does not know yet.
    _refuse_unplaced_truncate(run, folded, len({*progress_of(table).next_offsets, *run.batch.ranges.ends}))
    whole = made_whole(table, written.data_files, folded, looks_in_table=kept is not None)
    if whole.waiting:
        partition, offset = next(iter(whole.waiting.items()))
        error = fault("change-not-told-yet", record=f"{partition}:{offset}", **run.where)
        error.before = run.batch.ranges.before(whole.waiting)
        raise error
    if whole.missing:
        _stop_at(run, whole.missing)
        return written, whole.missing
    tell_first_source(run, progress_of(table), folded)
    # They take the place of those in the tasks' files: the last of a place counts.
    prefix = f"{run.batch.attempt}-whole-{uuid.uuid4().hex[:8]}"
    files = (*written.data_files, *write_files(table, prefix, [whole.rows]))
    return replace(written, data_files=files, balances=folded.balances(written.balances)), {}


def live_rows(run: BatchRun, table: Table, written: Written, columns: Sequence[str]) -> pa.Table:
    """Return what a batch that was folded leaves in the mirror, by partition and offset, in these columns.

    The latter are among them. Deletes are no rows, and those that were not told whole are there as looked up.
    """
    live = _folded(run, table, written).of(Fate.LIVES)
    rows = rows_at(table, written.data_files, live, table.schema().select(*columns))
    return rows.sort_by([(PARTITION, "ascending"), (OFFSET, "ascending")])


def _folded(run: BatchRun, table: Table, written: Written) -> Folded:
    cdc = progress_of(table).cdc or Cdc()
    if run.batch.kind.kept(table) is None:
        cdc = cdc.anew(run.batch.ranges.starts)
    return fold(events_of(table, written.data_files), cdc)


def _refuse_other_keys(run: BatchRun, folded: Folded) -> None:
    """Raise ``ConfigError`` where keys are of other fields than the table's or the configuration's."""
    events = folded.events
    keyed = events.filter(pc.not_equal(events.column(OPERATION), TRUNCATE))
    wanted, configured = folded.cdc.key or (), run.pipeline.mirror.key
    # Of the same fields in another order a text is another key.
    is_as_configured = not configured or {*wanted} == {*configured}
    at = first_of_others(keyed.column(ROW_ID), wanted) if is_as_configured else 0
    if at is not None and at < len(keyed):
        row = keyed.slice(at, 1).to_pylist()[0]
        raise fault(
            "mirror-key-changed",
            row=row[ROW_ID],
            names=", ".join(configured or wanted) or "a text",
            wanted=", ".join(wanted),
            **_where(run, row),
        )


def _refuse_restart(run: BatchRun, table: Table, folded: Folded) -> None:
    new = first_new(folded, partial(had_by, table))
    if new is None:
        return
    event = folded.events.slice(new, 1).to_pylist()[0]
    raise fault(
        "source-restarted", commit=event[COMMIT_SEQUENCE], position=event[SEQUENCE], **_where(run, event)
    )


def _refuse_without_snapshot(run: BatchRun, table: Table, folded: Folded) -> None:
    """Raise ``OffsetsUnavailable`` where a rebuild begins at a restart and not all rows were told since."""
    cdc, starts = progress_of(table).cdc, run.batch.ranges.starts
    begins_anew = cdc is not None and cdc.restarts and starts == starts | cdc.latest_begin
    if run.batch.kind.kept(table) is not None or not begins_anew or not folded.cdc.positions:
        return
    if pc.any(pc.equal(folded.events.column(OPERATION), SNAPSHOT)).as_py():
        return
    raise fault("rebuild-without-snapshot", **run.where, topic=run.batch.topic)


def _refuse_unordered(run: BatchRun, folded: Folded) -> None:
    if folded.unordered is None:
        return
    event = folded.events.slice(folded.unordered, 1).to_pylist()[0]
    raise fault("partitions-changed.unordered", row=event[ROW_ID], **_where(run, event))


def _refuse_unplaced_truncate(run: BatchRun, folded: Folded, partitions: int) -> None:
    """Raise ``BadRecord`` for a truncate of which nobody knows what came before it in other partitions."""
    truncates = folded.of(Fate.TRUNCATES)
    unplaced = truncates.filter(pc.is_null(truncates.column(COMMIT_SEQUENCE)))
    if partitions > 1 and len(unplaced):
        event = unplaced.slice(0, 1).to_pylist()[0]
        raise fault("truncate-without-position", **_where(run, event), operation=event[OPERATION])


def _where(run: BatchRun, event: Mapping[str, Any]) -> dict[str, object]:
    """Return an event's coordinates, for an error."""
    return {**run.where, "partition": event[PARTITION], "offset": event[OFFSET]}


def _stop_at(run: BatchRun, missing: Mapping[int, Mapping[int, str]]) -> None:
    firsts = {partition: min(offsets) for partition, offsets in missing.items()}
    stop_at_bad_changes(
        run,
        sum(map(len, missing.values())),
        {
            partition: (offset, f"(fold), {missing[partition][offset]}")
            for partition, offset in firsts.items()
        },
    )

"""A mirror's batch before its commit: live events, completed rows, and errors that stop it.

Nothing here decides where rows are: that is looked up when the commit is staged, and by whoever adopts it.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.config.columns import Incompatible
from spark_jobs.config.sections import BadChanges
from spark_jobs.connections.connect import load_fresh
from spark_jobs.drain.batch_run import BatchRun
from spark_jobs.formats.connect.events import NAMELESS, SNAPSHOT, TRUNCATE
from spark_jobs.lake.parquet_writer import write_files
from spark_jobs.lake.tables import progress_of
from spark_jobs.mirror.fold import Fate, Folded, first_new, fold, had_by
from spark_jobs.mirror.keys import first_of_others, refuse_other_spellings
from spark_jobs.mirror.live_rows import events_of, rows_at
from spark_jobs.mirror.lookup import complete_rows
from spark_jobs.protocol import mends
from spark_jobs.protocol.batch import Written
from spark_jobs.protocol.cdc import Cdc
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.texts import count
from spark_jobs.records.layouts.changes import spelling_of
from spark_jobs.schema.iceberg_types import (
    COMMIT_SEQUENCE,
    OFFSET,
    OPERATION,
    PARTITION,
    ROW_ID,
    SEQUENCE,
    SOURCE,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.protocol.progress import Progress


def fold_written(
    run: BatchRun, table: Table, written: Written
) -> tuple[Written, Mapping[int, Mapping[int, str]]]:
    """Return the folded batch, and errors of invalid events by partition and offset.

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
    whole = complete_rows(table, written.data_files, folded, looks_in_table=kept is not None)
    if whole.waiting:
        partition, offset = next(iter(whole.waiting.items()))
        error = fault("change-not-told-yet", record=f"{partition}:{offset}", **run.where)
        error.before = run.batch.ranges.before(whole.waiting)
        raise error
    if whole.missing:
        _stop_at(run, whole.missing)
        return written, whole.missing
    log_first_source(run, progress_of(table), folded)
    # They take the place of those in the tasks' files: the last of a place counts.
    prefix = f"{run.batch.attempt}-whole-{uuid.uuid4().hex[:8]}"
    files = (*written.data_files, *write_files(table, prefix, [whole.rows]))
    return replace(written, data_files=files, balances=folded.balances(written.balances)), {}


def table_of(run: BatchRun) -> Table:
    """Return the current table: the batch's own columns may be newer than its plan."""
    table = load_fresh(run.connections, run.batch.table)
    if table is None or table.metadata.table_uuid != run.tables.data.metadata.table_uuid:
        raise fault("table-replaced", table=run.batch.table, batch=run.batch.batch_id)
    return table if run.columns is None else run.columns.on(table)


def settled(
    run: BatchRun,
    written: Written,
    again: Callable[[BatchRun, Mapping[int, Mapping[int, str]]], Written],
) -> Written:
    """Fold a mirror's batch; if events are invalid, write it ``again`` with dead letters instead."""
    with run.steps.step("fold"):
        folded, bad = fold_written(run, table_of(run), written)
        rejected: dict[int, dict[int, str]] = {}
        while bad:
            # Without them other events are the newest of their keys, and may lack the same.
            rejected = {p: {**rejected.get(p, {}), **bad.get(p, {})} for p in {*rejected, *bad}}
            folded, bad = fold_written(run, table_of(run), again(run, rejected))
        run.connections.fail_points.reach("drain.after-fold")
        return folded


def live_rows(run: BatchRun, table: Table, written: Written, columns: Sequence[str]) -> pa.Table:
    """Return the rows that a folded batch adds to the mirror, by partition and offset.

    The latter are among them. Deletes are no rows, and those that were not told whole are there as looked up.
    """
    live = _folded(run, table, written).of(Fate.LIVES)
    rows = rows_at(table, written.data_files, live, table.schema().select(*columns))
    return rows.sort_by([(PARTITION, "ascending"), (OFFSET, "ascending")])


def _folded(run: BatchRun, table: Table, written: Written) -> Folded:
    cdc = progress_of(table).cdc or Cdc()
    if run.batch.kind.kept(table) is None:
        cdc = cdc.at_starts(run.batch.ranges.starts)
    return fold(events_of(table, written.data_files), cdc)


def _refuse_other_keys(run: BatchRun, folded: Folded) -> None:
    """Raise ``ConfigError`` if key fields differ from the table's or the configuration's."""
    events = folded.events
    keyed = events.filter(pc.not_equal(events.column(OPERATION), TRUNCATE))
    key_fields, configured = folded.cdc.key or (), run.pipeline.mirror.key
    # Of the same fields in another order a text is another key.
    is_as_configured = not configured or {*key_fields} == {*configured}
    at = first_of_others(keyed.column(ROW_ID), key_fields) if is_as_configured else 0
    if at is not None and at < len(keyed):
        row = keyed.slice(at, 1).to_pylist()[0]
        raise fault(
            "mirror-key-changed",
            row=row[ROW_ID],
            names=", ".join(configured or key_fields) or "a text",
            wanted=", ".join(key_fields),
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
    """Raise ``OffsetsUnavailable`` if a rebuild starts at a source restart without a full snapshot."""
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
    """Raise ``BadRecord`` for a truncate whose order to other partitions' events is unknown."""
    truncates = folded.of(Fate.TRUNCATES)
    unplaced = truncates.filter(pc.is_null(truncates.column(COMMIT_SEQUENCE)))
    if partitions > 1 and len(unplaced):
        event = unplaced.slice(0, 1).to_pylist()[0]
        raise fault("truncate-without-position", **_where(run, event), operation=event[OPERATION])


def _where(run: BatchRun, event: Mapping[str, Any]) -> dict[str, object]:
    """Return an event's coordinates, for errors."""
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


# What stops a mirror's drain: changes that cannot be rows, events of another source or table.


def may_stop(run: BatchRun) -> bool:
    """True if the batch is of a mirror that stops at bad changes."""
    return run.pipeline.layout.keeps_newest and run.pipeline.mirror.bad_changes is BadChanges.STOP


def stop_at_bad_changes(run: BatchRun, bad: int, firsts: Mapping[int, tuple[int, str]]) -> None:
    """Raise ``BadRecord`` (``bad-change``) if a mirror's batch has any.

    ``firsts`` are by partition the offset of the first one, and why it cannot be a row.
    """
    if not may_stop(run) or not bad:
        return
    partition = min(firsts)
    offset, why = firsts[partition]
    told = f"{count(bad, 'change')} in {run.batch.ranges.records:,} offsets"
    at = {**run.where, "ranges": run.batch.ranges, "partition": partition, "offset": offset}
    if run.batch.kind.kept(run.tables) is None:
        raise fault("bad-change.rebuild", records=told, why=why, **at)
    error = fault(
        "bad-change",
        records=told,
        why=why,
        at=str(OffsetRange(partition, offset, offset + 1)),
        advice=_changed_type_hint(run, why),
        **at,
    )
    error.before = run.batch.ranges.before({each: first for each, (first, _) in firsts.items()})
    raise error


def _changed_type_hint(run: BatchRun, why: str) -> str:
    """Return a hint if a source without schemas may have changed a column's type."""
    if ", column " not in why:
        return ""
    rebuilt = mends.act("rebuild", run.pipeline.name, "--from TIME")
    is_beside = run.pipeline.table_schema.incompatible is Incompatible.NEW_COLUMN
    return (
        " If the source gave the column another type, declare that type in `columns:` and take a new snapshot"
        f" with the connector. Then rebuild the mirror from there: {rebuilt}."
        + " `schema: {incompatible: new_column}` has no effect on events without schemas."
        * is_beside
    )


# Events of another source, or of another table, in the topic of a mirror: its rows would be both's.


_log = logging.getLogger(__name__)
_OF_SOURCE = ("connector", "name", "db")


def refuse_foreign(run: BatchRun, folded: Folded) -> None:
    """Raise ``SourceChanged`` (``another-source``, ``another-table``) for changes of another origin."""
    if not folded.is_foreign.any():
        return
    foreign = (
        folded.events.filter(pa.array(folded.is_foreign)).select([PARTITION, OFFSET, SOURCE]).to_pylist()
    )
    event, own = foreign[0], folded.cdc.source
    origin, own_origin = (json.loads(each or NAMELESS) for each in (event[SOURCE], own))
    is_other_table = bool(origin) and all(origin.get(name) == own_origin.get(name) for name in _OF_SOURCE)
    error = fault(
        "another-table" if is_other_table else "another-source",
        other=_named(event[SOURCE]),
        own=_named(own),
        **run.where,
        partition=event[PARTITION],
        offset=event[OFFSET],
    )
    firsts = {each[PARTITION]: each[OFFSET] for each in reversed(foreign)}
    error.before = run.batch.ranges.before(firsts)
    raise error


def log_first_source(run: BatchRun, progress: Progress, folded: Folded) -> None:
    """Log the source that a mirror accepts from now on, if an earlier version did not record one."""
    source = folded.cdc.source
    if progress.cdc is not None and progress.cdc.source is None and source is not None:
        _log.warning(
            "the mirror %s now accepts only changes of %s, the first source in its topic;"
            " an audit shows whether it has rows of other sources (batch %s)",
            run.batch.table,
            source,
            run.batch.batch_id,
        )


def _named(source: str | None) -> str:
    if source is None:  # an earlier version filled the mirror
        return "the source of its earlier changes"
    return "a source without a name" if source == NAMELESS else source

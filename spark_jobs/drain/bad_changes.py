"""What stops a mirror's drain: changes that cannot be rows, events of another source or table."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.config.columns import Incompatible
from spark_jobs.config.sections import BadChanges
from spark_jobs.formats.connect.events import NAMELESS
from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.words import count
from spark_jobs.schema.metadata_columns import OFFSET, PARTITION, SOURCE

if TYPE_CHECKING:
    from spark_jobs.drain.batch_run import BatchRun
    from spark_jobs.mirror.fold import Folded
    from spark_jobs.protocol.progress import Progress


def may_stop(run: BatchRun) -> bool:
    """Whether the batch is of a mirror that stops at bad changes."""
    return run.pipeline.is_mirror and run.pipeline.mirror.bad_changes is BadChanges.STOP


def stop_at_bad_changes(run: BatchRun, bad: int, firsts: Mapping[int, tuple[int, str]]) -> None:
    """Raise ``BadRecord`` (``bad-change``) where a mirror's batch has any.

    ``firsts`` are by partition the offset of the first one, and why it cannot be a row.
    """
    if not may_stop(run) or not bad:
        return
    partition = min(firsts)
    offset, why = firsts[partition]
    told = f"{count(bad, 'change')} of {run.batch.ranges.records:,} offsets"
    at = {**run.where, "ranges": run.batch.ranges, "partition": partition, "offset": offset}
    if run.batch.kind.kept(run.tables) is None:
        raise fault("bad-change.rebuild", told=told, why=why, **at)
    error = fault(
        "bad-change",
        told=told,
        why=why,
        at=str(OffsetRange(partition, offset, offset + 1)),
        advice=_of_another_type(run, why),
        **at,
    )
    error.before = run.batch.ranges.before({each: first for each, (first, _) in firsts.items()})
    raise error


def _of_another_type(run: BatchRun, why: str) -> str:
    """Return what to do where a source that sends no schemas may have given a column another type."""
    if ", column " not in why:
        return ""
    rebuilt = mends.act("rebuild", run.pipeline.name, "--from TIME")
    is_beside = run.pipeline.table_schema.incompatible is Incompatible.NEW_COLUMN
    return (
        " Where the source gave the column another type, declare that in `columns:`, have all rows told anew"
        f" and make the mirror anew from there: {rebuilt}."
        + " `schema: {incompatible: new_column}` does nothing for events without schemas."
        * is_beside
    )


# Events of another source, or of another table, in the topic of a mirror: its rows would be both's.


_log = logging.getLogger(__name__)
_OF_SOURCE = ("connector", "name", "db")


def refuse_foreign(run: BatchRun, folded: Folded) -> None:
    """Raise ``SourceChanged`` (``another-source``, ``another-table``) for changes of another than its own."""
    if not folded.is_foreign.any():
        return
    foreign = (
        folded.events.filter(pa.array(folded.is_foreign)).select([PARTITION, OFFSET, SOURCE]).to_pylist()
    )
    event, own = foreign[0], folded.cdc.source
    told, told_own = (json.loads(each or NAMELESS) for each in (event[SOURCE], own))
    is_other_table = bool(told) and all(told.get(name) == told_own.get(name) for name in _OF_SOURCE)
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


def tell_first_source(run: BatchRun, progress: Progress, folded: Folded) -> None:
    """Say whose changes a mirror has from now on, if an earlier version filled it and did not ask."""
    source = folded.cdc.source
    if progress.cdc is not None and progress.cdc.source is None and source is not None:
        _log.warning(
            "the mirror %s is from now on of %s alone, the first that its changes name; an audit says whether"
            " it has others' (batch %s)",
            run.batch.table,
            source,
            run.batch.batch_id,
        )


def _named(source: str | None) -> str:
    if source is None:  # an earlier version filled the mirror
        return "a source that its changes name"
    return "a source that it does not name" if source == NAMELESS else source

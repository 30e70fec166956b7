"""A mirror's drain stops at a change that cannot be a row, unless it may become a dead letter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from spark_jobs.config.mirror import BadChanges
from spark_jobs.config.new_fields import Incompatible
from spark_jobs.protocol import mends
from spark_jobs.protocol.batch import BatchKind
from spark_jobs.protocol.errors import BadRecord
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.words import count

if TYPE_CHECKING:
    from spark_jobs.drain.batch_run import BatchRun


def may_stop(run: BatchRun) -> bool:
    """Whether the batch is of a mirror that stops at bad changes."""
    return run.pipeline.is_mirror and run.pipeline.mirror.bad_changes is BadChanges.STOP


def stop_at_bad_changes(run: BatchRun, bad: int, firsts: Mapping[int, tuple[int, str]]) -> None:
    """Raise ``BadRecord`` (``bad-change``) where a mirror's batch has any.

    ``firsts`` are by partition the offset of the first one, and why it cannot be a row.
    """
    if not may_stop(run) or not bad:
        return
    name, partition = run.pipeline.name, min(firsts)
    offset, why = firsts[partition]
    told = f"{count(bad, 'change')} of {run.batch.ranges.records:,} offsets"
    place = {"ranges": run.batch.ranges, "partition": partition, "offset": offset}
    at = {"pipeline": name, "table": run.batch.table, **place}
    if run.batch.kind is BatchKind.REBUILD:
        raise BadRecord(
            f"{told} cannot be rows; the first: {partition}:{offset} {why}",
            code="bad-change",
            hint="Nothing was committed. Have the source tell all its rows anew (a new or an incremental"
            " snapshot), and make the mirror anew from there:"
            f" {mends.act('rebuild', name, '--from TIME')}. With `mirror: {{bad_changes: dead_letters}}` they"
            " become dead letters, and the check `exact` fails.",
            **at,
        )
    error = BadRecord(
        f"{told} cannot be rows; the first: {partition}:{offset} {why}",
        code="bad-change",
        hint="What came before it is committed."
        f" {mends.act('skip', name, str(OffsetRange(partition, offset, offset + 1)))} leaves it out; with"
        " `mirror: {bad_changes: dead_letters}` all such become dead letters. A later change of a key at its"
        " source (an update, an incremental snapshot) mends its row; until then it is as it was, and the"
        f" check `exact` fails.{_of_another_type(run, why)}",
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

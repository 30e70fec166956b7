"""A mirror's drain stops at a change that cannot be a row, unless it may become a dead letter."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from spark_jobs.config.mirror import BadChanges
from spark_jobs.protocol import mends
from spark_jobs.protocol.batch import BatchKind
from spark_jobs.protocol.errors import BadRecord
from spark_jobs.protocol.words import count

if TYPE_CHECKING:
    from spark_jobs.drain.batch_run import BatchRun


def stop_at_bad_changes(run: BatchRun, bad: int, first: Callable[[], str], **where: object) -> None:
    """Raise ``BadRecord`` (``bad-change``) where a mirror's batch has any; ``first`` tells of one."""
    if not run.pipeline.is_mirror or not bad or run.pipeline.mirror.bad_changes is not BadChanges.STOP:
        return
    name, records = run.pipeline.name, run.batch.ranges.records
    at = {"pipeline": name, "table": run.batch.table, "ranges": run.batch.ranges, **where}
    if run.batch.kind is BatchKind.REBUILD:
        raise BadRecord(
            f"{count(bad, 'change')} of {records:,} offsets cannot be rows; the first: {first()}",
            code="bad-change",
            hint="Nothing was committed. Have the source tell all its rows anew (a new or an incremental"
            " snapshot), and make the mirror anew from there:"
            f" {mends.act('rebuild', name, '--from TIME')}. With `mirror: {{bad_changes: dead_letters}}` they"
            " become dead letters, and the check `exact` fails.",
            **at,
        )
    raise BadRecord(
        f"{count(bad, 'change')} of {records:,} offsets cannot be rows; the first: {first()}",
        code="bad-change",
        hint="Nothing was committed: the rows of their keys would be wrong. With `mirror: {bad_changes:"
        " dead_letters}` they become dead letters, and a later change of a key at its source (an update, an"
        f" incremental snapshot) mends its row; {mends.command('skip', name)} leaves them out. The check"
        " `exact` fails after either.",
        **at,
    )

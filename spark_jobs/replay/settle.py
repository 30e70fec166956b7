"""What a replay that died left behind: finished when it landed, else given up and swept.

Drains leave replays alone: one may be alive beside them, and none stands in their way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spark_jobs.acts.act import act
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.tables import load_fresh
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.fences import has_passed
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.work import Settler
from spark_jobs.protocol.works.changes import CANCEL
from spark_jobs.recovery.decide import left_to
from spark_jobs.recovery.recover import settle_replays
from spark_jobs.recovery.recovered import RecoveryResult
from spark_jobs.txlog.entries import Attempt

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections


def settle_left_replays(
    pipeline: PipelineConfig, connections: Connections, *, before_us: int | None = None
) -> RecoveryResult:
    """Settle every unfinished replay of the table, or those planned before a time (µs since the epoch).

    One that could still land is given up first, by a commit that raises the table's epoch: from then on its
    own is refused, wherever it is, and its files can be deleted. Safe to repeat and beside drains; a replay
    that is alive ends with ``replay-overtaken``. Errors as ``recover``.
    """
    table = load_fresh(connections, pipeline.table)
    if table is None:
        return RecoveryResult()
    unfinished = connections.txlog.unfinished(str(table.metadata.table_uuid), now_us=connections.now_us())
    replays = left_to(Settler.REPLAY, unfinished)
    attempts = [a for a in replays if before_us is None or a.started_at_us < before_us]
    if not attempts:
        return RecoveryResult()
    _give_up(pipeline, connections, table, attempts)
    return settle_replays(pipeline, connections, attempts)


def _give_up(
    pipeline: PipelineConfig, connections: Connections, table: Table, attempts: list[Attempt]
) -> None:
    progress = progress_of(table)
    alive = [a.uuid for a in attempts if a.batch is not None and not has_passed(progress, a.batch)]
    alive = [uuid for uuid in alive if not progress.has_landed(uuid)]
    if not alive:
        return

    def raise_epoch(now: Progress) -> Progress:
        # Whoever raised it meanwhile has fenced them as well.
        is_fenced = now.replay_epoch > progress.replay_epoch
        return now if is_fenced else replace(now, replay_epoch=now.replay_epoch + 1)

    reason = f"replays that did not finish: {', '.join(alive)}"
    act(pipeline.name, table, connections, CANCEL, reason=reason, change=raise_epoch)

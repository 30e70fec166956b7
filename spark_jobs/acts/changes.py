"""Changes of a table's progress by acts: skipping offsets, another source, an earlier state. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from spark_jobs.protocol.cdc import Cdc
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges, spans_after_rollback
from spark_jobs.protocol.progress import CommitRecord, LastDrain, PendingDeadLetters, Progress
from spark_jobs.protocol.progress_parts import shapes_after_rollback, skips_below, with_skipped
from spark_jobs.protocol.source import SourceState


def skip_ranges(progress: Progress, ranges: OffsetRanges, reason: str) -> Progress:
    """Return the progress after the ranges, which are recorded as skipped for the reason."""
    return replace(
        progress,
        next_offsets={**progress.next_offsets, **ranges.ends},
        starts={**ranges.starts, **progress.starts},
        skipped=with_skipped(progress.skipped, progress.generation, ranges, reason),
    )


def follow_source(progress: Progress, source: SourceState, starts: Mapping[int, int] | None) -> Progress:
    """Return the progress with the identity of ``source``; ``starts`` opens the next generation.

    Dead letters it owes must be in their table: those of a generation that ended cannot be added later.
    """
    same = replace(
        progress,
        cluster_id=source.cluster_id or progress.cluster_id,
        topic_id=source.topic_id or progress.topic_id,
        pending_dead_letters=None,
        owed_routes=None,
        # Another cluster counts its leaders anew, and what the same one lost has been accepted.
        leader_epochs={},
    )
    if starts is None:
        return same
    last = progress.last_drain
    return replace(
        same,
        generation=progress.generation + 1,
        earlier={**progress.earlier, progress.generation: progress.next_offsets},
        next_offsets=dict(starts),
        starts=dict(starts),
        # It still tells what records weigh; its rows and times are of the generation before.
        last_drain=replace(last, attempt="", valid_through_ms=None) if last else None,
        replay_epoch=progress.replay_epoch + 1,
        schema_spans=(),  # its offsets are counted anew
        shaped_by=(),
        # So are its partitions' positions, and where a rebuild began; its keys stay. Which rows the source
        # has no more is not told.
        cdc=Cdc(progress.cdc.key).with_restart(starts) if progress.cdc else None,
    )


@dataclass(frozen=True, slots=True)
class Rewind:
    """Offsets to which a rollback returns, and those of them that Kafka no longer has.

    ``undone`` are the ranges from there to where the table stood; ``lost`` those of them that cannot be
    drained again.
    """

    next_offsets: dict[int, int]
    undone: OffsetRanges
    lost: OffsetRanges


def plan_rewind(progress: Progress, next_offsets: Mapping[int, int], source: SourceState) -> Rewind:
    """Plan the return to ``next_offsets``; a partition unknown at that time begins at its start."""
    back = {
        p: min(next_offsets.get(p, progress.starts.get(p, 0)), offset)
        for p, offset in progress.next_offsets.items()
    }
    undone = OffsetRanges.of(
        OffsetRange(p, back[p], offset) for p, offset in progress.next_offsets.items() if back[p] < offset
    )
    return Rewind(back, undone, undone.before(source.low))


def rewind_progress(
    progress: Progress,
    rewind: Rewind,
    last_drain: LastDrain | None,
    last_drain_offsets: CommitRecord | None,
    *,
    attempt: str,
    reason: str,
) -> Progress:
    """Return the progress for the rollback's commit, under the attempt's name.

    Drains and replays that were planned before are fenced; the dead letters of what is undone are owed to go.
    """
    next_offsets = {**rewind.next_offsets, **rewind.lost.ends}
    skipped = skips_below(progress.skipped, progress.generation, rewind.next_offsets)
    pending = PendingDeadLetters(attempt, rewind.undone, (), replaces=True)
    back = replace(
        progress,
        next_offsets=next_offsets,
        pending_dead_letters=pending if rewind.undone else None,
        owed_routes=None,
        # Without a drain to name there is none whose rows could be looked for.
        last_drain=last_drain or LastDrain("", 0, 0, 0, None),
        last_drain_offsets=last_drain_offsets,
        replay_epoch=progress.replay_epoch + 1,
        rollbacks=progress.rollbacks + 1,
        compacted_files=0,
        skipped=with_skipped(skipped, progress.generation, rewind.lost, reason),
        schema_spans=spans_after_rollback(progress.schema_spans, rewind.next_offsets),
        shaped_by=shapes_after_rollback(progress.shaped_by, rewind.next_offsets),
    )
    return back.with_pending_routes(attempt, rewind.undone, {}, replaces=True) if rewind.undone else back

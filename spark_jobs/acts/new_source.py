"""What a table's progress becomes when its topic is another one by now. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.source import SourceState


@dataclass(frozen=True, slots=True)
class Accepted:
    """Where the table goes on from; ``continues`` when its offsets stayed what they were."""

    generation: int
    continues: bool
    next_offsets: dict[int, int]
    snapshot_id: int


def follow_source(progress: Progress, source: SourceState, starts: Mapping[int, int] | None) -> Progress:
    """Return the progress with the identity of ``source``; at ``starts`` it opens the next generation.

    Dead letters it owes must be in their table: those of a generation that ended cannot be added later.
    """
    same = replace(
        progress,
        cluster_id=source.cluster_id or progress.cluster_id,
        topic_id=source.topic_id or progress.topic_id,
        pending_dead_letters=None,
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
    )

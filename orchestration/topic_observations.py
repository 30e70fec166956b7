"""What the backlog sensor sees of topics, as observations; Dagster keeps each for ever, so they are few."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dagster import AssetObservation

from assets.keys import topic_key
from spark_jobs.monitoring.survey import Surveyed

if TYPE_CHECKING:
    from resources.sluice import Sluice
    from spark_jobs.protocol.source import SourceState

EVERY_SECONDS = 3600.0
# For all topics together: about 1,400 observations a day, however many there are.
SECONDS_EACH = 60.0
PARTITIONS_SHOWN = 64


def topic_observations(looks: Sequence[object], sluice: Sluice, now: float) -> list[AssetObservation]:
    """Return one for each topic that changed since it was told of last, long enough ago; ``now`` in seconds.

    What was told is remembered for as long as the code server runs.
    """
    readers: dict[str, list[Surveyed]] = defaultdict(list)
    for look in looks:
        if isinstance(look, Surveyed):
            readers[look.pipeline.topic].append(look)
    pause = max(EVERY_SECONDS, SECONDS_EACH * len(readers))
    found = []
    for topic, its in readers.items():
        told_at, before = sluice.topics_told.get(topic, (float("-inf"), None))
        metadata = _ends(its[0].source) | {f"lag_{look.pipeline.name}": _lag(look) for look in its}
        if metadata != before and not 0 <= now - told_at < pause:
            sluice.topics_told[topic] = (now, metadata)
            found.append(AssetObservation(topic_key(topic), metadata=metadata))
    return found


def _ends(source: SourceState) -> dict[str, Any]:
    held = sum(source.end[partition] - low for partition, low in source.low.items())
    ends = {"end_offsets": {str(p): end for p, end in sorted(source.end.items())}}
    return {"offsets_held": held, **(ends if len(source.end) <= PARTITIONS_SHOWN else {})}


def _lag(look: Surveyed) -> int:
    return look.source.lag(look.table.progress.next_offsets if look.table else {})

"""The sensor that keeps each replay asset's windows: those that are drained and that Kafka still holds."""

from collections.abc import Iterator, Sequence

from dagster import (
    AddDynamicPartitionsRequest,
    DeleteDynamicPartitionsRequest,
    ResourceParam,
    SensorEvaluationContext,
    SensorResult,
)

from assets.replays import windows_of
from orchestration.jobs import watching
from resources.sluice import Sluice
from spark_jobs.monitoring.survey import Problem
from spark_jobs.replay.ranges import window_keys

# A window is many minutes of most topics.
SECONDS_BETWEEN_TICKS = 60

Request = AddDynamicPartitionsRequest | DeleteDynamicPartitionsRequest


@watching(
    SECONDS_BETWEEN_TICKS,
    "Registers the windows of offsets that can be replayed, and forgets those Kafka has deleted.",
)
def windows_sensor(context: SensorEvaluationContext, sluice: ResourceParam[Sluice]) -> SensorResult:
    """One tick."""
    requests: list[Request] = []
    problems = []
    for look in sluice.surveyor.survey():
        if isinstance(look, Problem):
            problems.append(f"{look.pipeline.name}: {look.reason}")
        elif look.table is not None and "replay" not in look.pipeline.layout.refused:
            name = windows_of(look.pipeline).name or ""
            replayable = window_keys(look.source, look.table.progress.next_offsets)
            requests += requests_for(name, context.instance.get_dynamic_partitions(name), replayable)
    if requests:
        return SensorResult(dynamic_partitions_requests=requests)
    return SensorResult(skip_reason="; ".join(problems) or "No window began or was deleted by Kafka.")


def requests_for(name: str, registered: Sequence[str], replayable: Sequence[str]) -> Iterator[Request]:
    """Give what makes ``registered`` equal ``replayable``, in its order, which the UI shows."""
    kept_windows = [key for key in registered if key in set(replayable)]
    in_order = 0
    while in_order < len(kept_windows) and kept_windows[in_order] == replayable[in_order]:
        in_order += 1
    kept = set(kept_windows[:in_order])
    if deleted := [key for key in registered if key not in kept]:
        yield DeleteDynamicPartitionsRequest(name, deleted)
    if added := list(replayable[in_order:]):
        yield AddDynamicPartitionsRequest(name, added)

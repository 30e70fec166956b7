"""The sensor that registers the windows of each replay asset: drained offsets that Kafka still has."""

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
from spark_jobs.monitoring.survey import Problem, Surveyed, waits
from spark_jobs.replay.ranges import window_keys

# In most topics a window covers many minutes.
SECONDS_BETWEEN_TICKS = 60

Request = AddDynamicPartitionsRequest | DeleteDynamicPartitionsRequest


@watching(
    SECONDS_BETWEEN_TICKS,
    "Registers the windows of offsets that can be replayed and removes those that Kafka has deleted.",
)
def windows_sensor(context: SensorEvaluationContext, sluice: ResourceParam[Sluice]) -> SensorResult:
    """Run one tick."""
    requests: list[Request] = []
    problems = []
    for look in sluice.surveyor.survey(_may_have_another):
        if isinstance(look, Problem):
            problems.append(f"{look.pipeline.name}: {look.reason}")
        elif look.table is not None and "replay" not in look.pipeline.layout.refused:
            name = windows_of(look.pipeline).name or ""
            replayable = window_keys(look.source, look.table.progress.next_offsets)
            if sluice.windows_registered.get(name) == replayable:
                continue
            wanted = list(requests_for(name, context.instance.get_dynamic_partitions(name), replayable))
            requests += wanted
            if not wanted:
                sluice.windows_registered[name] = replayable
    if requests:
        return SensorResult(dynamic_partitions_requests=requests)
    return SensorResult(skip_reason="; ".join(problems) or "No window was added or deleted.")


def _may_have_another(look: Surveyed) -> bool:
    """True if a drain since the table was read may have begun a window or made the table."""
    if look.table is None:
        return waits(look)
    drained = look.table.progress.next_offsets
    return window_keys(look.source, drained) != window_keys(look.source, drained | look.source.end)


def requests_for(name: str, registered: Sequence[str], replayable: Sequence[str]) -> Iterator[Request]:
    """Yield the requests that make ``registered`` equal ``replayable``, in its order, which the UI shows."""
    kept_windows = [key for key in registered if key in set(replayable)]
    in_order = 0
    while in_order < len(kept_windows) and kept_windows[in_order] == replayable[in_order]:
        in_order += 1
    kept = set(kept_windows[:in_order])
    if deleted := [key for key in registered if key not in kept]:
        yield DeleteDynamicPartitionsRequest(name, deleted)
    if added := list(replayable[in_order:]):
        yield AddDynamicPartitionsRequest(name, added)

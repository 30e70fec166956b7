"""The sensor that keeps each replay asset's windows: those that are drained and that Kafka still holds."""

from collections.abc import Iterator, Sequence

from dagster import (
    AddDynamicPartitionsRequest,
    DefaultSensorStatus,
    DeleteDynamicPartitionsRequest,
    ResourceParam,
    SensorEvaluationContext,
    SensorResult,
    sensor,
)

from assets.replays import windows_of
from resources.sluice import Sluice
from spark_jobs.monitoring.survey import Problem
from spark_jobs.replay.ranges import window_keys

# A window is many minutes of most topics.
SECONDS_BETWEEN_TICKS = 60

Request = AddDynamicPartitionsRequest | DeleteDynamicPartitionsRequest


@sensor(
    name="windows_sensor",
    minimum_interval_seconds=SECONDS_BETWEEN_TICKS,
    default_status=DefaultSensorStatus.RUNNING,
    description="Registers the windows of offsets that can be replayed, and forgets those Kafka has deleted.",
)
def windows_sensor(context: SensorEvaluationContext, sluice: ResourceParam[Sluice]) -> SensorResult:
    """One tick."""
    requests: list[Request] = []
    problems = []
    for look in sluice.survey():
        if isinstance(look, Problem):
            problems.append(f"{look.pipeline.name}: {look.error}")
        elif look.table is not None:
            name = windows_of(look.pipeline).name or ""
            wanted = window_keys(look.source, look.table.progress.next_offsets)
            requests += requests_for(name, context.instance.get_dynamic_partitions(name), wanted)
    if requests:
        return SensorResult(dynamic_partitions_requests=requests)
    return SensorResult(skip_reason="; ".join(problems) or "No window began or was deleted by Kafka.")


def requests_for(name: str, there: Sequence[str], wanted: Sequence[str]) -> Iterator[Request]:
    """What makes ``there`` equal ``wanted``, in its order: the UI lists windows as they were registered."""
    staying = [key for key in there if key in set(wanted)]
    in_order = 0
    while in_order < len(staying) and staying[in_order] == wanted[in_order]:
        in_order += 1
    kept = set(staying[:in_order])
    if gone := [key for key in there if key not in kept]:
        yield DeleteDynamicPartitionsRequest(name, gone)
    if new := list(wanted[in_order:]):
        yield AddDynamicPartitionsRequest(name, new)

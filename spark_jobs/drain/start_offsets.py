"""Where a table that does not exist yet begins to read: the configured start as offsets. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from spark_jobs.config.start import Start, StartKind
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.source import SourceState


def resolve_start(
    start: Start, source: SourceState, offsets_for_times: Callable[[int], Mapping[int, int]]
) -> dict[int, int]:
    """The first offset by partition, for every partition there is now.

    ``offsets_for_times`` is asked only for a time: milliseconds since the epoch to the first offset at or
    after it by partition; a partition it leaves out has none and begins at its end. A partition that
    configured offsets leave out begins at its earliest offset. Raises ``ConfigError`` for an offset or a
    partition that Kafka does not have.
    """
    if start.kind is StartKind.EARLIEST:
        return dict(source.low)
    if start.kind is StartKind.LATEST:
        return dict(source.end)
    if start.kind is StartKind.OFFSETS:
        _check_offsets(start.offsets, source)
        return {**source.low, **start.offsets}
    if start.timestamp_ms is None:
        raise ValueError("a start of kind TIMESTAMP without its timestamp_ms")
    found = offsets_for_times(start.timestamp_ms)
    # A record beyond the last stable offset may carry the time: begin no later than what can be read now.
    return {p: max(source.low[p], min(found.get(p, end), end)) for p, end in source.end.items()}


def _check_offsets(offsets: Mapping[int, int], source: SourceState) -> None:
    for partition, offset in sorted(offsets.items()):
        if partition not in source.end:
            raise ConfigError(
                f"start names partition {partition}, the topic has {sorted(source.end)}",
                code="start-outside-topic",
                hint="Leave it out: partitions that are not named begin at their earliest offset.",
                topic=source.topic,
            )
        low, end = source.low[partition], source.end[partition]
        if not low <= offset <= end:
            raise ConfigError(
                f"start names offset {offset} of partition {partition}, Kafka holds {low} to {end}",
                code="start-outside-topic",
                hint=f"Choose an offset from {low} to {end}, or start: earliest.",
                topic=source.topic,
                partition=partition,
            )

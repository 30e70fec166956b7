"""Skipping offsets: the way past a record that cannot be drained, or past what Kafka has lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.acts.act import act
from spark_jobs.acts.changes import passed_over
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.tables import load_drained
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.batch import BatchKind
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.source import SourceState, check_identity

if TYPE_CHECKING:
    from spark_jobs.commit.landing import Committed
    from spark_jobs.connections.connect import Connections


def skip(
    pipeline: PipelineConfig, connections: Connections, ranges: OffsetRanges, *, reason: str
) -> Committed:
    """Move the table past ``ranges`` without their records, in one commit that remembers them as skipped.

    Each range begins at its partition's next offset and ends within the topic. Raises ``ConfigError``
    (``not-next-offset``, ``beyond-the-end``) otherwise, also when a drain was faster, ``SourceChanged``, and
    what ``act`` raises.
    """
    table = load_drained(pipeline, connections)
    source = connections.admin.source_state(pipeline.topic)
    check_identity(progress_of(table), source, table=pipeline.table)
    for part in ranges:
        _check_end(pipeline, source, part)

    def change(progress: Progress) -> Progress:
        positions = source.positions(progress.next_offsets)
        for part in ranges:
            _check_start(pipeline, part, positions[part.partition])
        return passed_over(progress, ranges, reason)

    change(progress_of(table))  # before anything is logged
    return act(pipeline.name, table, connections, BatchKind.SKIP, reason=reason, change=change, ranges=ranges)


def _check_end(pipeline: PipelineConfig, source: SourceState, part: OffsetRange) -> None:
    end = source.end.get(part.partition)
    if end is not None and part.start < part.end <= end:
        return
    raise ConfigError(
        f"{part} is not a range of the topic: "
        + (f"it has no partition {part.partition}" if end is None else f"partition ends at offset {end}"),
        code="beyond-the-end",
        hint="Write P:START-END with START below END; END is the first offset that is drained again.",
        pipeline=pipeline.name,
        topic=source.topic,
    )


def _check_start(pipeline: PipelineConfig, part: OffsetRange, next_offset: int) -> None:
    if part.start == next_offset:
        return
    is_drained = part.start < next_offset
    raise ConfigError(
        f"partition {part.partition} stands at offset {next_offset}, not at {part.start}",
        code="not-next-offset",
        hint=(
            "What is below that offset has been drained or skipped already; rows are taken out with"
            " ./sluice rollback."
            if is_drained
            else "Drain up to the offset first, or begin the range at the next offset."
        ),
        **pipeline.where,
    )

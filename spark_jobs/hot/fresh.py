"""Reads the hot tail once: all records from the table's offsets to the end of the topic.

Nothing is kept or written: no consumer group, no offset. The next call reads everything again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.hot.prefix import HeldRecords, Prefix, look
from spark_jobs.hot.segment import Segment
from spark_jobs.hot.segment_maker import SegmentMaker
from spark_jobs.hot.tail_status import PATIENCE_SECONDS, not_yet, other_epoch, required_ends
from spark_jobs.hot.watermark import Watermark
from spark_jobs.kafka.reader import bundles, open_reader
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.source import check_identity

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections

_POLL_SECONDS = 0.1


def read_fresh(
    pipeline: PipelineConfig,
    connections: Connections,
    *,
    after: Mapping[int, int] | None = None,
    at: Watermark | None = None,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Prefix:
    """Return the table with all newer records in Kafka, as of one moment not before this call.

    It waits for the offsets ``after``, by partition. ``at`` is an earlier answer's watermark: the result then
    has exactly its records. Raises ``ConfigError`` (``hot-not-configured``, ``no-table-yet``,
    ``hot-needs-topic-ids``), ``SourceChanged`` (``other-epoch``, and as a drain does), ``RetryableError``
    (``not-yet``, ``too-far-behind``), and the errors of reading.
    """
    if pipeline.hot is None:
        raise fault(
            "hot-not-configured" if pipeline.can_be_hot else "hot-not-configured.of-this",
            pipeline=pipeline.name,
        )
    wanted = required_ends(after, at)
    deadline = time.monotonic() + patience_seconds
    while True:
        asked_at = time.monotonic()
        seam, epoch, source = look(pipeline, connections)
        reached = Watermark(epoch.generation, epoch.rollbacks, source.end)
        if at is not None and not at.is_of(epoch):
            raise other_epoch(pipeline, at, reached)
        if reached.reaches(wanted):
            break
        if time.monotonic() > deadline:
            raise not_yet(pipeline, wanted, reached)
        time.sleep(_POLL_SECONDS)
    held = HeldRecords.at(seam, epoch, source.positions(seam.progress.next_offsets))
    ends = {p: min(end, at.ends.get(p, 0)) if at else end for p, end in source.end.items()}
    maker = SegmentMaker(pipeline, connections.schemas(pipeline), seam, epoch)
    ranges = [OffsetRange(p, start, ends[p]) for p, start in sorted(held.ends.items()) if start < ends[p]]
    for segment in _segments(connections.kafka, pipeline.topic, maker, ranges):
        held = held.with_more([segment], {})
        if held.size_bytes > pipeline.hot.memory_bytes:
            raise fault(
                "too-far-behind",
                waiting=sum(map(len, ranges)),
                memory=pipeline.hot.memory_bytes,
                **pipeline.where,
            )
    # A re-created topic returns its new records at the old offsets, without an error.
    check_identity(seam.progress, connections.admin.source_state(pipeline.topic), table=pipeline.table)
    age_ms = int((time.monotonic() - asked_at) * 1000)
    return held.with_more((), ends).prefix(age_ms=age_ms, at=at)


def _segments(
    kafka: Mapping[str, str], topic: str, maker: SegmentMaker, ranges: Sequence[OffsetRange]
) -> Iterator[Segment]:
    """Yield the segments of the ranges; no readable record follows a range's last segment."""
    positions = {each.partition: each.start for each in ranges}
    with open_reader(kafka, topic) as reader:
        for together in bundles(ranges):
            for chunk in reader.read_together(together):
                for segment in maker.segments(chunk, positions):
                    positions[segment.partition] = segment.end
                    yield segment

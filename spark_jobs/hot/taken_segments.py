"""What came, as segments: each decoding noted, a partition left out from where schemas are missing."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from spark_jobs.hot.asked_schemas import SchemasAsked
from spark_jobs.protocol.offsets import OffsetRange

if TYPE_CHECKING:
    from spark_jobs.hot.decoding_notes import DecodingNotes
    from spark_jobs.hot.made import SegmentMaker
    from spark_jobs.hot.segment import Segment
    from spark_jobs.hot.watermark import Epoch
    from spark_jobs.kafka.chunks import Chunk


def segments_of(
    chunks: Iterable[Chunk],
    maker: SegmentMaker,
    notes: DecodingNotes,
    epoch: Epoch,
    starts: Mapping[int, int],
) -> tuple[list[Segment], set[int]]:
    """Return the chunks' segments, from ``starts`` on, and the partitions that end before some of them.

    Of those nothing is made from the chunk on whose schemas are still asked for.
    """
    segments: list[Segment] = []
    waiting: set[int] = set()
    positions, left = dict(starts), deque(chunks)
    while left:
        chunk = left.popleft()
        # Over which partition's records someone died, one by one tells.
        if chunk.runs and (waiting or notes.someone_died):
            left.extendleft(reversed([*chunk.parts()]))
        elif chunk.partition not in waiting:
            try:
                with notes.decoding(epoch, _ranges(chunk)):
                    made = list(maker.segments(chunk, positions))
            except SchemasAsked:
                left.extendleft(reversed([*chunk.parts()]) if chunk.runs else ())
                waiting |= set() if chunk.runs else {chunk.partition}
                continue
            positions |= {segment.partition: segment.end for segment in made}
            segments += made
    return segments, waiting


def _ranges(chunk: Chunk) -> Iterator[OffsetRange]:
    """Where each partition's records of a chunk begin and end."""
    first = 0
    for partition, records in chunk.counts.items():
        last = first + records - 1
        yield OffsetRange(partition, chunk.offsets[first], chunk.offsets[last] + 1)
        first += records

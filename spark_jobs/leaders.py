"""Whether Kafka still has what lies below a table's next offsets. Ends alone cannot tell.

A log that lost its end and grew past the table again looks as if only new records had come. Each leader of a
partition has an epoch, and says where the log of an earlier one ends in its own history (KIP-101, KIP-320).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.core.errors import OffsetsUnavailable
from spark_jobs.core.offsets import OffsetRange
from spark_jobs.io.kafka_reader import RangeReader

if TYPE_CHECKING:
    from spark_jobs.core.progress import Progress
    from spark_jobs.core.source import SourceState
    from spark_jobs.io.connections import Connections

CHUNK_BYTES = 1 << 20


def cut_below(
    connections: Connections, progress: Progress, source: SourceState, partition: int
) -> OffsetsUnavailable | None:
    """The error of a log that was cut below the partition's next offset, or None.

    Asks nobody while the leader is the one that the last batch was planned under, and where there is nothing
    to read yet. Raises what reading a record raises.
    """
    start = progress.next_offsets[partition]
    offset, epoch = progress.leader_epochs.get(partition, (None, None))
    is_led_as_before = source.leader_epochs.get(partition, epoch) == epoch
    if offset != start or is_led_as_before or start >= source.end[partition]:
        return None
    # A client of its own: librdkafka asks only for what is assigned before it knows the leader.
    reader = RangeReader(
        connections.kafka, source.topic, max_chunk_bytes=CHUNK_BYTES, queue_bytes=4 * CHUNK_BYTES
    )
    try:
        list(reader.read(OffsetRange(partition, start, start + 1), leader_epoch=epoch))
    except OffsetsUnavailable as error:
        return error
    finally:
        reader.close()
    return None

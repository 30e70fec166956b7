"""Whether a log lost its end below what a table has of it.

One that grew past the table again looks as if only new records had come; ends alone cannot tell. Each leader
of a partition has an epoch, and says where the log of an earlier one ends in its own history (KIP-101,
KIP-320).
"""

from __future__ import annotations

from collections.abc import Mapping

from spark_jobs.kafka.reader import open_reader
from spark_jobs.protocol.errors import OffsetsUnavailable, RetryableError
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.source import SourceState, has_new_leader


def cut_below(
    kafka: Mapping[str, str], progress: Progress, source: SourceState, partition: int
) -> OffsetsUnavailable | None:
    """Return the error of a log that was cut below what the table has of the partition, or None.

    ``kafka`` are resolved client properties. Asks nobody while the leader is the one that the last batch was
    planned under, and where there is nothing to read yet. Raises what reading a record raises, but for what
    says nothing about the log's end.
    """
    if not has_new_leader(progress, source, partition):
        return None
    last_end, epoch = progress.leader_epochs[partition]
    # A skip moves the next offset on, over records of later epochs; a rollback moves it back.
    start = min(last_end, progress.next_offsets[partition])
    # A client of its own: librdkafka asks only for what is assigned before it knows the leader.
    try:
        with open_reader(kafka, source.topic, chunk_bytes=1 << 20) as reader:
            list(reader.read(OffsetRange(partition, start, start + 1), leader_epoch=epoch))
    except OffsetsUnavailable as error:
        # Where retention has passed the place, the plan judges the next offset.
        return None if error.code == "retention-passed" else error
    except RetryableError as error:
        # Its place is good: a record that an operator had skipped cannot be read now either.
        if error.code != "records-damaged":
            raise
    return None

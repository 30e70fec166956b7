"""What the read of a range ends with when Kafka no longer has it, or does not give it."""

from __future__ import annotations

from spark_jobs.kafka.cursor import Cursor
from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import OffsetsUnavailable, RetryableError


def retention_passed(topic: str, cursor: Cursor, offset: int, low: int) -> OffsetsUnavailable:
    """Kafka begins at ``low`` by now, past ``offset`` that was to be read."""
    return OffsetsUnavailable(
        f"Kafka's retention removed offsets {offset} to {low - 1} before they were read",
        code="retention-passed",
        hint="Those records are lost to Sluice. Raise the topic's retention, then continue from the"
        " earliest offset that is left, knowing the gap.",
        topic=topic,
        range=cursor.wanted,
    )


def log_truncated(topic: str, cursor: Cursor, log_end: int) -> OffsetsUnavailable:
    """Return the error for a log that ends below the range."""
    return OffsetsUnavailable(
        f"the log ends at offset {log_end}, below the end of a range that Kafka held when it was planned",
        code="log-truncated",
        hint="Kafka lost records (unclean leader election, a restored broker) or the topic was created"
        " again. Find out which before you let the table continue.",
        topic=topic,
        range=cursor.wanted,
    )


def log_cut(topic: str, cursor: Cursor) -> OffsetsUnavailable:
    """Return the error for a log that goes on past the range's start, but is another one below."""
    return OffsetsUnavailable(
        f"the log was cut below offset {cursor.wanted.start}, which the table has reached, and grew on",
        code="log-truncated",
        hint="Kafka lost records that the table has (unclean leader election, a restored broker); others"
        " stand at their offsets now."
        f" {mends.command('source', 'PIPELINE')} compares the last rows with the topic;"
        " with --accept the table takes what is there in as its next generation and keeps its rows.",
        topic=topic,
        range=cursor.wanted,
    )


def out_of_order(topic: str, cursor: Cursor, offsets: list[int]) -> OffsetsUnavailable:
    """Offsets came that were read before, or not in ascending order."""
    return OffsetsUnavailable(
        f"Kafka delivered offsets {offsets[0]} to {offsets[-1]} out of order after {cursor.position - 1}",
        code="offsets-out-of-order",
        hint="The partition was truncated or created again while it was read: run it again to see which.",
        topic=topic,
        range=cursor.wanted,
    )


def lost_behind(topic: str, partition: int, position: int, low: int, high: int) -> OffsetsUnavailable:
    """Return the error for a log that does not go on from where it was followed to."""
    if position < low:
        return OffsetsUnavailable(
            f"Kafka's retention removed offsets {position} to {low - 1} before they were followed",
            code="retention-passed",
            hint="Raise the topic's retention. What is shown ends there until a drain has passed the gap.",
            topic=topic,
            partition=partition,
        )
    return OffsetsUnavailable(
        f"the log was cut below offset {position}, up to which it was followed, and ends at {high}",
        code="log-truncated",
        hint="Kafka lost records (unclean leader election, a restored broker). Whether the table has some of"
        f" them says {mends.command('source', 'PIPELINE')}.",
        topic=topic,
        partition=partition,
    )


def stalled(topic: str, cursor: Cursor) -> RetryableError:
    """Nothing speaks against the records, and they do not come."""
    return RetryableError(
        f"Kafka holds offset {cursor.position} but did not deliver it",
        code="read-stalled",
        hint="Look at the broker's load and log; a later run reads the range again.",
        topic=topic,
        range=cursor.wanted,
    )

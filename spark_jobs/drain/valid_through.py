"""Valid-through: up to which record time a table is complete. Pure."""

from __future__ import annotations

from collections.abc import Mapping


def valid_through_ms(
    *,
    next_offsets: Mapping[int, int],
    end_offsets: Mapping[int, int],
    max_timestamp_ms: Mapping[int, int],
    previous_ms: int | None,
    planned_at_ms: int,
) -> int | None:
    """Milliseconds since the epoch up to which every record is in the table; None while that is unknown.

    The minimum over the partitions of ``end_offsets`` (last stable offsets when the batch was planned): a
    partition read to its end counts as plan time, so an idle topic stays fresh; one with a backlog counts as
    its largest record time in this batch, or, when the batch has none of it, as the table's previous value.
    """
    times: list[int] = []
    for partition, end in end_offsets.items():
        if next_offsets.get(partition, 0) >= end:
            times.append(planned_at_ms)
        elif partition in max_timestamp_ms:
            times.append(min(max_timestamp_ms[partition], planned_at_ms))
        elif previous_ms is None:
            return None
        else:
            times.append(previous_ms)
    return max(min(times), previous_ms or 0) if times else previous_ms

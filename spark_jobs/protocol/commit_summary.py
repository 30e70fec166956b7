"""What the summary of every commit says of its batch. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.protocol.batch import Batch


def batch_summary(batch: Batch) -> dict[str, str]:
    """What every commit's summary says of its batch."""
    offsets = offsets_summary(batch.attempt, batch.ranges.starts, batch.ranges.ends)
    return {"sluice.kind": batch.kind, "sluice.batch-id": batch.batch_id, **offsets}


def offsets_summary(attempt: str, starts: Mapping[int, int], ends: Mapping[int, int]) -> dict[str, str]:
    """Whose commit it is, and the offsets [start, end) it brings, by partition."""
    return {
        "sluice.attempt": attempt,
        "sluice.start-offsets": json.dumps(starts, sort_keys=True),
        "sluice.end-offsets": json.dumps(ends, sort_keys=True),
    }

"""What landed in a table: batches and throughput, from its transaction log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.core.txlog_checkpoint import merged, summarise

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.io.connections import Connections


@dataclass(frozen=True, slots=True)
class Landed:
    """All landed batches of one table; ``busy_ms`` is the time they took, from log to commit."""

    batches: int
    offsets: int
    file_bytes: int
    busy_ms: int
    location: str

    @property
    def records_per_second(self) -> int | None:
        """Throughput while a batch was under way; None when nothing landed."""
        return round(self.offsets * 1000 / self.busy_ms) if self.busy_ms else None


def read_landed(table: Table, connections: Connections) -> Landed:
    """Add up the log's landed attempts, folded ones included."""
    table_uuid, log = str(table.metadata.table_uuid), connections.txlog
    lines = {line.attempt: line for line in merged(log.checkpoints(table_uuid))}
    for attempt in log.attempts(table_uuid):
        line = summarise(attempt)
        if line is not None:
            lines[line.attempt] = line
    landed = [line for line in lines.values() if line.is_landed]
    return Landed(
        batches=len(landed),
        offsets=sum(line.ranges.records for line in landed),
        file_bytes=sum(line.file_bytes for line in landed),
        busy_ms=sum(sum(line.durations_ms.values()) for line in landed),
        location=table.location(),
    )

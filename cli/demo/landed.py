"""What landed in a table: batches and throughput, from the books and its transaction log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.books.history import lines_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections


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
    """Add up the table's landed attempts."""
    landed = [line.entry for line in lines_of(table, connections) if line.entry.is_landed]
    return Landed(
        batches=len(landed),
        offsets=sum(entry.ranges.records for entry in landed),
        file_bytes=sum(entry.counts.file_bytes for entry in landed),
        busy_ms=sum(sum(entry.durations_ms.values()) for entry in landed),
        location=table.location(),
    )

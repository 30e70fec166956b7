"""Records that a run's tasks read from Kafka, counted at a fail point before decoding."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spark_jobs.protocol.work import FailPoints
from spark_jobs.replay.ranges import parse_range

_CHUNK = "split.decode-"


@dataclass(frozen=True, slots=True)
class CountedReads:
    """Passes fail points on to ``inner``; chunks are noted in ``file`` by any process."""

    inner: FailPoints
    file: Path

    def reach(self, name: str) -> None:
        """Note a chunk before anything can happen to its reader."""
        if name.startswith(_CHUNK):
            with self.file.open("a") as file:
                file.write(f"{name.removeprefix(_CHUNK)}\n")
        self.inner.reach(name)

    def records(self) -> int:
        """Return the number of distinct offsets read; a split with new fields reads them twice."""
        chunks = map(parse_range, self.file.read_text().split()) if self.file.exists() else ()
        return len(
            {(chunk.partition, offset) for chunk in chunks for offset in range(chunk.start, chunk.end)}
        )

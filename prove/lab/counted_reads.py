"""What a run's tasks read from Kafka: each chunk names itself at a fail point before it is decoded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spark_jobs.protocol.work import FailPoints
from spark_jobs.replay.ranges import parse_range

_CHUNK = "split.decode-"


@dataclass(frozen=True, slots=True)
class CountedReads:
    """Passes every place on to ``inner``; ``file`` gets the chunks, whichever process has the task."""

    inner: FailPoints
    file: Path

    def reach(self, name: str) -> None:
        """Remember a chunk before anything can happen to who read it."""
        if name.startswith(_CHUNK):
            with self.file.open("a") as file:
                file.write(f"{name.removeprefix(_CHUNK)}\n")
        self.inner.reach(name)

    def records(self) -> int:
        """Return how many different offsets were read; a split that meets new fields reads its own twice."""
        chunks = map(parse_range, self.file.read_text().split()) if self.file.exists() else ()
        return len(
            {(chunk.partition, offset) for chunk in chunks for offset in range(chunk.start, chunk.end)}
        )

"""Dead letters as a redrive's input instead of Kafka, read from the dead-letter table's files.

The table keeps what a record was: key, value and headers as they came, its coordinates, its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.kafka.chunks import Chunk
from spark_jobs.lake.coordinates import Coordinates
from spark_jobs.lake.dead_letter_files import dead_letters_at
from spark_jobs.protocol.batch import Split
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.schema.iceberg_types import (
    FAILURES,
    FIRST_FAILED_AT,
    INGESTED_AT,
    OFFSET,
    PARTITION,
    TIMESTAMP,
)
from spark_jobs.storage.errors import storage_error

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask

    from spark_jobs.drain.split_task import Tally


CHUNK_DEAD_LETTERS = 5_000


@dataclass(slots=True)
class DeadLetterChunk(Chunk):
    """Records from dead letters; ``letters`` are their rows, in the same order."""

    letters: pa.Table = field(default_factory=lambda: pa.table({}), kw_only=True)


@dataclass(frozen=True, slots=True)
class DeadLetterSource:
    """Input of a redrive's tasks: dead letters at ``places``, in ``files`` of the planned table.

    ``io`` holds secrets: it travels pickled and is never printed.
    """

    io: FileIO = field(repr=False)
    schema: Schema
    files: tuple[FileScanTask, ...]
    places: Coordinates
    generation: int
    task_memory_bytes: int
    is_kafka: ClassVar[bool] = False

    def read(self, split: Split, tally: Tally) -> Iterator[DeadLetterChunk]:
        """Yield the split's dead letters by partition and offset; a split fits a task's memory."""
        places = self.places.within(OffsetRanges(split.ranges))
        with tally.step("fetch"):
            try:
                letters = dead_letters_at(self.io, self.files, self.schema, places, self.generation)
            except OSError as error:
                raise storage_error(error, "reading dead letters") from error
        for first in range(0, len(letters), CHUNK_DEAD_LETTERS):
            with tally.step("fetch"):
                chunk = chunk_of_dead_letters(letters.slice(first, CHUNK_DEAD_LETTERS))
            for part in chunk.parts():
                tally.note(part)
            yield chunk

    def with_past(self, letters: pa.Table, chunk: Chunk) -> pa.Table:
        """Return the dead letters with one more failure in their history."""
        if not (isinstance(chunk, DeadLetterChunk) and len(letters)):
            return letters
        index = {place: row for row, place in enumerate(_places(chunk.letters))}
        before = chunk.letters.take([index[place] for place in _places(letters)])
        first = pc.coalesce(before.column(FIRST_FAILED_AT), before.column(INGESTED_AT))
        failures = pc.add(pc.fill_null(before.column(FAILURES), 1), 1)
        for name, values in ((FIRST_FAILED_AT, first), (FAILURES, failures)):
            at = letters.schema.get_field_index(name)
            kind = letters.schema.field(at)
            letters = letters.set_column(at, kind, values.cast(kind.type))
        return letters


def chunk_of_dead_letters(letters: pa.Table) -> DeadLetterChunk:
    """Return dead letters, ordered by partition and offset, as records."""
    partitions, counts = np.unique(letters.column(PARTITION).to_numpy(), return_counts=True)
    runs = tuple(zip(partitions.tolist(), counts.tolist(), strict=True))
    times = letters.column(TIMESTAMP).cast(pa.int64())
    return DeadLetterChunk(
        runs[0][0],
        letters.column(OFFSET).to_pylist(),
        pc.fill_null(pc.divide(times, 1000), -1).to_pylist(),
        letters.column("key").to_pylist(),
        letters.column("value").to_pylist(),
        _headers(letters.column("headers")),
        runs=runs,
        letters=letters,
    )


def _places(letters: pa.Table) -> Iterator[tuple[int, int]]:
    return zip(letters.column(PARTITION).to_pylist(), letters.column(OFFSET).to_pylist(), strict=True)


def _headers(headers: pa.ChunkedArray) -> list[list[tuple[str, bytes | None]] | None]:
    if headers.null_count == len(headers):
        return [None] * len(headers)
    return [
        None if each is None else [(header["key"], header["value"]) for header in each]
        for each in headers.to_pylist()
    ]

"""Dead letters that a rollback puts back, as files to read until they are in their table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import FileScanTask
from pyiceberg.typedef import Record

from spark_jobs.commit.moved_letters import rows_at
from spark_jobs.commit.replace import ReplacedOffsets
from spark_jobs.lake.coordinates import Coordinates
from spark_jobs.lake.kept_letters import read_letters
from spark_jobs.lake.tables import progress_of

if TYPE_CHECKING:
    from spark_jobs.hot.seam import Seam


def returned_files(seam: Seam, folder: str) -> Iterator[FileScanTask]:
    """Write the letters that will come back into the folder. Raises ``CorruptLog`` (``letters-lost``)."""
    owed, dead_letters = seam.pending, seam.dead_letters
    if owed is None or dead_letters is None:
        return
    generation = progress_of(dead_letters).generation
    for number, kept in enumerate(owed.returned):
        letters = read_letters(seam.state, kept)
        there = rows_at(dead_letters, ReplacedOffsets(generation, Coordinates.of_rows(letters)))
        letters = letters.filter(pa.array(~Coordinates.of_rows(there).holds(letters)))
        path = Path(folder) / f"returned-{number}.parquet"
        pq.write_table(letters, path)
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=str(path),
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=len(letters),
            file_size_in_bytes=path.stat().st_size,
        )
        yield FileScanTask(file)

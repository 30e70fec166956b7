"""Where the row of a record is: data file and position in it, deletes of other engines applied."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import FileFormat

from spark_jobs.lake.row_filters import is_in_range
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.schema.metadata_columns import IDENTITY

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import FileScanTask, Table


@dataclass(frozen=True, slots=True)
class Spot:
    """The coordinates of a record."""

    generation: int
    partition: int
    offset: int

    @property
    def filter(self) -> BooleanExpression:
        """Rows with these coordinates; there is one at most."""
        return is_in_range(OffsetRange(self.partition, self.offset, self.offset + 1), self.generation)


@dataclass(frozen=True, slots=True)
class RowPlace:
    """Where a row is; ``position`` counts from 0 and is None in a file that is not Parquet."""

    file: str
    position: int | None
    row: dict[str, Any]


def find_row(table: Table, spot: Spot, columns: tuple[str, ...] = ()) -> RowPlace | None:
    """Return the row in the table as loaded, with these columns; None when there is none.

    Opens only files whose bounds allow it.
    """
    scan = table.scan(spot.filter, selected_fields=(*IDENTITY, *columns))
    reader = ArrowScan(table.metadata, table.io, scan.projection(), scan.row_filter)
    for task in scan.plan_files():
        for row in reader.to_table([task]).to_pylist():
            return RowPlace(task.file.file_path, _position(table, task, spot), row)
    return None


def spots_of(table: Table, which: BooleanExpression) -> set[Spot]:
    """Return the coordinates of these rows."""
    rows = table.scan(which, selected_fields=IDENTITY).to_arrow()
    return {Spot(*(row[name] for name in IDENTITY)) for row in rows.to_pylist()}


def _position(table: Table, task: FileScanTask, spot: Spot) -> int | None:
    """Position of the row with these coordinates; reads the coordinate columns only."""
    if task.file.file_format is not FileFormat.PARQUET:
        return None
    with table.io.new_input(task.file.file_path).open() as stream:
        file = pq.ParquetFile(stream)
        first = 0
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group, columns=list(IDENTITY))
            same = np.ones(len(rows), dtype=bool)
            for name, wanted in zip(IDENTITY, astuple(spot), strict=True):
                same &= rows.column(name).to_numpy() == wanted
            if same.any():
                return first + int(np.argmax(same))
            first += len(rows)
    return None

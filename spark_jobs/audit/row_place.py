"""Location of a record's row: data file and position, with deletes of other engines applied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import FileFormat

from spark_jobs.checks.facts import Removal
from spark_jobs.health.table_facts import main_history, removals
from spark_jobs.lake.row_filters import is_in_range, offsets_in
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.schema.iceberg_types import IDENTITY

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import FileScanTask, Table


@dataclass(frozen=True, slots=True)
class Spot:
    """Coordinates of a record."""

    generation: int
    partition: int
    offset: int

    @property
    def filter(self) -> BooleanExpression:
        """Filter for the row with these coordinates; there is at most one."""
        return is_in_range(OffsetRange(self.partition, self.offset, self.offset + 1), self.generation)


@dataclass(frozen=True, slots=True)
class RowPlace:
    """Location of a row; ``position`` counts from 0 and is None in a file that is not Parquet."""

    file: str
    position: int | None
    row: dict[str, Any]


def find_row(table: Table, spot: Spot, columns: tuple[str, ...] = ()) -> RowPlace | None:
    """Return the row in the table as loaded, with these columns; None if there is none.

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
    """Return the position of the row with these coordinates; reads only the coordinate columns."""
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


# Which missing offsets another writer took out of a table, as its kept snapshots show: DELETE, TTL.
#
# A snapshot that is not ours and deletes is compared with the one before it, row by row of the window in
# question: that is exact whatever the deletion looks like in files. Where the one before has expired nobody
# can tell any more, and what is missing stays missing.


def removed_by_others(
    tables: Iterable[Table], window: OffsetRange, generation: int, missing: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the ``missing`` offsets that were in one of the tables until a foreign snapshot."""
    gone: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
    for table in tables:
        for removal, before in _removals(table):
            was = offsets_in(table, window, generation, snapshot_id=before)
            left = offsets_in(table, window, generation, snapshot_id=removal.snapshot_id)
            gone.append(np.setdiff1d(was, left))
    return np.intersect1d(missing, np.concatenate(gone))


def removed_by(table: Table, spot: Spot) -> Removal | None:
    """Return the newest commit of another program that removed the row.

    None when it has expired, or the catalog shows no history.
    """

    def is_in(snapshot_id: int) -> bool:
        return table.scan(spot.filter, snapshot_id=snapshot_id).count() > 0

    for removal, before in reversed(list(_removals(table))):
        if is_in(before) and not is_in(removal.snapshot_id):
            return removal
    return None


def _removals(table: Table) -> Iterator[tuple[Removal, int]]:
    """Yield commits of other programs that removed rows, and the kept snapshots before them."""
    history = main_history(table)
    before = {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in history}
    for removal in removals(history):
        parent = before[removal.snapshot_id]
        if parent is not None and parent in before:
            yield removal, parent

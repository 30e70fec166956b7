"""Records as an archive has them, read back in the order of their partition with bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.lake.row_filters import is_in_range
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.schema.archive_columns import HEADERS, KAFKA, KEY, RAW, VALUE
from spark_jobs.schema.metadata_columns import OFFSET

if TYPE_CHECKING:
    from pyiceberg.table import Table

_SELECTED = (f"{KEY}.{RAW}", f"{VALUE}.{RAW}", HEADERS, f"{KAFKA}.event_timestamp_ms", OFFSET)
NO_TIMESTAMP = -1
FIRST_WINDOW_OFFSETS = 5_000
MAX_WINDOW_OFFSETS = 500_000
WINDOW_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class ArchivedRecord:
    """A record as it is to be in a topic; ``timestamp_ms`` is -1 where it has none."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_ms: int

    @property
    def content(self) -> tuple[Any, ...]:
        """Return what another record must be equal in."""
        return self.key, self.value, self.headers, self.timestamp_ms


def archived_records(
    table: Table, offsets: OffsetRange, generation: int
) -> Iterator[tuple[OffsetRange, list[ArchivedRecord]]]:
    """Yield windows of these offsets with their records, in order: windows that fit into some 64 MiB."""
    start, width = offsets.start, FIRST_WINDOW_OFFSETS
    while start < offsets.end:
        window = OffsetRange(offsets.partition, start, min(start + width, offsets.end))
        rows = _rows(table, window, generation)
        yield window, list(_records(rows))
        start = window.end
        width = max(1, min(MAX_WINDOW_OFFSETS, width * WINDOW_BYTES // max(1, 2 * rows.nbytes), width * 4))


def offset_of_record(table: Table, offsets: OffsetRange, generation: int, number: int) -> int:
    """Return the offset of the record that so many come before; the end where there are no more."""
    left, start = number, offsets.start
    while start < offsets.end:
        window = OffsetRange(offsets.partition, start, min(start + MAX_WINDOW_OFFSETS, offsets.end))
        found = table.scan(is_in_range(window, generation), selected_fields=(OFFSET,)).to_arrow()
        if left < found.num_rows:
            return int(found.sort_by(OFFSET).column(OFFSET)[left].as_py())
        left -= found.num_rows
        start = window.end
    return offsets.end


def count_records(table: Table, offsets: OffsetRange, generation: int) -> int:
    """Return how many records these are."""
    return int(table.scan(is_in_range(offsets, generation)).count())


def _rows(table: Table, window: OffsetRange, generation: int) -> pa.Table:
    found = table.scan(is_in_range(window, generation), selected_fields=_SELECTED).to_arrow()
    return found.sort_by(OFFSET)


def _records(rows: pa.Table) -> Iterator[ArchivedRecord]:
    columns = (
        rows.column(OFFSET),
        pc.struct_field(rows.column(KEY), RAW),
        pc.struct_field(rows.column(VALUE), RAW),
        rows.column(HEADERS),
        pc.struct_field(rows.column(KAFKA), "event_timestamp_ms"),
    )
    for offset, key, value, headers, at_ms in zip(*(each.to_pylist() for each in columns), strict=True):
        beside = [(each["key"], each["value"]) for each in headers or ()]
        yield ArchivedRecord(offset, key, value, beside, NO_TIMESTAMP if at_ms is None else at_ms)

"""The routed rows of one split into files of their tables, whose columns are those that their rows need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.lake.parquet_writer import SplitWriter
from spark_jobs.protocol.batch import WrittenFile
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.routed_columns import fitted, lacking

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata


MOST_WAITING_BYTES = 8 << 20


class ColumnsLacking(Exception):
    """Rows have values that the table they are routed to has no column for."""


@dataclass(frozen=True, slots=True)
class RoutedTable:
    """A table that rows are routed to: its schema, and which columns of the pipeline's it cannot take."""

    columns: pa.Schema
    lacking: frozenset[str]

    @classmethod
    def of(cls, metadata: TableMetadata, own: Schema) -> RoutedTable:
        """Look at the table beside the pipeline's own columns."""
        return cls(arrow_schema(metadata.schema()), frozenset(lacking(own, metadata.schema())))

    def lacks(self, rows: pa.Table) -> frozenset[str]:
        """Return the columns in which these rows have values that it cannot take."""
        return frozenset(name for name in self.lacking if rows.column(name).null_count < len(rows))


@dataclass
class RoutedWriters:
    """The writers of a split's routed rows; one is opened with the first row of its table.

    A chunk has few rows for each of many tables: they are gathered until handing them over is worth a call.
    """

    tables: Mapping[str, RoutedTable]
    open_writer: Callable[[str], SplitWriter]
    _opened: dict[str, SplitWriter] = field(default_factory=dict)
    _waiting: dict[str, list[pa.Table]] = field(default_factory=dict)
    _waiting_bytes: int = 0

    def write(self, routed: Mapping[str, pa.Table]) -> None:
        """Take rows by their table, in the pipeline's columns. Raises ``ColumnsLacking``."""
        for name, rows in routed.items():
            if self.tables[name].lacks(rows):
                raise ColumnsLacking
            self._waiting.setdefault(name, []).append(rows)
        if routed:
            # They are cut out of one table, which they keep; one of them says well enough how large it is.
            largest = max(routed.values(), key=len)
            self._waiting_bytes += largest.nbytes * sum(map(len, routed.values())) // len(largest)
        if self._waiting_bytes >= MOST_WAITING_BYTES:
            self._hand_over()

    def _hand_over(self) -> None:
        for name, parts in self._waiting.items():
            if name not in self._opened:
                self._opened[name] = self.open_writer(name)
            rows = pa.concat_tables(parts)
            copied = rows.take(pa.array(np.arange(len(rows))))
            self._opened[name].write(fitted(copied, self.tables[name].columns))
        self._waiting.clear()
        self._waiting_bytes = 0

    def close(self) -> dict[str, tuple[WrittenFile, ...]]:
        """Finish every file."""
        self._hand_over()
        return {name: tuple(writer.close()) for name, writer in self._opened.items()}

    def abort(self) -> None:
        """Let go of open files after a failure."""
        for writer in self._opened.values():
            writer.abort()

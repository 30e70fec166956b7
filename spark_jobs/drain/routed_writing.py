"""The routed rows of one split into files of their tables, whose columns are those that their rows need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_jobs.lake.parquet_writer import SplitWriter
from spark_jobs.protocol.batch import WrittenFile
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.routed_columns import fitted, lacking

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata


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


@dataclass(frozen=True)
class RoutedWriters:
    """The writers of a split's routed rows; one is opened with the first row of its table."""

    tables: Mapping[str, RoutedTable]
    open_writer: Callable[[str], SplitWriter]
    _opened: dict[str, SplitWriter] = field(default_factory=dict)

    def write(self, routed: Mapping[str, pa.Table]) -> None:
        """Take rows by their table, in the pipeline's columns. Raises ``ColumnsLacking``."""
        for name, rows in routed.items():
            table = self.tables[name]
            if table.lacks(rows):
                raise ColumnsLacking
            if name not in self._opened:
                self._opened[name] = self.open_writer(name)
            self._opened[name].write(fitted(rows, table.columns))

    def close(self) -> dict[str, tuple[WrittenFile, ...]]:
        """Finish every file."""
        return {name: tuple(writer.close()) for name, writer in self._opened.items()}

    def abort(self) -> None:
        """Let go of open files after a failure."""
        for writer in self._opened.values():
            writer.abort()

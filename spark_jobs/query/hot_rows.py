"""Rows that are not in the lake, as a source beside the table's files: asked for columns and a condition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.expressions.visitors import bind
from pyiceberg.io.pyarrow import expression_to_pyarrow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema


@dataclass(frozen=True, slots=True)
class HotRows:
    """Tables with all columns of the lake's table, found by name."""

    tables: Sequence[pa.Table] = ()

    def stream(
        self, columns: pa.Schema, condition: BooleanExpression, of: Schema
    ) -> Iterator[pa.RecordBatch]:
        """The rows that meet the condition, which speaks of the columns ``of`` the lake's table, in these."""
        for rows in self._meeting(condition, of):
            yield from rows.select(columns.names).cast(columns).to_batches()

    def counts(self, condition: BooleanExpression, of: Schema) -> Iterator[int]:
        """How many rows meet the condition, in parts."""
        return (rows.num_rows for rows in self._meeting(condition, of))

    def _meeting(self, condition: BooleanExpression, of: Schema) -> Iterator[pa.Table]:
        if isinstance(condition, AlwaysTrue):
            yield from self.tables
            return
        matching = expression_to_pyarrow(bind(of, condition, case_sensitive=True))
        yield from (rows.filter(matching) for rows in self.tables)

"""Rows that are not in the lake, as a source beside the table's files: asked for columns and a condition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, And, BoundEqualTo, BoundReference
from pyiceberg.expressions.visitors import bind
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.types import IntegerType, LongType, StringType

if TYPE_CHECKING:
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

    def count(self, condition: BooleanExpression, of: Schema) -> int:
        """Return how many rows meet the condition."""
        return sum(rows.num_rows for rows in self._meeting(condition, of))

    def _meeting(self, condition: BooleanExpression, of: Schema) -> Iterator[pa.Table]:
        if isinstance(condition, AlwaysTrue):
            yield from self.tables
            return
        bound = bind(of, condition, case_sensitive=True)
        matching, equal = expression_to_pyarrow(bound), dict(_equal(bound))
        for rows in self.tables:
            # Filtering asks for all columns: a look at one leaves out most tables where a key is looked for.
            if all(_may_have(rows.column(name), value) for name, value in equal.items()):
                yield rows.filter(matching)


def _may_have(column: pa.ChunkedArray, value: str | int) -> bool:
    """False if it does not have the value; of a dictionary, which is short, no more is asked than that."""
    is_short = pa.types.is_dictionary(column.type)
    looked_through = [chunk.dictionary for chunk in column.chunks] if is_short else [column]
    return any(pc.any(pc.equal(values, value)).as_py() for values in looked_through)


def _equal(condition: BooleanExpression) -> Iterator[tuple[str, str | int]]:
    """The columns, by name, that must have one value, as far as its plain form is Arrow's too."""
    match condition:
        case And(left=left, right=right):
            yield from _equal(left)
            yield from _equal(right)
        case BoundEqualTo(term=BoundReference(field=column), literal=literal):
            if isinstance(column.field_type, StringType | IntegerType | LongType):
                yield column.name, literal.value

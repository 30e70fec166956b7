"""Columns of floating point in which versions before rounded integers, and what mends them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spark_jobs.protocol import mends


@dataclass(frozen=True, slots=True)
class RoundedColumn:
    """A column, dotted, with the Iceberg type that would hold its integers, and how many rows are rounded."""

    column: str
    exact_type: str
    rows: int

    def mend(self, pipeline: str) -> str:
        """Return what makes the column exact."""
        if "." in self.column:
            top = self.column.partition(".")[0]
            return f"a new table for {pipeline} declaring {top} whole: {self.exact_type} for {self.column}"
        return mends.act("retype", pipeline, self.column, f"'{self.exact_type}'")


def merged(found: Iterable[RoundedColumn]) -> tuple[RoundedColumn, ...]:
    """Return each column once, with the type that holds all of its integers."""
    columns: dict[str, RoundedColumn] = {}
    for each in found:
        known = columns.get(each.column, RoundedColumn(each.column, each.exact_type, 0))
        # Of the two there are, only ``long`` does not hold all.
        kind = known.exact_type if each.exact_type == "long" else each.exact_type
        columns[each.column] = RoundedColumn(each.column, kind, known.rows + each.rows)
    return tuple(columns[name] for name in sorted(columns))

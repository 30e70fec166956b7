"""A row's types as columns."""

from __future__ import annotations

from spark_jobs.formats import tree
from spark_jobs.formats.connect.types import Field, Kind, Leaf, Type
from spark_jobs.formats.tree import Record
from spark_jobs.schema.writer_schema import WriterColumns


def columns_of(row: Record[Field]) -> WriterColumns:
    """Return the columns of a row; raises as ``tree.columns_of``."""
    hint = "Rename the column at its source, or leave it out at the connector (`column.exclude.list`)."
    return tree.columns_of(row.fields, _column, hint, are_names_free=True)


def _column(kind: Type) -> str | Type:
    if not isinstance(kind, Leaf):
        return kind
    if kind.kind is Kind.DECIMAL:
        return f"decimal({kind.precision}, {kind.scale})"
    return "string" if kind.kind.endswith("as text") else kind.kind

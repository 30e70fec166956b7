"""A JSON Schema's types as columns."""

from __future__ import annotations

from spark_jobs.formats import tree
from spark_jobs.formats.json_schema.types import Kind, Leaf, Root, Type
from spark_jobs.schema.writer_schema import WriterColumns


def columns_of(root: Root) -> WriterColumns:
    """Return the columns of a schema; raises as ``tree.columns_of``."""
    hint = "Rename the property in a new version of the schema, or keep the topic's values as `raw`."
    return tree.columns_of(root.record.fields, _column, hint, is_whole=root.is_whole)


def _column(kind: Type) -> str | Type | None:
    if not isinstance(kind, Leaf):
        return kind
    return None if kind.kind is Kind.TEXT else kind.kind

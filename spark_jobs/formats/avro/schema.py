"""Avro behind the seam of ``spark_jobs.schema.writer_schema``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from pyiceberg.schema import Schema

from spark_jobs.formats.avro.block import FEWEST_VALUES, BlockReader
from spark_jobs.formats.avro.columns import columns_of, only_member
from spark_jobs.formats.avro.plain import TEXTS, PlainReader
from spark_jobs.formats.avro.types import Kind, Leaf, Record, Type, Union, parse
from spark_jobs.formats.lanes.packed_values import BlockFirst
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.told import Form, Forms
from spark_jobs.schema.writer_schema import (
    ReadValues,
    SchemaText,
    WriterColumns,
)

_MOST_SCHEMAS = 256


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """An Avro schema that was read once without fault; a process that gets it reads its text again."""

    source: SchemaText
    told: Forms = ()

    @property
    def columns(self) -> WriterColumns:
        """See ``WriterSchema``."""
        return _readers(self).columns

    @property
    def reading(self) -> object:
        """See ``WriterSchema``."""
        return _readers(self).root

    def read(self, values: Sequence[bytes]) -> ReadValues:
        """See ``WriterSchema``."""
        return _readers(self).read(values)

    def read_plain(self, value: bytes) -> Mapping[str, Any]:
        """See ``WriterSchema``."""
        return _readers(self).plain.read(value)


def avro_schema(source: SchemaText) -> AvroSchema:
    """Return a schema that values can be read by.

    Raises ``ConfigError``: ``schema-unreadable`` for text that is no Avro schema, ``schema-unsupported`` for
    a schema that no table can be made of.
    """
    schema = AvroSchema(source)
    _readers(schema)
    return schema


@lru_cache(_MOST_SCHEMAS)
def _readers(schema: AvroSchema) -> _Readers:
    return _Readers(schema)


class _Readers:
    """What is made of a schema once in a process."""

    def __init__(self, schema: AvroSchema) -> None:
        parsed = parse(schema.source)
        parsed = replace(parsed, root=_told(parsed.root, dict(schema.told)))
        self.root = parsed.root
        self.columns = columns_of(parsed.root)
        self.plain = PlainReader(parsed)
        arrow = arrow_schema(Schema(*self.columns.struct.fields))
        block = BlockReader(parsed.root, arrow)
        self.read = BlockFirst(block, FEWEST_VALUES, lambda value: (self.plain.read(value), {}), arrow).read


def _told(root: Type, told: Mapping[str, Form]) -> Type:
    if not isinstance(root, Record):
        return root
    fields = (
        replace(each, type=_in_form(each.type, told[each.name])) if each.name in told else each
        for each in root.fields
    )
    return replace(root, fields=tuple(fields))


def _in_form(kind: Type, form: Form) -> Type:
    if isinstance(kind, Union) and only_member(kind) is not None:
        return replace(
            kind, branches=tuple(replace(each, type=_in_form(each.type, form)) for each in kind.branches)
        )
    if not isinstance(kind, Leaf) or kind.kind not in TEXTS:
        return kind
    return replace(kind, as_text=True) if form is Form.TEXT else Leaf(Kind(kind.base), kind.base)

"""The Avro implementation of ``spark_jobs.schema.writer_schema``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from spark_jobs.formats.avro.block import FEWEST_VALUES, taker
from spark_jobs.formats.avro.columns import columns_of
from spark_jobs.formats.avro.plain import TEXTS, PlainReader
from spark_jobs.formats.avro.types import Field, Kind, Leaf, Type, Union, parse
from spark_jobs.formats.lanes.lanes import BlockReader
from spark_jobs.formats.lanes.packed_values import ParsedOnce, Readers
from spark_jobs.formats.tree import Record, fields_in_forms
from spark_jobs.schema.writer_schema import Form, Forms, SchemaText


@dataclass(frozen=True, slots=True)
class AvroSchema(ParsedOnce):
    """An Avro schema."""

    source: SchemaText
    forms: Forms = ()

    def readers(self) -> Readers:
        """See ``ParsedOnce``; schemas with equal types are read alike."""
        parsed = parse(self.source)
        root = parsed.root
        if isinstance(root, Record):
            root = Record(fields_in_forms(root.fields, self.forms, _in_form))
        columns, plain = columns_of(root), PlainReader(replace(parsed, root=root))
        return Readers.block_first(
            columns,
            partial(BlockReader, taker(root)),
            FEWEST_VALUES,
            lambda value: (plain.read(value), {}),
            root,
        )


def avro_schema(source: SchemaText) -> AvroSchema:
    """Return a schema that can be used to read values.

    Raises ``ConfigError``: ``schema-unreadable`` for text that is no Avro schema, ``schema-unsupported`` for
    a schema that no table can be made of.
    """
    return AvroSchema(source).usable()


def _in_form(field: Field, form: Form) -> Type:
    kind = field.type
    if isinstance(kind, Union) and kind.only is not None:
        branches = (replace(each, type=_in_form(each, form)) for each in kind.branches)
        return replace(kind, branches=tuple(branches))
    if not isinstance(kind, Leaf) or kind.kind not in TEXTS:
        return kind
    return replace(kind, as_text=True) if form is Form.TEXT else Leaf(Kind(kind.base), kind.base)

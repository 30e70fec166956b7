"""Avro behind the seam of ``spark_jobs.schema.writer_schema``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pyiceberg.schema import Schema

from spark_jobs.avro.block import FEWEST_VALUES, BlockReader
from spark_jobs.avro.columns import columns_of
from spark_jobs.avro.parsing import parse
from spark_jobs.avro.plain import PlainReader
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.reading import BlockFirst
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

    @property
    def columns(self) -> WriterColumns:
        """See ``WriterSchema``."""
        return _readers(self.source).columns

    @property
    def reading(self) -> object:
        """See ``WriterSchema``."""
        return _readers(self.source).root

    def read(self, values: Sequence[bytes]) -> ReadValues:
        """See ``WriterSchema``."""
        return _readers(self.source).read(values)

    def read_plain(self, value: bytes) -> Mapping[str, Any]:
        """See ``WriterSchema``."""
        return _readers(self.source).plain.read(value)


def avro_schema(source: SchemaText) -> AvroSchema:
    """Return a schema that values can be read by.

    Raises ``ConfigError``: ``schema-unreadable`` for text that is no Avro schema, ``schema-unsupported`` for
    a schema that no table can be made of.
    """
    _readers(source)
    return AvroSchema(source)


@lru_cache(_MOST_SCHEMAS)
def _readers(source: SchemaText) -> _Readers:
    return _Readers(source)


class _Readers:
    """What is made of a schema once in a process."""

    def __init__(self, source: SchemaText) -> None:
        parsed = parse(source)
        self.root = parsed.root
        self.columns = columns_of(parsed.root)
        self.plain = PlainReader(parsed)
        arrow = arrow_schema(Schema(*self.columns.struct.fields))
        block = BlockReader(parsed.root, arrow)
        self.read = BlockFirst(block, FEWEST_VALUES, lambda value: (self.plain.read(value), {}), arrow).read

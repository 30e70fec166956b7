"""The columns of an archive: each whole record, and its readable parts next to its bytes.

``key`` and ``value`` are structs of the bytes and of the fields that were read of them; ``headers`` and
``kafka`` are the rest of the record. Sluice's own columns are there as in every table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    IcebergType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from spark_jobs.protocol.progress import ColumnMap
from spark_jobs.schema.column_source import SeenColumns, WrittenColumns
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.evolution import Evolution, Path, additions_of
from spark_jobs.schema.iceberg_types import headers_type, optional_columns
from spark_jobs.schema.inference import Field

KEY, VALUE, HEADERS, KAFKA = "key", "value", "headers", "kafka"
RAW, SCHEMA_ID = "__raw__", "__schema_id__"
INGEST_TIMESTAMP = "ingest_timestamp"
_OWN = {RAW, SCHEMA_ID}
_KAFKA: tuple[tuple[str, IcebergType, str], ...] = (
    ("offset", LongType(), "Kafka offset"),
    ("event_timestamp", TimestamptzType(), "the record's timestamp; null outside the years 1 to 9999"),
    ("event_timestamp_ms", LongType(), "the same as Kafka has it: milliseconds, null if there is none"),
    ("timestamp_type", StringType(), "create, or log_append when the broker set it"),
    (INGEST_TIMESTAMP, TimestamptzType(), "planning time of the record's batch"),
    ("batch_start", LongType(), "always null: consumers do not see producers' batches"),
)


@dataclass(frozen=True, slots=True)
class ArchiveColumns:
    """Columns for observed values and keys, each in its own struct."""

    values: SeenColumns | WrittenColumns
    keys: WrittenColumns | None = None

    def first(self, evidence: Evidence, declared: Sequence[Field]) -> tuple[Evolution, tuple[str, ...]]:
        """See ``ColumnSource``; an archive has no declared columns."""
        of_values, notes = self.values.first(evidence, declared)
        columns = additions_of(_every_archive()).then(of_values.under(_of_value))
        if self.keys is not None:
            columns = columns.then(self.keys.beside(additions_of(key_alone(Schema()))))
        return columns.under(_not_own), notes

    def evolution(
        self, table: Schema, bound: ColumnMap, evidence: Evidence
    ) -> tuple[Evolution, tuple[str, ...]]:
        """See ``ColumnSource``."""
        of_values, notes = self.values.evolution(inside_value(table), bound, evidence)
        lacks = of_values.under(_of_value)
        if self.keys is not None:
            of_keys, _ = self.keys.evolution(key_alone(table), bound, evidence)
            lacks = lacks.then(of_keys)
        return lacks.under(_not_own), notes


def inside_value(table: Schema) -> Schema:
    """Return the fields read from values, as if they were a table's columns."""
    return Schema(*_fields(table, VALUE))


def key_alone(table: Schema) -> Schema:
    """Return the keys' column without their bytes, as if it were a table's only one."""
    field_id = next((each.field_id for each in table.fields if each.name == KEY), 0)
    return Schema(NestedField(field_id, KEY, StructType(*_fields(table, KEY)), required=False))


def _fields(table: Schema, name: str) -> list[NestedField]:
    """Return the struct's fields except bytes and schema name; empty without such a struct."""
    structs = [each.field_type for each in table.fields if each.name == name]
    found = [each for struct in structs if isinstance(struct, StructType) for each in struct.fields]
    return [each for each in found if each.name not in _OWN]


def _of_value(path: Path) -> Path:
    return VALUE, *path


def _not_own(path: Path) -> Path | None:
    """Leave out fields with a name of the struct's own fields: they are in the bytes only."""
    return None if len(path) > 1 and path[1] in _OWN else path


def _every_archive() -> Schema:
    """Return the columns that every archive has."""
    raw = (RAW, BinaryType(), "the bytes, unchanged")
    schema_id = (SCHEMA_ID, StringType(), "the schema id in the bytes")
    return optional_columns(
        (
            (KEY, optional_columns([raw]).as_struct(), "the record's key; null when it has none"),
            (
                VALUE,
                optional_columns([raw, schema_id]).as_struct(),
                "the record's value; null of a tombstone",
            ),
            (HEADERS, headers_type(), "the record's headers in order"),
            (KAFKA, optional_columns(_KAFKA).as_struct(), "the record's Kafka metadata"),
        )
    )

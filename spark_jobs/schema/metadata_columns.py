"""The columns Sluice adds after the JSON's fields, and the columns of a dead-letter table.

Those that are a row's identity are required, and Iceberg's identifier fields. All others are optional, and in
a table that an earlier version made all are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from spark_jobs.protocol.layout import Layout
from spark_jobs.protocol.words import count
from spark_jobs.schema.inference import RESERVED_COLUMNS

METADATA_COLUMNS = RESERVED_COLUMNS
TOPIC, PARTITION, OFFSET, GENERATION, TIMESTAMP, KEY, HEADERS, INGESTED_AT = METADATA_COLUMNS
FIRST_FAILED_AT, FAILURES = "first_failed_at", "failures"
# Of letters: a table that an earlier version made gets them with its first redrive.
PAST_FAILURES: tuple[tuple[str, IcebergType, str], ...] = (
    (FIRST_FAILED_AT, TimestamptzType(), "when the batch was planned that met it first"),
    (FAILURES, IntegerType(), "how often it could not become a row; null: once"),
)
IDENTITY = Layout.identity
ORIGIN_COLUMNS = (TOPIC, PARTITION, OFFSET, GENERATION, TIMESTAMP, INGESTED_AT)

_COORDINATES: tuple[tuple[str, IcebergType, str], ...] = (
    (TOPIC, StringType(), "Kafka topic the record was read from"),
    (PARTITION, IntegerType(), "Kafka partition"),
    (OFFSET, LongType(), "Kafka offset; unique together with partition and generation"),
    (GENERATION, IntegerType(), "raised when the topic is re-created or moved, so that row identity holds"),
    (TIMESTAMP, TimestamptzType(), "the record's Kafka timestamp; null when it has none"),
)
_INGESTED_AT_DOC = "when the batch was planned; the same for every row of a batch"


def with_metadata_columns(
    schema: Schema, *, key_is_binary: bool = False, identity: Sequence[str] = IDENTITY
) -> Schema:
    """The JSON's columns, then the metadata columns; field ids are provisional, catalogs number anew.

    Columns of the ``identity`` are required, and Iceberg's identifier fields.
    """
    key: IcebergType = BinaryType() if key_is_binary else StringType()
    columns = (
        *_COORDINATES,
        (KEY, key, "the record's key; null when it has none"),
        (HEADERS, headers_type(), "the record's headers in order, names may repeat"),
        (INGESTED_AT, TimestamptzType(), _INGESTED_AT_DOC),
    )
    return _numbered(schema.fields, columns, identity)


def dead_letter_schema() -> Schema:
    """Return one row for each record that could not become a row; key, value and headers as they came."""
    columns = (
        *_COORDINATES,
        ("key", BinaryType(), "the record's key as it came"),
        ("value", BinaryType(), "the record's value as it came"),
        ("headers", headers_type(), "the record's headers in order, names may repeat"),
        ("phase", StringType(), "what failed: the step the record did not pass"),
        ("field", StringType(), "the field that did not fit; null when it is the whole record"),
        ("error", StringType(), "why"),
        ("batch_id", StringType(), "the batch that met it"),
        (INGESTED_AT, TimestamptzType(), _INGESTED_AT_DOC),
        *PAST_FAILURES,
    )
    return _numbered((), columns)


def headers_type() -> IcebergType:
    """Return the type of a record's headers."""
    # The ids only have to differ from each other and the columns' until the catalog numbers them.
    entry = StructType(
        NestedField(1_000_001, "key", StringType(), required=False),
        NestedField(1_000_002, "value", BinaryType(), required=False),
    )
    return ListType(1_000_003, entry, element_required=False)


def _numbered(
    fields: tuple[NestedField, ...],
    columns: tuple[tuple[str, IcebergType, str], ...],
    identity: Sequence[str] = IDENTITY,
) -> Schema:
    first_id = max(Schema(*fields).highest_field_id, 0) + 1
    added = [
        NestedField(first_id + position, name, kind, required=name in IDENTITY, doc=doc)
        for position, (name, kind, doc) in enumerate(columns)
    ]
    given = [
        field.model_copy(update={"required": True}) if field.name in identity else field for field in fields
    ]
    every = [*given, *added]
    return Schema(*every, identifier_field_ids=[field.field_id for field in every if field.name in identity])


def told_ignored(ignored: Mapping[str, int], unread: str = Layout.unread) -> list[str]:
    """Return in sentences what has no column, and which times of Kafka's are null in theirs."""
    fields = ", ".join(f"{name} {values:,}" for name, values in ignored.items() if name != TIMESTAMP)
    told = [f"{unread}, by field: {fields}"] if fields else []
    times = ignored.get(TIMESTAMP, 0)
    lost = f"{count(times, 'record')} with a Kafka time outside the years 1 to 9999: null in {TIMESTAMP}"
    return [*told, lost] if times else told


# The columns that a row of ``layout: changes`` or ``mirror`` has of its event.


SEQUENCE, TIME, OPERATION = "_cdc_sequence", "_cdc_timestamp", "_cdc_operation"
ROW_ID, TRANSACTION, COMMIT_SEQUENCE = "_cdc_row_id", "_cdc_transaction", "_cdc_commit_sequence"
SOURCE = "_cdc_source"
_COLUMNS: tuple[tuple[str, IcebergType, str], ...] = (
    (SEQUENCE, LongType(), "where its source stood; the offset where that says no position"),
    (TIME, TimestamptzType(), "when the source changed the row"),
    (OPERATION, StringType(), "c, u, r: the row after; d: the key of a row that went; t: all rows went"),
    (ROW_ID, StringType(), "the record's key as text; null when it has none"),
    (TRANSACTION, StringType(), "what all events of a transaction of the source share"),
)
_OF_MIRRORS: tuple[tuple[str, IcebergType, str], ...] = (
    *(each for each in _COLUMNS if each[0] != ROW_ID),
    (ROW_ID, StringType(), "the record's key as text: one live row has it"),
    (COMMIT_SEQUENCE, LongType(), "where the last commit stood that was told before; null if not said"),
    (SOURCE, StringType(), "which connector, database and table told it, as JSON"),
)


def optional_columns(columns: Iterable[tuple[str, IcebergType, str]]) -> Schema:
    """Return columns by name, type and text; ids are provisional."""
    return Schema(
        *(
            NestedField(field_id, name, kind, required=False, doc=doc)
            for field_id, (name, kind, doc) in enumerate(columns, 1)
        )
    )


CHANGE_COLUMNS, MIRROR_COLUMNS = optional_columns(_COLUMNS), optional_columns(_OF_MIRRORS)
CHANGE_NAMES, MIRROR_NAMES = (frozenset(columns.column_names) for columns in (CHANGE_COLUMNS, MIRROR_COLUMNS))

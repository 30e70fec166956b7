"""Iceberg columns of a table: types from evidence and declarations, and Sluice's own columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import count
from typing import TYPE_CHECKING

from pydantic import TypeAdapter
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.types import (
    BinaryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from spark_jobs.config.iceberg_terms import field_text, split_arguments, split_field
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.work import Layout, layout_named
from spark_jobs.schema.evolution import Evolution, Path, widened
from spark_jobs.schema.inference import (
    RESERVED_COLUMNS,
    DeclaredType,
    Field,
    FieldType,
    ListOf,
    MapOf,
    Primitive,
    StructOf,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table


_PRIMITIVE: TypeAdapter[IcebergType] = TypeAdapter(IcebergType)
_BY_NAME: dict[str, Primitive] = {primitive.value: primitive for primitive in Primitive}


def iceberg_schema(fields: Sequence[Field]) -> Schema:
    """Return a schema of optional columns. Field ids are provisional; the catalog reassigns them."""
    ids = count(1)
    return Schema(*(_nested_field(field, ids) for field in fields))


def iceberg_type(kind: FieldType) -> IcebergType:
    """Return a type for a new column. Nested ids are provisional; the catalog reassigns them."""
    return _iceberg_type(kind, count(1))


def known_fields(schema: Schema) -> tuple[Field, ...]:
    """Return the columns of a table that come from JSON."""
    return tuple(
        Field(field.name, _field_type(field.field_type))
        for field in schema.fields
        if field.name not in METADATA_COLUMNS
    )


def declared_fields(columns: Mapping[str, str]) -> tuple[Field, ...]:
    """Return the configuration's ``columns``, whose type names are already checked."""
    return tuple(Field(name, _field_type(declared_type(text))) for name, text in columns.items())


def _nested_field(field: Field, ids: Iterator[int]) -> NestedField:
    field_id = next(ids)
    return NestedField(field_id, field.name, _iceberg_type(field.type, ids), required=False)


def _iceberg_type(kind: FieldType, ids: Iterator[int]) -> IcebergType:
    if isinstance(kind, Primitive | DeclaredType):
        return declared_type(kind.value if isinstance(kind, Primitive) else kind.name)
    if isinstance(kind, StructOf):
        return StructType(*(_nested_field(field, ids) for field in kind.fields))
    if isinstance(kind, ListOf):
        return ListType(next(ids), _iceberg_type(kind.element, ids), element_required=False)
    return MapType(next(ids), StringType(), next(ids), _iceberg_type(kind.value, ids), value_required=False)


def _field_type(kind: IcebergType) -> FieldType:
    if isinstance(kind, StructType):
        return StructOf(tuple(Field(field.name, _field_type(field.field_type)) for field in kind.fields))
    if isinstance(kind, ListType):
        return ListOf(_field_type(kind.element_type))
    if isinstance(kind, MapType):
        return MapOf(_field_type(kind.value_type))
    return _BY_NAME.get(str(kind)) or DeclaredType(str(kind))


def declared_type(text: str) -> IcebergType:
    """Parse a declared type: ``long``, ``decimal(9, 2)``, ``list<struct<a: int>>``.

    Field ids in it are provisional. The text must have passed ``config.iceberg_terms.check_type_name``.
    """
    ids = count(1)
    return _read(text.strip(), lambda: next(ids))


def check_columns(
    table: Table,
    declared: Mapping[str, str],
    *,
    key_is_binary: bool = False,
    pipeline: str = "PIPELINE",
    layout: Layout = layout_named("flat"),  # noqa: B008
) -> None:
    """Return if the table has Sluice's columns and its declared columns have these types; else raise.

    A struct may have more fields than were declared, at any depth: records brought them. A column may be
    narrower than was declared where Iceberg can widen it. Raises
    ``ConfigError`` naming the types, or names, that clash, and what changes a column's.
    """
    ours = with_metadata_columns(Schema(), key_is_binary=key_is_binary)
    expected = {name: ours.find_type(name) for name in METADATA_COLUMNS}
    expected |= {name: declared_type(text) for name, text in declared.items()}
    existing = {field.name: field.field_type for field in table.schema().fields}
    for name, kind in expected.items():
        if name in METADATA_COLUMNS and name not in existing:
            raise fault("column-clash.missing", name=name, type=type_text(kind), table=".".join(table.name()))
        changes = widenings_to(existing[name], kind, (name,)) if name in existing else {}
        if changes is None or (changes and name in METADATA_COLUMNS):
            raise fault(
                layout.clash if name in declared else "column-clash",
                name=name,
                found=type_text(existing[name]),
                type=type_text(kind),
                owner=pipeline,
                table=".".join(table.name()),
            )
    _check_names(table)


def _check_names(table: Table) -> None:
    try:
        sanitize_column_names(table.schema())  # as the writer does
    except ValueError as error:
        raise fault("column-clash.names", why=error, table=".".join(table.name())) from error


def widenings_to(there: IcebergType, declared: IcebergType, path: Path) -> dict[Path, IcebergType] | None:
    """Return the widenings that give a column a declared type, by path from the top, or None."""
    changes = changes_to(there, declared, path)
    return None if changes is None or changes.additions else changes.widenings


def changes_to(
    there: IcebergType | None,
    wanted: IcebergType,
    path: Path,
    doc: str | None = None,
    *,
    may_be_wider: bool = False,
) -> Evolution | None:
    """Return the changes that give a column a type, with missing fields, or None if impossible."""
    if there is None:
        return Evolution([(path, wanted, doc)])
    parts: list[tuple[IcebergType | None, IcebergType, str, str | None]]
    if isinstance(there, StructType) and isinstance(wanted, StructType):
        fields = {field.name: field.field_type for field in there.fields}
        parts = [(fields.get(each.name), each.field_type, each.name, each.doc) for each in wanted.fields]
    elif isinstance(there, ListType) and isinstance(wanted, ListType):
        parts = [(there.element_type, wanted.element_type, "element", None)]
    elif isinstance(there, MapType) and isinstance(wanted, MapType):
        if type_text(there.key_type) != type_text(wanted.key_type):
            return None
        parts = [(there.value_type, wanted.value_type, "value", None)]
    elif type_text(there) == type_text(wanted) or (
        may_be_wider and there in (widened(there, wanted), widened(wanted, there))
    ):
        return Evolution()
    else:
        return Evolution(widenings={path: wanted}) if widened(there, wanted) == wanted else None
    inside = partial(changes_to, may_be_wider=may_be_wider)
    found = [inside(part, kind, (*path, step), told) for part, kind, step, told in parts]
    if None in found:
        return None
    return reduce(Evolution.then, (each for each in found if each is not None), Evolution())


def type_text(kind: IcebergType, *, with_fields: bool = True) -> str:
    """Return the type as a configuration declares it: names and types without field ids."""
    if isinstance(kind, StructType):
        fields = (field_text(field.name, type_text(field.field_type)) for field in kind.fields)
        return f"struct<{', '.join(fields)}>" if with_fields else "struct"
    text_of = partial(type_text, with_fields=with_fields)
    if isinstance(kind, ListType):
        return f"list<{text_of(kind.element_type)}>"
    if isinstance(kind, MapType):
        return f"map<{text_of(kind.key_type)}, {text_of(kind.value_type)}>"
    return str(kind)


def _read(text: str, next_id: Callable[[], int]) -> IcebergType:
    kind, bracket, rest = text.partition("<")
    if not bracket:
        # PyIceberg's own reader knows the primitives' names; it wants decimals and fixed without blanks.
        return _PRIMITIVE.validate_python(text.replace(" ", ""))
    arguments = split_arguments(rest.rstrip()[:-1])
    if kind.strip() == "list":
        return ListType(next_id(), _read(arguments[0], next_id), element_required=False)
    if kind.strip() == "map":
        key, value = (_read(argument, next_id) for argument in arguments)
        return MapType(next_id(), key, next_id(), value, value_required=False)
    fields = (named for argument in arguments if (named := split_field(argument)) is not None)
    return StructType(
        *(
            NestedField(next_id(), name, _read(type_name, next_id), required=False)
            for name, type_name in fields
        )
    )


# What is said where a field is of a type that its column does not hold, and nobody is to guess.


def incompatible(
    written: NestedField,
    path: Sequence[str],
    there: IcebergType,
    layout: Layout,
    *,
    is_declared: bool = False,
    is_of_key: bool = False,
) -> SluiceError:
    """Return the error; ``is_of_key`` is a rebuild's, which accepts any type except in key columns."""
    column, kind, own = ".".join(path), type_text(there), type_text(written.field_type)
    if is_of_key:
        return fault("schema-incompatible.key", name=written.name, own=own, found=column, kind=kind)
    return layout.unlike(name=written.name, own=own, there=column, kind=kind, is_declared=is_declared)


# The columns Sluice adds after the JSON's fields, and the columns of a dead-letter table.
#
# Those that are a row's identity are required, and Iceberg's identifier fields. All others are optional, and
# in a table that an earlier version made all are.


METADATA_COLUMNS = RESERVED_COLUMNS
TOPIC, PARTITION, OFFSET, GENERATION, TIMESTAMP, KEY, HEADERS, INGESTED_AT = METADATA_COLUMNS
FIRST_FAILED_AT, FAILURES = "first_failed_at", "failures"
# Of letters: a table that an earlier version made gets them with its first redrive.
PAST_FAILURES: tuple[tuple[str, IcebergType, str], ...] = (
    (FIRST_FAILED_AT, TimestamptzType(), "planning time of the batch in which it first failed"),
    (FAILURES, IntegerType(), "number of failures; null means one"),
)
IDENTITY = Layout.identity
ORIGIN_COLUMNS = (TOPIC, PARTITION, OFFSET, GENERATION, TIMESTAMP, INGESTED_AT)

_COORDINATES: tuple[tuple[str, IcebergType, str], ...] = (
    (TOPIC, StringType(), "Kafka topic the record was read from"),
    (PARTITION, IntegerType(), "Kafka partition"),
    (OFFSET, LongType(), "Kafka offset; unique together with partition and generation"),
    (
        GENERATION,
        IntegerType(),
        "number raised when the topic is re-created or moved, which keeps coordinates unique",
    ),
    (TIMESTAMP, TimestamptzType(), "the record's Kafka timestamp; null if it has none"),
)
_INGESTED_AT_DOC = "planning time of the batch; the same for every row of a batch"


def with_metadata_columns(
    schema: Schema, *, key_is_binary: bool = False, identity: Sequence[str] = IDENTITY
) -> Schema:
    """Return the JSON columns, then the metadata columns. Field ids are provisional.

    Columns of the ``identity`` are required, and Iceberg's identifier fields.
    """
    key: IcebergType = BinaryType() if key_is_binary else StringType()
    columns = (
        *_COORDINATES,
        (KEY, key, "the record's key; null if it has none"),
        (HEADERS, headers_type(), "the record's headers in order; names may repeat"),
        (INGESTED_AT, TimestamptzType(), _INGESTED_AT_DOC),
    )
    return _numbered(schema.fields, columns, identity)


def dead_letter_schema() -> Schema:
    """Return the schema of dead letters, one row per record; key, value and headers are unchanged."""
    columns = (
        *_COORDINATES,
        ("key", BinaryType(), "the record's key, unchanged"),
        ("value", BinaryType(), "the record's value, unchanged"),
        ("headers", headers_type(), "the record's headers in order; names may repeat"),
        ("phase", StringType(), "step in which the record failed"),
        ("field", StringType(), "field that did not fit; null if the whole record failed"),
        ("error", StringType(), "reason of the failure"),
        ("batch_id", StringType(), "batch in which it failed"),
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


# The columns that a row of ``layout: changes`` or ``mirror`` has of its event.


SEQUENCE, TIME, OPERATION = "_cdc_sequence", "_cdc_timestamp", "_cdc_operation"
ROW_ID, TRANSACTION, COMMIT_SEQUENCE = "_cdc_row_id", "_cdc_transaction", "_cdc_commit_sequence"
SOURCE = "_cdc_source"
_COLUMNS: tuple[tuple[str, IcebergType, str], ...] = (
    (SEQUENCE, LongType(), "position in the source's log; the offset if the event has no position"),
    (TIME, TimestamptzType(), "time of the change in the source"),
    (
        OPERATION,
        StringType(),
        "c, u, r: the row after the change; d: the key of a deleted row; t: all rows deleted",
    ),
    (ROW_ID, StringType(), "the record's key as text; null if it has none"),
    (TRANSACTION, StringType(), "id of the source's transaction"),
)
_OF_MIRRORS: tuple[tuple[str, IcebergType, str], ...] = (
    *(each for each in _COLUMNS if each[0] != ROW_ID),
    (ROW_ID, StringType(), "the record's key as text; unique among live rows"),
    (COMMIT_SEQUENCE, LongType(), "source position of the last commit before the event; null if unknown"),
    (SOURCE, StringType(), "connector, database and table of the event, as JSON"),
)


def optional_columns(columns: Iterable[tuple[str, IcebergType, str]]) -> Schema:
    """Return columns from names, types and texts. Field ids are provisional."""
    return Schema(
        *(
            NestedField(field_id, name, kind, required=False, doc=doc)
            for field_id, (name, kind, doc) in enumerate(columns, 1)
        )
    )


CHANGE_COLUMNS, MIRROR_COLUMNS = optional_columns(_COLUMNS), optional_columns(_OF_MIRRORS)
CHANGE_NAMES, MIRROR_NAMES = (frozenset(columns.column_names) for columns in (CHANGE_COLUMNS, MIRROR_COLUMNS))

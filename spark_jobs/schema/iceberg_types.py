"""Between the types evidence and declarations speak of and Iceberg's own, and whether a table has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import count
from typing import TYPE_CHECKING

from pydantic import TypeAdapter
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from spark_jobs.config.iceberg_terms import field_text, split_arguments, split_field
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.layout import Layout, layout_named
from spark_jobs.schema.evolution import Evolution, Path
from spark_jobs.schema.inference import DeclaredType, Field, FieldType, ListOf, MapOf, Primitive, StructOf
from spark_jobs.schema.metadata_columns import METADATA_COLUMNS, with_metadata_columns

if TYPE_CHECKING:
    from pyiceberg.table import Table


_PRIMITIVE: TypeAdapter[IcebergType] = TypeAdapter(IcebergType)
_BY_NAME: dict[str, Primitive] = {primitive.value: primitive for primitive in Primitive}


def iceberg_schema(fields: Sequence[Field]) -> Schema:
    """Return a schema of optional columns; ids are provisional, catalogs number anew."""
    ids = count(1)
    return Schema(*(_nested_field(field, ids) for field in fields))


def iceberg_type(kind: FieldType) -> IcebergType:
    """Return one type, for a column that is being added; nested ids are provisional."""
    return _iceberg_type(kind, count(1))


def known_fields(schema: Schema) -> tuple[Field, ...]:
    """Return the columns of a table that come from the JSON."""
    return tuple(
        Field(field.name, _field_type(field.field_type))
        for field in schema.fields
        if field.name not in METADATA_COLUMNS
    )


def declared_fields(columns: Mapping[str, str]) -> tuple[Field, ...]:
    """Return the configuration's ``columns``, whose type names were checked when it was read."""
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
    """Read a type as declared in ``columns``: ``long``, ``decimal(9, 2)``, ``list<struct<a: int>>``.

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
    """Return when the table has Sluice's columns, and the declared ones where it has them, with these types.

    A struct may have more fields than were declared, at any depth: records brought them. A column may be
    narrower than was declared where Iceberg can widen it. Raises
    ``ConfigError`` naming the types, or names, that clash, and what changes a column's.
    """
    ours = with_metadata_columns(Schema(), key_is_binary=key_is_binary)
    expected = {name: ours.find_type(name) for name in METADATA_COLUMNS}
    expected |= {name: declared_type(text) for name, text in declared.items()}
    there = {field.name: field.field_type for field in table.schema().fields}
    for name, kind in expected.items():
        if name in METADATA_COLUMNS and name not in there:
            raise fault("column-clash.missing", name=name, type=type_text(kind), table=".".join(table.name()))
        changes = widenings_to(there[name], kind, (name,)) if name in there else {}
        if changes is None or (changes and name in METADATA_COLUMNS):
            raise fault(
                layout.clash if name in declared else "column-clash",
                name=name,
                there=type_text(there[name]),
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
    """Return what makes a column hold a declared type, by path from the top; None where widening does not."""
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
    """Return what makes a column hold a type, with what it lacks of fields; None where nothing does."""
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
    """Return the type as declared in a configuration: names and types without field ids."""
    if isinstance(kind, StructType):
        fields = (field_text(field.name, type_text(field.field_type)) for field in kind.fields)
        return f"struct<{', '.join(fields)}>" if with_fields else "struct"
    told = partial(type_text, with_fields=with_fields)
    if isinstance(kind, ListType):
        return f"list<{told(kind.element_type)}>"
    if isinstance(kind, MapType):
        return f"map<{told(kind.key_type)}, {told(kind.value_type)}>"
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
    """Return the error. ``is_of_key``: a rebuild met it, which takes any type but in a column of the key."""
    column, kind, own = ".".join(path), type_text(there), type_text(written.field_type)
    if is_of_key:
        return fault("schema-incompatible.key", name=written.name, own=own, there=column, kind=kind)
    return layout.unlike(name=written.name, own=own, there=column, kind=kind, is_declared=is_declared)


# Which types hold all values of which others, and which a column can be widened to.
#
# Iceberg widens in the metadata alone: int to long, float to double, a decimal's precision.


_INTEGER_DIGITS: dict[type[IcebergType], int] = {IntegerType: 10, LongType: 19}
_NUMBERS = (IntegerType, LongType, FloatType, DoubleType, DecimalType)
_MOST_DIGITS = 38


def holds(column: IcebergType, written: IcebergType) -> bool:
    """True if every value of ``written`` is one of ``column``."""
    if column == written:
        return True
    if isinstance(column, DecimalType):
        return _whole_digits(written) <= column.precision - column.scale and _scale(written) <= column.scale
    if isinstance(written, IntegerType):
        return isinstance(column, LongType | DoubleType)
    return isinstance(written, FloatType) and isinstance(column, DoubleType)


def may_hold(column: IcebergType, written: IcebergType) -> bool:
    """True if some values of ``written`` are ones of ``column``: those that are none are found one by one."""
    if column == written or isinstance(written, FloatType):
        return holds(column, written)
    if isinstance(written, DecimalType):
        return isinstance(column, DecimalType)
    return isinstance(written, IntegerType | LongType) and isinstance(column, _NUMBERS)


def widened(column: IcebergType, written: IcebergType) -> IcebergType | None:
    """Return what the column can be made to hold every value of both, None where Iceberg cannot."""
    if isinstance(column, IntegerType) and isinstance(written, LongType):
        return LongType()
    if isinstance(column, FloatType) and isinstance(written, DoubleType):
        return DoubleType()
    if isinstance(column, DecimalType) and _scale(written) <= column.scale:
        digits = max(column.precision, _whole_digits(written) + column.scale)
        return DecimalType(digits, column.scale) if digits <= _MOST_DIGITS else None
    return None


def _whole_digits(kind: IcebergType) -> int:
    """Return how many digits before the point its values have at most; more than any for no exact number."""
    if isinstance(kind, DecimalType):
        return kind.precision - kind.scale
    return _INTEGER_DIGITS.get(type(kind), _MOST_DIGITS + 1)


def _scale(kind: IcebergType) -> int:
    return kind.scale if isinstance(kind, DecimalType) else 0

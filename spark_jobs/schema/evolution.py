"""Evolution of a table's schema: what it lacks for records, its schema after that, and widening."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from pyiceberg.schema import Schema, assign_fresh_schema_ids
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
    StructType,
)

from spark_jobs.protocol.progress import ColumnMap

Path = tuple[str, ...]
Binding = tuple[str, str, Path]


@dataclass(slots=True)
class Evolution:
    """Schema changes, by path from the top; lists add ``element``, maps ``value``.

    ``bindings`` say which columns a schema's fields go into that the table does not know yet: by identity and
    kind of type the column's path.
    """

    additions: Sequence[tuple[Path, IcebergType, str | None]] = ()
    widenings: dict[Path, IcebergType] = field(default_factory=dict)
    docs: dict[Path, str] = field(default_factory=dict)
    bindings: Sequence[Binding] = ()

    def __bool__(self) -> bool:
        """True if there is anything to do."""
        return bool(self.additions or self.widenings or self.docs or self.bindings)

    def then(self, more: Evolution) -> Evolution:
        """Return these changes followed by others."""
        return Evolution(
            [*self.additions, *more.additions],
            {**self.widenings, **more.widenings},
            {**self.docs, **more.docs},
            [*self.bindings, *more.bindings],
        )

    def under(self, place: Callable[[Path], Path | None]) -> Evolution:
        """Return the changes at the paths that ``place`` gives; changes without one are dropped."""
        return Evolution(
            [(at, kind, doc) for path, kind, doc in self.additions if (at := place(path))],
            {at: kind for path, kind in self.widenings.items() if (at := place(path))},
            {at: doc for path, doc in self.docs.items() if (at := place(path))},
            [(identity, kind, at) for identity, kind, path in self.bindings if (at := place(path))],
        )

    @property
    def descriptions(self) -> Iterator[str]:
        """Yield descriptions of the changes for people, with dotted names."""
        yield from (".".join(path) for path, _, _ in self.additions)
        yield from (f"{'.'.join(path)} as {kind}" for path, kind in self.widenings.items())


def additions_of(columns: Schema) -> Evolution:
    """Return the changes that give these columns to a table without any."""
    return Evolution([((each.name,), each.field_type, each.doc) for each in columns.fields])


def evolved(schema: Schema, evolution: Evolution, ids: Iterator[int] | None = None) -> Schema:
    """Return the schema with these changes; without ``ids``, new columns have provisional ids."""
    ids = count(schema.highest_field_id + 1) if ids is None else ids
    return Schema(*_evolved(schema.as_struct(), (), evolution, ids).fields)


def exchanged(schema: Schema, types: Mapping[str, IcebergType], ids: Iterator[int]) -> Schema:
    """Return the schema with columns replaced by columns of these types and ids, under the same names."""
    return Schema(
        *(
            _new(each.name, types[each.name], each.doc, ids) if each.name in types else each
            for each in schema.fields
        )
    )


def bind(bound: ColumnMap, bindings: Iterable[Binding], table: Schema) -> ColumnMap:
    """Return the map with bindings to existing columns appended."""
    ids = dict(_ids(table.as_struct(), ()))
    made = {identity: dict(kinds) for identity, kinds in bound.items()}
    for identity, kind, path in bindings:
        kinds = made.setdefault(identity, {})
        before = kinds.get(kind, ())
        if path in ids and ids[path] not in before:
            kinds[kind] = (*before, ids[path])
    return made


def moved(bound: ColumnMap, before: NestedField, after: NestedField) -> ColumnMap:
    """Return the map with one column's fields, nested ones included, bound to another column.

    What the other has no field for, by name, is bound to nothing: it gets one as a new field does.
    """
    now = {path[1:]: field_id for path, field_id in _ids(StructType(after), ())}
    ids = {field_id: now.get(path[1:]) for path, field_id in _ids(StructType(before), ())}
    kept: ColumnMap = {}
    for identity, kinds in bound.items():
        for kind, columns in kinds.items():
            places = (ids.get(column, column) for column in columns)
            places_left = tuple(dict.fromkeys(place for place in places if place is not None))
            kept.setdefault(identity, {}).update({kind: places_left} if places_left else {})
    return kept


def innermost(kind: IcebergType, path: Path) -> tuple[IcebergType, Path]:
    """Return the innermost type of lists and maps, and its path."""
    while isinstance(kind, ListType | MapType):
        step, kind = (
            ("element", kind.element_type) if isinstance(kind, ListType) else ("value", kind.value_type)
        )
        path = (*path, step)
    return kind, path


def _evolved(struct: StructType, path: Path, evolution: Evolution, ids: Iterator[int]) -> StructType:
    fields = [*struct.fields]
    for added, kind, doc in evolution.additions:
        if added[:-1] == path:
            fields.append(_new(added[-1], kind, doc, ids))
    return StructType(*(_changed(each, (*path, each.name), evolution, ids) for each in fields))


def _new(name: str, kind: IcebergType, doc: str | None, ids: Iterator[int]) -> NestedField:
    """Return a column with ids from ``ids``, nested ones included."""
    new = Schema(NestedField(0, name, kind, required=False, doc=doc))
    return assign_fresh_schema_ids(new, lambda: next(ids)).fields[0]


def _changed(of: NestedField, path: Path, evolution: Evolution, ids: Iterator[int]) -> NestedField:
    kind = _widened(of.field_type, path, evolution, ids)
    doc = evolution.docs.get(path, of.doc)
    return NestedField(of.field_id, of.name, kind, required=of.required, doc=doc)


def _widened(kind: IcebergType, path: Path, evolution: Evolution, ids: Iterator[int]) -> IcebergType:
    if isinstance(kind, StructType):
        return _evolved(kind, path, evolution, ids)
    if isinstance(kind, ListType):
        element = _widened(kind.element_type, (*path, "element"), evolution, ids)
        return ListType(kind.element_id, element, element_required=kind.element_required)
    if isinstance(kind, MapType):
        value = _widened(kind.value_type, (*path, "value"), evolution, ids)
        return MapType(kind.key_id, kind.key_type, kind.value_id, value, value_required=kind.value_required)
    return evolution.widenings.get(path, kind)


def _ids(struct: StructType, path: Path) -> Iterator[tuple[Path, int]]:
    for each in struct.fields:
        here = (*path, each.name)
        yield here, each.field_id
        inner, inner_path = innermost(each.field_type, here)
        if isinstance(inner, StructType):
            yield from _ids(inner, inner_path)


# Which types hold all values of which others, and which a column can be widened to.
#
# Iceberg widens in the metadata alone: int to long, float to double, a decimal's precision.


_INTEGER_DIGITS: dict[type[IcebergType], int] = {IntegerType: 10, LongType: 19}
_NUMBERS = (IntegerType, LongType, FloatType, DoubleType, DecimalType)
_MOST_DIGITS = 38


def holds(column: IcebergType, written: IcebergType) -> bool:
    """True if ``column`` can hold every value of ``written``."""
    if column == written:
        return True
    if isinstance(column, DecimalType):
        return _whole_digits(written) <= column.precision - column.scale and _scale(written) <= column.scale
    if isinstance(written, IntegerType):
        return isinstance(column, LongType | DoubleType)
    return isinstance(written, FloatType) and isinstance(column, DoubleType)


def may_hold(column: IcebergType, written: IcebergType) -> bool:
    """True if ``column`` can hold some values of ``written``; the others are found one by one."""
    if column == written or isinstance(written, FloatType):
        return holds(column, written)
    if isinstance(written, DecimalType):
        return isinstance(column, DecimalType)
    return isinstance(written, IntegerType | LongType) and isinstance(column, _NUMBERS)


def widened(column: IcebergType, written: IcebergType) -> IcebergType | None:
    """Return the narrowest widening of the column for every value of both, or None if Iceberg has none."""
    if isinstance(column, IntegerType) and isinstance(written, LongType):
        return LongType()
    if isinstance(column, FloatType) and isinstance(written, DoubleType):
        return DoubleType()
    if isinstance(column, DecimalType) and _scale(written) <= column.scale:
        digits = max(column.precision, _whole_digits(written) + column.scale)
        return DecimalType(digits, column.scale) if digits <= _MOST_DIGITS else None
    return None


def _whole_digits(kind: IcebergType) -> int:
    """Return the most digits before the point; larger than any decimal's for inexact numbers."""
    if isinstance(kind, DecimalType):
        return kind.precision - kind.scale
    return _INTEGER_DIGITS.get(type(kind), _MOST_DIGITS + 1)


def _scale(kind: IcebergType) -> int:
    return kind.scale if isinstance(kind, DecimalType) else 0

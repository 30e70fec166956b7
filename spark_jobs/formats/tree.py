"""A schema's types as a language-independent tree, and the tree as columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice, product
from typing import Any, Generic, TypeAlias, TypeVar

from pyiceberg.schema import Schema, index_by_name
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StringType, StructType

from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.schema.iceberg_types import declared_type
from spark_jobs.schema.inference import Field as Column
from spark_jobs.schema.inference import Primitive, by_lower_case, name_clash
from spark_jobs.schema.writer_schema import Form, Forms, WriterColumns

# Parquet's reader opens no file with a column of more than a hundred levels, of which a list takes two.
MAX_NESTING = 40
# What is reached in two ways doubles with every level.
_MOST_TYPES = 10_000
_MOST_OLD_PATHS = 16
_Type = TypeVar("_Type")
_Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Field(Generic[_Type]):
    """A record's field, its name and its aliases. Fields are equal if they are read alike."""

    name: str
    type: _Type
    doc: str | None = field(default=None, compare=False)
    aliases: tuple[str, ...] = field(default=(), compare=False)

    @property
    def key(self) -> str:
        """Identity among schemas of the same kind."""
        return self.name

    def note(self, *, is_top: bool) -> str | None:  # noqa: ARG002
        """Return the column's documentation, or an empty text."""
        return None


_Field = TypeVar("_Field", bound=Field[Any])


@dataclass(frozen=True, slots=True)
class Record(Generic[_Field]):
    """A record; fields are in declaration order."""

    fields: tuple[_Field, ...]


@dataclass(frozen=True, slots=True)
class Array(Generic[_Type]):
    """An array of items of one type."""

    items: _Type


@dataclass(frozen=True, slots=True)
class Map(Generic[_Type]):
    """A map; keys are distinct and of the type ``key``, or text."""

    values: _Type
    key: Any = None


def fields_in_forms(
    fields: Iterable[_Field], by_name: Forms, in_form: Callable[[_Field, Form], Any]
) -> tuple[_Field, ...]:
    """Return the fields with the types that ``in_form`` gives for configured forms."""
    forms = dict(by_name)
    return tuple(
        replace(each, type=in_form(each, forms[each.name])) if each.name in forms else each for each in fields
    )


@dataclass
class Bounded:
    """Counts the types of a schema while it is expanded."""

    _types: int = field(default=0, init=False)

    def count(self, path: Sequence[str], levels: int) -> None:
        """Raise ``ConfigError`` (``schema-unsupported``) if a table's schema may not have one more type."""
        self._types += 1
        if self._types > _MOST_TYPES or levels > MAX_NESTING:
            raise fault(
                "schema-unsupported.types" if self._types > _MOST_TYPES else "schema-unsupported.nesting",
                most=_MOST_TYPES if self._types > _MOST_TYPES else MAX_NESTING,
                field=".".join(path) or None,
            )


def unreadable(language: str, why: str | Exception, **where: object) -> SluiceError:
    """Return the reason why a text is not a usable schema."""
    reason = why if isinstance(why, str) else f"{type(why).__name__}: {why}"[:300]
    return fault("schema-unreadable", language=language, why=reason, **where)


def columns_of(
    fields: Iterable[Field[Any]],
    column: Callable[[Any], Any],
    hint: str,
    *,
    message: str = "",
    is_whole: bool = False,
    are_names_free: bool = False,
) -> WriterColumns:
    """Return a schema's fields as columns; their identities begin with ``message``.

    ``column`` gives of a type of the language the name of its column's type, None where that holds JSON
    text, or one of the types above. Raises ``ConfigError`` (``schema-unsupported``), with the hint, for names
    that cannot stand beside each other in a table; where they ``are_names_free``, only for what no path
    tells apart.
    """
    build = _Columns(column, hint, message, are_names_free)
    struct = StructType(*build.fields(fields, (), ((),)))
    try:
        index_by_name(Schema(*struct.fields))
    except ValueError as error:
        raise build.unnamed(str(error)) from error
    as_text = tuple(build.as_text)
    return WriterColumns(
        struct, build.identities, build.aliases, as_text, is_whole=is_whole, notes=build.notes
    )


@dataclass
class _Columns:
    """Builds columns; ``path`` is of column names, ``old`` are all key paths, today's first."""

    column: Callable[[Any], Any]
    hint: str
    message: str
    are_names_free: bool
    identities: dict[int, str] = field(default_factory=dict)
    aliases: dict[int, tuple[str, ...]] = field(default_factory=dict)
    as_text: list[str] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    _ids: Iterator[int] = field(default_factory=lambda: count(1))

    def fields(
        self, fields: Iterable[Field[Any]], path: _Path, old: Sequence[_Path]
    ) -> Iterator[NestedField]:
        fields = [*fields]
        if not self.are_names_free:
            self._check([each.name for each in fields], path)
        for each in fields:
            field_id, here = next(self._ids), (*path, each.name)
            ways = product(old, (each.key, *each.aliases))
            known = [*islice(((*way, key) for way, key in ways), _MOST_OLD_PATHS)]
            self.identities[field_id] = self.message + ".".join(known[0])
            if len(known) > 1:
                self.aliases[field_id] = tuple(".".join(way) for way in known if way != known[0])
            if note := each.note(is_top=not path):
                self.notes[".".join(here)] = note
            yield NestedField(field_id, each.name, self._type(each.type, here, known), False, each.doc)

    def _type(self, kind: Any, path: _Path, old: Sequence[_Path]) -> IcebergType:
        match self.column(kind):
            case Record(fields):
                return StructType(*self.fields(fields, path, old))
            case Array(items):
                return ListType(next(self._ids), self._inner(items, path, old, "element"), False)
            case Map(values, key):
                key_type = StringType() if key is None else declared_type(self.column(key))
                key_id, value_id = next(self._ids), next(self._ids)
                return MapType(key_id, key_type, value_id, self._inner(values, path, old, "value"), False)
            case str() as name:
                return declared_type(name)
        self.as_text.append(".".join(path))
        return StringType()

    def _inner(self, kind: Any, path: _Path, old: Sequence[_Path], step: str) -> IcebergType:
        return self._type(kind, (*path, step), [(*way, step) for way in old])

    def _check(self, names: Sequence[str], path: _Path) -> None:
        times = Counter(names)
        siblings = by_lower_case(Column(name, Primitive.STRING) for name in times)
        for name in names:
            clash = name_clash(name, siblings, is_top=not path)
            if clash is None and "." in name:
                clash = f"{name} has a dot"
            if clash is None and times[name] > 1:
                clash = f"{name} is there twice"
            if clash is not None:
                raise self.unnamed(clash, ".".join(path) or None)

    def unnamed(self, why: str, field: str | None = None) -> SluiceError:
        return fault("schema-unsupported.names", why=why, hint=self.hint, field=field)

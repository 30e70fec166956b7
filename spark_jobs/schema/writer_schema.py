"""The interface between schema languages and readers of records: columns, and values read.

Where schemas come from is no matter here: a registry, or files beside ``sluice.yaml``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.types import StructType

    from spark_jobs.schema.evidence import Evidence


# Of a struct's fields in order: the field's name, that of its column, and the same of the struct inside it.
Names: TypeAlias = "tuple[tuple[str, str, Names], ...]"


# What is said of a time that no column of times holds: how it gets in, which is for a person to say.
FINER_THAN_COLUMN = (
    "finer than a microsecond: declare the column string, or long where its source has a number, or set"
    " `fit: truncate`"
)


class Language(StrEnum):
    """Language of a schema, by its registry name."""

    AVRO = "AVRO"
    PROTOBUF = "PROTOBUF"
    JSON_SCHEMA = "JSON"


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A schema's original text, and those of all schemas that it refers to, at any depth.

    ``references`` are pairs of the name by which it is referred to and its text, each after those it refers
    to itself.
    """

    language: Language
    text: str
    references: tuple[tuple[str, str], ...] = ()

    @property
    def digest(self) -> str:
        """Return the SHA-256 of all texts, in hex: equal digests read every value alike."""
        content = json.dumps([self.language, self.text, self.references])
        return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class WriterColumns:
    """A schema's fields as optional columns, with the fields' ``doc``.

    Field ids are provisional and unique. ``identities`` say by field id what a struct's field is known by
    among schemas of its kind: its path of names (Avro, JSON Schema) or numbers (Protobuf), dotted, with
    ``element``, ``key`` or ``value`` where it passes a list or a map; before numbers stand the message's full
    name and a colon. ``aliases`` are other paths that it was known by. ``as_text`` are dotted names of
    columns that hold JSON text, because a type meets itself there, or no one type holds what is there. With
    ``is_whole`` the values are no records, and the one column is all of them. ``notes`` are for people.
    """

    struct: StructType
    identities: Mapping[int, str]
    aliases: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    as_text: tuple[str, ...] = ()
    is_whole: bool = False
    notes: Mapping[str, str] = field(default_factory=dict)


class UnreadableValueError(ValueError):
    """A value that violates the schema or fits no column; ``field`` None means the whole value."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class NoRowError(UnreadableValueError):
    """A valid value without a row; the message is its term in a batch's balance."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A value that cannot be read: its index, the dotted field (None: the whole value), the reason."""

    index: int
    field: str | None
    error: str


@dataclass(frozen=True, slots=True)
class ReadValues:
    """Values as rows, in their order, and those that cannot be rows.

    ``table`` has the columns of ``WriterColumns.struct``, of the types ``arrow_schema`` gives them. ``rows``
    are the indices of its values, None when it is all of them. ``ignored`` counts fields that the schema
    does not know, by identity, where they may be passed over. ``passed`` are the values that say nothing of
    a row, by the balance's term. With ``new_fields``, for which a table has room, none is read.
    """

    table: pa.Table
    rows: list[int] | None = None
    unread: tuple[Unread, ...] = ()
    ignored: Mapping[str, int] = field(default_factory=dict)
    passed: Mapping[str, Sequence[int]] = field(default_factory=dict)
    new_fields: Evidence | None = None

    @property
    def indices(self) -> Sequence[int]:
        """The indices of the values in ``table``."""
        return range(self.table.num_rows) if self.rows is None else self.rows


class WriterSchema(Protocol):
    """A schema that values are written with. Pickled to Spark's tasks: a frozen dataclass."""

    def __hash__(self) -> int:
        """Return equal hashes for schemas that read every value alike."""

    @property
    def columns(self) -> WriterColumns:
        """Return the schema's fields as columns; a schema that is not a record has one, ``value``."""

    @property
    def reading(self) -> object:
        """Return a key that is equal, and hashed alike, for schemas that read every value alike."""

    def read(self, values: Sequence[bytes]) -> ReadValues:
        """Return each unframed value as a correct row or as unread; none is changed, cut or left out.

        Whatever the bytes: no other exception, no panic, bounded time and memory.
        """

    def read_plain(self, value: bytes) -> Mapping[str, Any]:
        """Return one value by column, read independently of ``read``, for ``arrow_schema.column_of``.

        Raises ``UnreadableValueError`` where ``read`` says unread, ``NoRowError`` where it says passed,
        and nowhere else.
        """


# How times are told in columns that a person declared text or numbers, with all of their digits.


_NANOS = 1_000_000_000
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  (local, or by the zone behind it)
_Schema = TypeVar("_Schema")


class Form(StrEnum):
    """Form in which a time is written, if not as a time."""

    TEXT = "text"
    NUMBER = "number"


# By field, of those that are a value's own.
Forms: TypeAlias = tuple[tuple[str, Form], ...]


def under(schema: _Schema, forms: Forms) -> _Schema:
    """Return the schema with these forms for its times; a schema that is not a record has no fields."""
    of_it: Any = schema
    return replace(of_it, forms=forms) if hasattr(schema, "forms") else schema


def instant_text(nanos: int, zone: str = "Z") -> str:
    """Return a time since 1970 in ISO 8601. Raises ``UnreadableValueError``."""
    seconds, rest = divmod(nanos, _NANOS)
    try:
        whole = _EPOCH + timedelta(seconds=seconds)
    except OverflowError as error:
        raise UnreadableValueError("a time outside the years 1 to 9999") from error
    return f"{whole.isoformat()}{_fraction(rest)}{zone}"


def clock_text(nanos: int) -> str:
    """Return a time of day as text; it may be negative or exceed a day."""
    seconds, rest = divmod(abs(nanos), _NANOS)
    sign = "-" if nanos < 0 else ""
    return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{_fraction(rest)}"


def seconds_text(nanos: int) -> str:
    """Return a duration as text."""
    seconds, rest = divmod(abs(nanos), _NANOS)
    return f"{'-' if nanos < 0 else ''}{seconds}{_fraction(rest)}s"


def _fraction(nanos: int) -> str:
    """Return the fraction as a point and three, six or nine digits, or an empty text for zero."""
    digits = f"{nanos:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}" if digits else ""

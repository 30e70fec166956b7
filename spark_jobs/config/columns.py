"""Setting ``columns``: types of columns and sources of their values. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, model_validator

from spark_jobs.config.iceberg_terms import check_type_name, split_arguments, split_field
from spark_jobs.config.problems import wrong_value
from spark_jobs.config.values import ColumnName, Frozen, TypeName, choice, key, parsed

_SOURCES = {"sql": "sql", "jmespath": "jmespath", "from": "written_as", "fit": "fit"}
_DUCKDB_NAMES = {
    "long": "BIGINT",
    "int": "INTEGER",
    "string": "VARCHAR",
    "float": "FLOAT",
    "binary": "BLOB",
    "timestamptz": "TIMESTAMPTZ",
}


class FieldForm(StrEnum):
    """Form of a record's field that must be converted to its column's type."""

    TEXT = "text"
    EPOCH_S = "epoch_s"
    EPOCH_MS = "epoch_ms"
    EPOCH_US = "epoch_us"
    NUMBER = "number"
    JSON = "json"

    @property
    def is_epoch(self) -> bool:
        """True if it is a time, as an integer since 1970 (UTC)."""
        return self in _UNITS

    @property
    def unit_us(self) -> int:
        """Return the microseconds per unit, for times."""
        return _UNITS[self]

    def makes(self, kind: str) -> bool:
        """Return True if it can be converted to this Iceberg type."""
        return kind.partition("(")[0].strip() in _MADE[self]


_UNITS = {FieldForm.EPOCH_S: 1_000_000, FieldForm.EPOCH_MS: 1_000, FieldForm.EPOCH_US: 1}
_OF_EPOCHS = ("timestamptz", "timestamp", "date")
_MADE: dict[FieldForm, tuple[str, ...]] = {
    FieldForm.TEXT: (
        *("int", "long", "float", "double", "decimal", "boolean"),
        *("date", "time", "timestamp", "timestamptz", "uuid"),
    ),
    **dict.fromkeys(_UNITS, _OF_EPOCHS),
    FieldForm.NUMBER: ("string", "decimal", "double", "boolean", "long", "int"),
    FieldForm.JSON: ("string",),
}


class Fit(StrEnum):
    """Handling of a value that the column cannot hold exactly."""

    TRUNCATE = "truncate"


_TRUNCATED = ("timestamptz", "timestamp", "time")


class ColumnSettings(Frozen):
    """A declared column: its type and the source of its values."""

    type: TypeName = key(..., "Iceberg type.")
    sql: Annotated[str, parsed(str)] | None = key(
        None, "DuckDB expression over one record that computes the column (docs/reference/expressions.md)."
    )
    jmespath: Annotated[str, parsed(str)] | None = key(
        None, "JMESPath expression on the record's JSON document that computes the column."
    )
    written_as: Annotated[FieldForm, choice(FieldForm)] | None = key(
        None, "Form of the record's field of this name. It is converted exactly.", alias="from"
    )

    fit: Annotated[Fit, choice(Fit)] | None = key(
        None, "`truncate`: cut times to microseconds, towards the past."
    )

    @property
    def is_computed(self) -> bool:
        """True if the column is computed by an expression."""
        return self.sql is not None or self.jmespath is not None

    @property
    def source(self) -> str:
        """Return the source of its values as text; empty for a plain field."""
        return ", ".join(f"{name}: {getattr(self, _SOURCES[name])}" for name in self._sources)

    @property
    def _sources(self) -> list[str]:
        return [name for name, attribute in _SOURCES.items() if getattr(self, attribute) is not None]

    @model_validator(mode="after")
    def _check(self) -> ColumnSettings:
        sources = self._sources
        if len(sources) > 1:
            raise wrong_value("both-sources", one=sources[0], other=sources[1])
        if self.written_as is not None and not self.written_as.makes(self.type):
            made = ", ".join(_MADE[self.written_as])
            raise wrong_value("not-made-from", type=self.type, form=self.written_as, made=made)
        if self.fit is not None and self.type not in _TRUNCATED:
            raise wrong_value("not-truncated", type=self.type, truncated=", ".join(_TRUNCATED))
        return self


class LetterColumn(Frozen):
    """An additional column of the dead-letter table: its type and expression."""

    type: TypeName = key(..., "Iceberg type.")
    sql: Annotated[str, parsed(str)] = key(
        ...,
        "DuckDB expression over one dead letter that computes the column (docs/reference/expressions.md).",
    )


def _read(value: object) -> object:
    if not isinstance(value, str):
        return value
    check_type_name(value)
    return ColumnSettings(type=value)


# A type alone stays a text in the file: the key of its mistake is the column's.
Columns = dict[ColumnName, Annotated[ColumnSettings, BeforeValidator(_read)]]


def from_text(columns: Mapping[str, ColumnSettings]) -> dict[str, ColumnSettings]:
    """Return the columns of a text-only format: columns of other types are converted from text."""
    return {
        name: each.model_copy(update={"written_as": FieldForm.TEXT})
        if not each.source and FieldForm.TEXT.makes(each.type)
        else each
        for name, each in columns.items()
    }


def duckdb_type(kind: str) -> str:
    """Return the DuckDB type of a column of this (checked) Iceberg type."""
    name, bracket, rest = kind.strip().partition("<")
    if not bracket:
        return "BLOB" if re.match("fixed", name) else _DUCKDB_NAMES.get(name, name)
    arguments = split_arguments(rest.rstrip()[:-1])
    if name.strip() == "struct":
        fields = (split_field(argument) for argument in arguments)
        return f"STRUCT({', '.join(_struct_field(*field) for field in fields if field)})"
    inside = [duckdb_type(argument) for argument in arguments]
    return f"{inside[0]}[]" if name.strip() == "list" else f"MAP({', '.join(inside)})"


def _struct_field(name: str, kind: Any) -> str:
    return '"{}" {}'.format(name.replace('"', '""'), duckdb_type(kind))


# What becomes of fields that a table has no column for, and how wide a table may grow.


class NewFields(StrEnum):
    """Handling of a field without a column."""

    ADD = "add"
    IGNORE = "ignore"
    DEAD_LETTER = "dead_letter"


class Incompatible(StrEnum):
    """Handling of a schema's field whose values do not fit its column."""

    NEW_COLUMN = "new_column"
    DEAD_LETTER = "dead_letter"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Growth:
    """Rules for new fields of a table; fields inside structs count, Sluice's own columns do not.

    With ``is_by_schema`` there are no new fields: values only have the fields of their schema.
    """

    new_fields: NewFields = NewFields.ADD
    max_columns: int = 1000
    has_ended: bool = False
    is_by_schema: bool = False

    @property
    def room(self) -> int:
        """Return the number of columns up to which a table may get another."""
        return self.max_columns if self.new_fields is NewFields.ADD and not self.has_ended else 0

    @property
    def ignores(self) -> bool:
        """True if fields without a column are dropped."""
        return self.new_fields is NewFields.IGNORE

    @property
    def max_fields_seen(self) -> int:
        """Return the maximum number of fields for which evidence is kept, to bound memory."""
        return 4 * self.max_columns

    def ended(self) -> Growth:
        """Return the same rules for a table that gets no more columns or schemas."""
        return replace(self, has_ended=True)


GROWTH = Growth()

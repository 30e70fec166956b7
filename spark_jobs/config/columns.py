"""``columns:`` of ``sluice.yaml``: a column's type, and where its values come from. Pure."""

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
    """What a record's field is written as, where a column of its type would not take it."""

    TEXT = "text"
    EPOCH_S = "epoch_s"
    EPOCH_MS = "epoch_ms"
    EPOCH_US = "epoch_us"
    NUMBER = "number"
    JSON = "json"

    @property
    def is_epoch(self) -> bool:
        """True if it is a time as a whole number since 1970, UTC."""
        return self in _UNITS

    @property
    def unit_us(self) -> int:
        """Microseconds of one, of those that are times."""
        return _UNITS[self]

    def makes(self, kind: str) -> bool:
        """Return whether it can be converted to this type of Iceberg's."""
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
    """What is done to a value that the column does not hold exactly."""

    TRUNCATE = "truncate"


_TRUNCATED = ("timestamptz", "timestamp", "time")


class ColumnSettings(Frozen):
    """A declared column: its type alone, or a map with where its values come from."""

    type: TypeName = key(..., "Its Iceberg type.")
    sql: Annotated[str, parsed(str)] | None = key(
        None,
        "A DuckDB expression over one record that gives the column (docs/how-to/shape-rows.md).",
    )
    jmespath: Annotated[str, parsed(str)] | None = key(
        None, "A JMESPath on the record's JSON document that gives the column."
    )
    written_as: Annotated[FieldForm, choice(FieldForm)] | None = key(
        None, "What the record's field of this name is written as; it is converted exactly.", alias="from"
    )

    fit: Annotated[Fit, choice(Fit)] | None = key(
        None, "Of a time that is finer than a microsecond, `truncate` cuts off what is, towards the past."
    )

    @property
    def is_computed(self) -> bool:
        """True if no field of a record goes into the column."""
        return self.sql is not None or self.jmespath is not None

    @property
    def source(self) -> str:
        """Return where its values come from, for people; nothing of one that is a field as it is."""
        return ", ".join(f"{name}: {getattr(self, _SOURCES[name])}" for name in self._said)

    @property
    def _said(self) -> list[str]:
        return [name for name, attribute in _SOURCES.items() if getattr(self, attribute) is not None]

    @model_validator(mode="after")
    def _check(self) -> ColumnSettings:
        said = self._said
        if len(said) > 1:
            raise wrong_value("both-sources", one=said[0], other=said[1])
        if self.written_as is not None and not self.written_as.makes(self.type):
            made = ", ".join(_MADE[self.written_as])
            raise wrong_value("not-made-from", type=self.type, form=self.written_as, made=made)
        if self.fit is not None and self.type not in _TRUNCATED:
            raise wrong_value("not-truncated", type=self.type, truncated=", ".join(_TRUNCATED))
        return self


class LetterColumn(Frozen):
    """A column of the dead-letter table: its type, and the expression that gives it."""

    type: TypeName = key(..., "Its Iceberg type.")
    sql: Annotated[str, parsed(str)] = key(
        ...,
        "A DuckDB expression over one dead letter that gives the column (docs/how-to/shape-rows.md).",
    )


def _read(value: object) -> object:
    if not isinstance(value, str):
        return value
    check_type_name(value)
    return ColumnSettings(type=value)


# A type alone stays a text in the file: the key of its mistake is the column's.
Columns = dict[ColumnName, Annotated[ColumnSettings, BeforeValidator(_read)]]


def from_text(columns: Mapping[str, ColumnSettings]) -> dict[str, ColumnSettings]:
    """Return the columns of a format that has text alone: each of another type is made of it."""
    return {
        name: each.model_copy(update={"written_as": FieldForm.TEXT})
        if not each.source and FieldForm.TEXT.makes(each.type)
        else each
        for name, each in columns.items()
    }


def duckdb_type(kind: str) -> str:
    """Return the type of DuckDB's that a column of this checked type of Iceberg's is."""
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
    """What becomes of a record's field that has no column."""

    ADD = "add"
    IGNORE = "ignore"
    DEAD_LETTER = "dead_letter"


class Incompatible(StrEnum):
    """What becomes of a schema's field whose values its column does not hold."""

    NEW_COLUMN = "new_column"
    DEAD_LETTER = "dead_letter"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Growth:
    """How a table takes new fields; fields inside structs are counted, Sluice's own columns are not.

    With ``is_by_schema`` there are none: values say only what their schema names.
    """

    new_fields: NewFields = NewFields.ADD
    max_columns: int = 1000
    has_ended: bool = False
    is_by_schema: bool = False

    @property
    def room(self) -> int:
        """How many columns a table may have and still get another."""
        return self.max_columns if self.new_fields is NewFields.ADD and not self.has_ended else 0

    @property
    def ignores(self) -> bool:
        """True if a record is a row although it says more than the row."""
        return self.new_fields is NewFields.IGNORE

    @property
    def max_fields_seen(self) -> int:
        """Of how many fields evidence is kept: who sends more than can be columns must not fill memory."""
        return 4 * self.max_columns

    def ended(self) -> Growth:
        """Return the same for a table that gets no more columns, nor schemas to read by."""
        return replace(self, has_ended=True)


GROWTH = Growth()

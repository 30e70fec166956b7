"""What a pipeline's rows are beside their fields: converted ones, columns by expressions, a filter, a route.

What a record becomes depends on the record, the configuration and the table's columns, never on the records
beside it. Drain, preview, audit and replay all make their rows here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.config.columns import ColumnSettings, FieldForm
from spark_jobs.config.value_format import ValueFormat
from spark_jobs.schema.told import Form, Forms

if TYPE_CHECKING:
    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.expressions.judging import Expression

# Their names among columns, none of which is called so.
FILTER = ""
_FORMS = {"string": Form.TEXT, "long": Form.NUMBER}
ROUTE = "\0"


@dataclass(frozen=True)
class Shaping:
    """What is done to decoded records; it travels to tasks with their work.

    ``columns`` are those that a field as it is does not fill; ``by`` gives the value that ``routes`` has a
    table for, None the pipeline's own. Where the table ``ignores`` fields, a name that
    is no column is one of them, of JSON its text; else it is a column that no record had a value for yet.
    ``fields`` are by column those that are called otherwise: expressions have them by their own names.
    """

    columns: Mapping[str, ColumnSettings] = field(default_factory=dict)
    condition: str | None = None
    is_json: bool = True
    ignores: bool = False
    by: str | None = None
    routes: Mapping[str, str | None] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def computed(self) -> frozenset[str]:
        """The columns that no decoder fills."""
        of_documents = {FieldForm.NUMBER, FieldForm.JSON} if self.is_json else set()
        return frozenset(
            name
            for name, column in self.columns.items()
            if column.is_computed or column.written_as in of_documents
        )

    @property
    def converted(self) -> frozenset[str]:
        """The columns that are fields in another form."""
        return frozenset(name for name, column in self.columns.items() if column.written_as or column.fit)

    @cached_property
    def elsewhere(self) -> frozenset[str]:
        """The fields of JSON that a decoder passes over, with a column or without: they are read here."""
        used = {name for each in (*self.first_pass.values(), *self.of_rows.values()) for name in each.names}
        return self.computed | (used if self.ignores else set())

    @cached_property
    def expressions(self) -> dict[str, Expression]:
        """Those in SQL, by column."""
        return {name: _judged(each.sql) for name, each in self.columns.items() if each.sql is not None}

    @cached_property
    def filter(self) -> Expression | None:
        """The one that is true of records that are rows."""
        return None if self.condition is None else _judged(self.condition)

    @cached_property
    def of_rows(self) -> dict[str, Expression]:
        """The filter and the route, by the names that they have among columns."""
        route = {} if self.by is None else {ROUTE: _judged(self.by)}
        return route if self.filter is None else {FILTER: self.filter, **route}

    @cached_property
    def first_pass(self) -> dict[str, Expression]:
        """The columns' expressions, and what is said of rows without a column that is made by one."""
        made = {name.lower() for name, column in self.columns.items() if column.is_computed}
        return self.expressions | {
            name: each
            for name, each in self.of_rows.items()
            if not any(used.lower() in made for used in each.names)
        }

    def is_text(self, name: str) -> bool:
        """Return whether a name that is no column in an expression is a field's text."""
        return self.is_json and (self.ignores or name in self.computed)

    def decoded(self, columns: pa.Schema) -> pa.Schema:
        """Return the columns that a decoder fills, in the types that the records are written in."""
        if not self.columns:
            return columns
        return pa.schema([self.written(column) for column in columns if column.name not in self.computed])

    def written(self, column: pa.Field) -> pa.Field:
        """Return the column that a decoder fills for this one."""
        if (said := self.columns.get(column.name)) is None:
            return column
        form = said.written_as
        if form is FieldForm.TEXT or said.fit is not None:
            return column.with_type(pa.string())
        if form is not None and (form.is_epoch or pa.types.is_boolean(column.type)):
            return column.with_type(pa.int64())
        return column

    @property
    def is_nothing(self) -> bool:
        """True if records are rows as they are decoded."""
        return not self.columns and self.condition is None and self.by is None


NO_SHAPING = Shaping()


def shaping_of(pipeline: PipelineConfig) -> Shaping:
    """Return what is done to the pipeline's decoded records."""
    return Shaping(
        {name: column for name, column in pipeline.columns.items() if column.source},
        pipeline.filter,
        pipeline.value.format is ValueFormat.JSON and pipeline.envelope is None,
        pipeline.table_schema.growth.ignores,
        pipeline.route.by,
        {value: None if table == pipeline.table else table for value, table in pipeline.route.tables.items()},
    )


def told_of(pipeline: PipelineConfig) -> Forms:
    """Return how times are read that are no times in the table; one that is truncated is read as text."""
    forms = {
        name: Form.TEXT if column.fit else _FORMS.get(column.type)
        for name, column in pipeline.columns.items()
        if not column.is_computed and column.written_as is None
    }
    return tuple((name, form) for name, form in sorted(forms.items()) if form is not None)


def _judged(sql: str) -> Expression:
    # DuckDB, which workers need for expressions alone.
    from spark_jobs.expressions.judging import judge  # noqa: PLC0415

    return judge(sql)

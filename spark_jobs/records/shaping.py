"""What a pipeline's rows are beside their fields: converted ones, columns by expressions, a filter.

What a record becomes depends on the record, the configuration and the table's columns, never on the records
beside it. Drain, preview, audit and replay all make their rows here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from spark_jobs.config.columns import ColumnSettings, FieldForm
from spark_jobs.config.value_format import ValueFormat
from spark_jobs.expressions.judging import Expression, ExpressionError, first_line, judge, type_hint
from spark_jobs.expressions.results import check_condition, check_result
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.records.decoder import Decoded
from spark_jobs.records.shape import Origin, shape
from spark_jobs.records.shaped_rows import ShapedRows
from spark_jobs.schema.arrow_schema import no_rows
from spark_jobs.schema.metadata_columns import METADATA_COLUMNS, ORIGIN_COLUMNS

if TYPE_CHECKING:
    from spark_jobs.config.settings import PipelineConfig

_FILTER = ""


@dataclass(frozen=True)
class Shaping:
    """What is done to decoded records; it travels to tasks with their work.

    ``columns`` are those that a field as it is does not fill. ``is_exact``: a name that is no column is a
    field without one, of JSON its text; else it is a column that no record has had a value for yet.
    """

    columns: Mapping[str, ColumnSettings] = field(default_factory=dict)
    condition: str | None = None
    is_json: bool = True
    ignores: bool = False

    @cached_property
    def computed(self) -> frozenset[str]:
        """The columns that no decoder fills."""
        of_documents = {FieldForm.NUMBER, FieldForm.JSON} if self.is_json else set()
        return frozenset(
            name
            for name, column in self.columns.items()
            if column.is_computed or column.written_as in of_documents
        )

    @cached_property
    def elsewhere(self) -> frozenset[str]:
        """The fields of JSON that a decoder passes over, with a column or without: they are read here."""
        used = {name for each in (*self.first_pass.values(), *self.condition_alone.values()) for name in each.names}
        return self.computed | (used if self.ignores else set())

    @cached_property
    def expressions(self) -> dict[str, Expression]:
        """Those in SQL, by column."""
        return {name: judge(each.sql) for name, each in self.columns.items() if each.sql is not None}

    @cached_property
    def filter(self) -> Expression | None:
        """The one that is true of records that are rows."""
        return None if self.condition is None else judge(self.condition)

    @property
    def condition_alone(self) -> dict[str, Expression]:
        """The filter, by the name that it has among columns."""
        return {} if self.filter is None else {_FILTER: self.filter}

    @cached_property
    def first_pass(self) -> dict[str, Expression]:
        """The columns' expressions, and the filter unless it speaks of a column that is made by one."""
        made = {name.lower() for name, column in self.columns.items() if column.is_computed}
        later = self.filter is not None and any(name.lower() in made for name in self.filter.names)
        return self.expressions | ({} if later else self.condition_alone)

    def is_text(self, name: str) -> bool:
        """Return whether a name that is no column in an expression is a field's text."""
        return self.is_json and (self.ignores or name in self.computed)

    def decoded(self, columns: pa.Schema) -> pa.Schema:
        """Return the columns that a decoder fills, in the types that the records are written in."""
        return pa.schema([self._written(column) for column in columns if column.name not in self.computed])

    def shape(self, decoded: Decoded, records: Chunk, origin: Origin, schema: pa.Schema) -> Decoded:
        """Do what ``shape`` does, with what is made here, and without the records that are left out."""
        if self.columns or self.condition is not None:
            decoded = ShapedRows(self, decoded, records, origin, schema).made()
        return shape(decoded, records, origin, schema)

    def check(self, schema: pa.Schema, pipeline: str) -> Shaping:
        """Return itself when every expression goes together with the table's columns.

        Raises ``ConfigError`` (``expression-refused``).
        """
        no_columns = pa.schema([each for each in schema if each.name not in ORIGIN_COLUMNS])
        rows = ShapedRows(
            self, Decoded(no_rows(self.decoded(no_columns))), Chunk(0), Origin("", 0, 0), schema
        )
        for name, expression in (self.expressions | self.condition_alone).items():
            try:
                self._check_names(expression, schema)
                result = rows.result_type(name)
                if name:
                    check_result(result, schema.field(name).type, self.columns[name].type)
                else:
                    check_condition(result)
            except (ExpressionError, duckdb.Error) as error:
                raise _refused(name, error, pipeline) from error
        return self

    def _check_names(self, expression: Expression, schema: pa.Schema) -> None:
        known = {name.lower() for name in schema.names} - {name.lower() for name in self.expressions}
        for name in expression.names:
            if not self.is_json and self.ignores and name.lower() not in {*known, *METADATA_COLUMNS}:
                hint = "Declare it: of values with a schema, a field without a column is not read."
                raise ExpressionError(f"speaks of {name}, which has no column", hint)

    def _written(self, column: pa.Field) -> pa.Field:
        form = self.columns[column.name].written_as if column.name in self.columns else None
        if form is FieldForm.TEXT:
            return column.with_type(pa.string())
        if form is not None and (form.is_epoch or pa.types.is_boolean(column.type)):
            return column.with_type(pa.int64())
        return column


NO_SHAPING = Shaping()


def shaping_of(pipeline: PipelineConfig) -> Shaping:
    """Return what is done to the pipeline's decoded records."""
    return Shaping(
        {name: column for name, column in pipeline.columns.items() if column.source},
        pipeline.filter,
        pipeline.value.format is ValueFormat.JSON,
        pipeline.table_schema.growth.ignores,
    )


def _refused(name: str, error: Exception, pipeline: str) -> ConfigError:
    is_ours = isinstance(error, ExpressionError)
    return ConfigError(
        f"{f'columns.{name}.sql' if name else 'filter'}: {error.message if is_ours else first_line(error)}",
        code="expression-refused",
        hint=error.hint if is_ours else type_hint(error),
        pipeline=pipeline,
    )

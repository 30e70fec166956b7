"""Transforms one chunk's rows in record order: convert, compute, filter, route."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import cast

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.config.columns import ColumnSettings
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.expressions.evaluating import Evaluated, evaluate
from spark_jobs.expressions.judging import Expression, ExpressionError, first_line, type_hint
from spark_jobs.expressions.results import check_condition, check_result, check_route_value
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.records.decoder import (
    FILTER,
    ROUTE,
    STAYS,
    BadValue,
    Decoded,
    Phase,
    Routes,
    Shaping,
    shaping_of,
)
from spark_jobs.records.documents import along, from_field, texts
from spark_jobs.records.shape import Origin, origin_columns, pick, shape
from spark_jobs.schema.arrow_schema import no_rows
from spark_jobs.schema.iceberg_types import INGESTED_AT, ORIGIN_COLUMNS
from spark_jobs.values.exact import Misfits, formed, placed

MISSING, EXCLUDED = "missing", "excluded"


def shaped(shaping: Shaping, decoded: Decoded, records: Chunk, origin: Origin, schema: pa.Schema) -> Decoded:
    """Do what ``shape`` does, with computed columns and without filtered records."""
    if not shaping.is_nothing:
        decoded = _Rows(shaping, decoded, records, origin, schema).result()
    return shape(decoded, records, origin, schema)


def checked_shaping(
    pipeline: PipelineConfig, schema: pa.Schema, fields: Mapping[str, str] | None = None
) -> Shaping:
    """Return the pipeline's shaping if every expression fits the table's columns.

    Raises ``ConfigError`` (``expression-refused``).
    """
    shaping = replace(shaping_of(pipeline), fields=fields or {})
    of_values = pa.schema([each for each in schema if each.name not in ORIGIN_COLUMNS])
    rows = _Rows(shaping, Decoded(no_rows(shaping.decoded(of_values))), Chunk(0), Origin("", 0, 0), schema)
    checks = {FILTER: ("filter", check_condition), ROUTE: ("route.by", check_route_value)}
    for name, expression in (shaping.expressions | shaping.of_rows).items():
        where, check = checks.get(name, (f"columns.{name}.sql", None))
        try:
            _check_names(shaping, expression, schema)
            result = rows.result_type(name)
            if check is None:
                check_result(result, schema.field(name).type, shaping.columns[name].type)
            else:
                check(result)
        except ExpressionError as error:
            raise _refused(where, error, pipeline) from error
        except duckdb.Error as error:
            columns = {each.lower() for each in schema.names}
            has_columns = all(each.lower() in columns for each in expression.names)
            problem = ExpressionError(first_line(error), type_hint(error, has_columns=has_columns))
            raise _refused(where, problem, pipeline) from error
    return shaping


def _check_names(shaping: Shaping, expression: Expression, schema: pa.Schema) -> None:
    """Refuse a field without a column if values have a schema: such fields are not decoded."""
    if shaping.is_json or not shaping.ignores:
        return
    known = {name.lower() for name in schema.names} - {name.lower() for name in shaping.expressions}
    if (unknown := next((name for name in expression.names if name.lower() not in known), None)) is not None:
        hint = "Declare it: fields without a column are not read from values with a schema."
        raise ExpressionError(f"uses {unknown}, which has no column", hint)


def _refused(where: str, error: ExpressionError, pipeline: PipelineConfig) -> SluiceError:
    return fault(
        "expression-refused", where=where, why=error.message, hint=error.hint, pipeline=pipeline.name
    )


@dataclass
class _Rows:
    """Decoded rows and the columns computed from them; positions are those of the rows."""

    shaping: Shaping
    decoded: Decoded
    records: Chunk
    origin: Origin
    schema: pa.Schema
    _bad: dict[int, tuple[str | None, str]] = field(default_factory=dict)

    def result(self) -> Decoded:
        """Return the remaining rows with all columns except those of their origin."""
        fields, paths = self._of_fields()
        results = self._evaluated(self.shaping.first_pass, fields)
        made = fields | paths
        for name, result in results.items():
            if name not in self.shaping.of_rows:
                self._note(name, result.errors)
                values = result.values.combine_chunks()
                made[name], misfits = placed(values, self.schema.field(name).type)
                self._note(name, misfits)
        later = {name: each for name, each in self.shaping.of_rows.items() if name not in results}
        results |= self._evaluated(later, made) if later else {}
        self._refuse_nulls(made)
        kept, route = results.get(FILTER), results.get(ROUTE)
        if kept is not None:
            self._note(None, kept.errors)
        if route is not None:
            self._note_unroutable(route, kept)
        columns = pa.schema([column for column in self.schema if column.name not in ORIGIN_COLUMNS])
        rest = self._rest(self.decoded.beside(made, columns), kept and kept.values)
        if route is None:
            return rest
        values = route.values if rest.rows is None else self._values_of(rest.rows, route.values)
        return replace(rest, routes=_routes_of(self.shaping, values, rest.rows, len(self.records.offsets)))

    def result_type(self, name: str) -> pa.DataType:
        """Return the type of an expression's result. Raises ``duckdb.Error`` if it has none."""
        fields, paths = self._of_fields()
        if name not in self.shaping.of_rows:
            return self._evaluated({name: self.shaping.expressions[name]}, fields)[name].values.type
        sql = {each: pa.nulls(0, self.schema.field(each).type) for each in self.shaping.expressions}
        alone = {name: self.shaping.of_rows[name]}
        return self._evaluated(alone, fields | paths | sql)[name].values.type

    def _of_fields(self) -> tuple[dict[str, pa.Array], dict[str, pa.Array]]:
        """Return the columns that are fields in another form, and those of paths."""
        fields, paths = dict[str, pa.Array](), dict[str, pa.Array]()
        for name, column in self.shaping.columns.items():
            if column.sql is None:
                column_values, misfits = self._of_field(name, column, self.schema.field(name).type)
                (fields if column.jmespath is None else paths)[name] = column_values
                self._note(name, misfits)
        return fields, paths

    def _of_field(self, name: str, column: ColumnSettings, kind: pa.DataType) -> tuple[pa.Array, Misfits]:
        if column.jmespath is not None:
            return along(column.jmespath, self._values, kind)
        if column.written_as is not None and name in self.shaping.computed:
            return from_field(column.written_as, name, self._values, kind)
        return formed(self.decoded.table.column(name).combine_chunks(), column, kind)

    def _evaluated(
        self, expressions: Mapping[str, Expression], made: Mapping[str, pa.Array]
    ) -> dict[str, Evaluated]:
        names = {name for each in expressions.values() for name in each.names}
        chunk = self._inputs(names, made)
        route = expressions.get(ROUTE)
        if route is not None and route.is_column and pa.types.is_string(chunk.column(route.names[0]).type):
            # What most routes are needs no query.
            others = {name: each for name, each in expressions.items() if name != ROUTE}
            return self._evaluated(others, made) | {ROUTE: Evaluated(chunk.column(route.names[0]))}
        return evaluate({name: each.sql for name, each in expressions.items()}, chunk)

    def _inputs(self, names: Iterable[str], made: Mapping[str, pa.Array]) -> pa.Table:
        """Return the columns under the names that expressions use."""
        table = self.decoded.table
        there = dict(zip(table.column_names, table.columns, strict=True)) | dict(made)
        there |= {name: there[column] for column, name in self.shaping.fields.items() if column in there}
        if any(name.lower() in ORIGIN_COLUMNS for name in names):
            there |= origin_columns(self.records, self.decoded.rows, self.origin)
        there.pop(INGESTED_AT, None)
        by_lower = {name.lower(): column for name, column in there.items()}
        lacking = [name for name in names if name.lower() not in by_lower]
        of_documents = [name for name in lacking if self.shaping.is_text(name)]
        read = texts(self._values, of_documents) if of_documents else {}
        nothing = pa.nulls(table.num_rows)
        columns = {name: by_lower.get(name.lower(), read.get(name, nothing)) for name in names}
        return pa.table(columns) if columns else pa.table({"": nothing})

    @cached_property
    def _values(self) -> Sequence[bytes]:
        return cast("Sequence[bytes]", pick(self.records.values, self.decoded.rows))

    def _refuse_nulls(self, made: Mapping[str, pa.Array]) -> None:
        for name, column in made.items():
            if column.null_count and not self.schema.field(name).nullable:
                nulls = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist()
                self._note(name, dict.fromkeys(nulls, "the column is required"))

    def _note(self, name: str | None, misfits: Mapping[int, str]) -> None:
        """Record why rows are rejected: the first reason of each."""
        for row, why in misfits.items():
            self._bad.setdefault(row, (name, why))

    def _note_unroutable(self, route: Evaluated, kept: Evaluated | None) -> None:
        """Record why rows have no route; a filtered row needs none."""
        is_true = None if kept is None else kept.values.cast(pa.bool_())
        self._note(
            None,
            {row: why for row, why in route.errors.items() if is_true is None or is_true[row].as_py()},
        )

    def _values_of(self, rows: Sequence[int], values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return the remaining rows' values, by record index."""
        before = self.decoded.rows
        if before is None:
            return values.take(pa.array(rows, pa.int64()))
        return values.filter(pa.array(np.isin(before, rows)))

    def _rest(self, decoded: Decoded, condition: pa.ChunkedArray | None) -> Decoded:
        """Return the rows that are neither bad nor filtered."""
        if not self._bad and condition is None:
            return decoded
        count = decoded.table.num_rows
        is_kept = np.ones(count, bool)
        is_kept[[*self._bad]] = False
        left_out: dict[str, list[int]] = {}
        indices = np.arange(count) if decoded.rows is None else np.asarray(decoded.rows, np.int64)
        if condition is not None:
            is_null = condition.is_null().to_numpy()
            is_true = condition.cast(pa.bool_()).fill_null(False).to_numpy()
            reasons = {MISSING: is_kept & is_null, EXCLUDED: is_kept & ~is_null & ~is_true}
            left_out = {reason: indices[which].tolist() for reason, which in reasons.items() if which.any()}
            is_kept &= is_true
        if is_kept.all():
            return decoded
        bad = [BadValue(int(indices[row]), Phase.TRANSFORM, *self._bad[row]) for row in sorted(self._bad)]
        return replace(
            decoded,
            table=decoded.table.filter(pa.array(is_kept)),
            rows=indices[is_kept].tolist(),
            bad=tuple(sorted((*decoded.bad, *bad), key=lambda each: each.index)),
            left_out=left_out,
        )


def _routes_of(shaping: Shaping, values: pa.ChunkedArray, rows: Sequence[int] | None, records: int) -> Routes:
    """Return the route of each of ``rows``, given the ``values`` of the route's expression.

    A null goes nowhere, as a value that is not listed does, which is counted; one that is listed with the
    pipeline's own table is not.
    """
    tables = tuple(sorted({table for table in shaping.routes.values() if table is not None}))
    coded = values.cast(pa.string()).combine_chunks().dictionary_encode()
    known = coded.dictionary.to_pylist()
    codes = pc.fill_null(coded.indices, len(known)).to_numpy()
    listed = [shaping.routes.get(value) for value in known]
    targets = np.array([*(STAYS if each is None else tables.index(each) for each in listed), STAYS], np.int16)
    places = np.full(records, STAYS, np.int16)
    places[slice(None) if rows is None else rows] = targets[codes]
    counts = np.bincount(codes, minlength=len(known))
    unlisted = {value: int(counts[n]) for n, value in enumerate(known) if value not in shaping.routes}
    return Routes(tables, places, unlisted)

"""Columns of a table of changes: from the events' schemas, or from the fields of their rows."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema

from spark_jobs.config.columns import Growth
from spark_jobs.formats.connect.schema import RowSchema
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.progress import ColumnMap
from spark_jobs.schema.column_source import KnownSchemas, SeenColumns
from spark_jobs.schema.evolution import Evolution, additions_of, evolved
from spark_jobs.schema.iceberg_types import CHANGE_COLUMNS
from spark_jobs.schema.placing import Rules, place, unlike
from spark_jobs.schema.schema_views import placed

if TYPE_CHECKING:
    from pyiceberg.types import IcebergType

    from spark_jobs.schema.evidence import Evidence
    from spark_jobs.schema.inference import Field
    from spark_jobs.schema.writer_schema import WriterColumns


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChangeColumns:
    """Columns of rows without a schema, of schemas in order of arrival, and of the events."""

    rows: SeenColumns
    rules: Rules
    is_enveloped: bool
    own: Schema = CHANGE_COLUMNS

    def first(self, evidence: Evidence, declared: Sequence[Field]) -> tuple[Evolution, tuple[str, ...]]:
        """See ``ColumnSource``; raises ``ConfigError`` if no event has a usable schema."""
        written, unused = self._usable_columns(evidence.texts_in_order)
        if unused and not written and not evidence.fields:
            raise unused[0]
        columns, notes = self.rows.first(evidence.without(self.own.column_names), declared)
        most = 0 if self.rows.is_exact else self.rows.growth.max_columns
        rules = replace(self.rules, max_columns=most)
        own = additions_of(self.own)
        of_schemas = place(written, evolved(Schema(), columns.then(own)), {}, rules)[0]
        return columns.then(of_schemas).then(own), notes

    def evolution(
        self, table: Schema, bound: ColumnMap, evidence: Evidence
    ) -> tuple[Evolution, tuple[str, ...]]:
        """See ``ColumnSource``; columns for all types get new columns in the newest schema's type."""
        lacks, notes = self.rows.evolution(table, bound, evidence.without(self.own.column_names))
        # An earlier version had fewer.
        own = (each for each in self.own.fields if each.name not in table.column_names)
        lacks = lacks.then(additions_of(Schema(*own)))
        is_anew = self.rules.takes_all_but is not None
        written, _ = self._usable_columns(evidence.texts_newest_first if is_anew else evidence.texts_in_order)
        of_schemas = place(written, evolved(table, lacks), bound, self.rules)[0]
        return lacks.then(of_schemas), notes

    def types_of_newest(self, table: Schema, bound: ColumnMap, evidence: Evidence) -> dict[str, IcebergType]:
        """Return the newest schema's type by column, where the column does not hold that type."""
        written, _ = self._usable_columns(evidence.texts_newest_first)
        return unlike(written[0], table, bound, self.rules) if written else {}

    def _usable_columns(self, texts: Sequence[str]) -> tuple[list[WriterColumns], list[ConfigError]]:
        """Return the columns of schemas, and errors of unusable ones, whose events become dead letters."""
        usable, unused = [], []
        for text in texts:
            try:
                usable.append(RowSchema(text, is_enveloped=self.is_enveloped, forms=self.rules.forms).columns)
            except ConfigError as error:
                _log.warning("a schema beside events is not used: %s", error)
                unused.append(error)
        return usable, unused


@dataclass(frozen=True, eq=False)
class PlacedRows:
    """Column of the table for each field of a schema; it travels with a task's work."""

    table: Schema
    bound: ColumnMap
    rules: Rules
    is_enveloped: bool

    def schemas(self, text: str, growth: Growth, *, is_whole: bool) -> KnownSchemas | None:
        """Return row schemas under the table's names, or None if the table lacks a column.

        Raises ``ConfigError`` for one that cannot be used, or (``schema-incompatible``) must stop the drain.
        """
        known = (text, growth, is_whole)
        if known not in self._known:
            schema = RowSchema(text, is_whole, self.is_enveloped, self.rules.forms)
            rules = replace(self.rules, max_columns=growth.room)
            lacks, (names,) = place([schema.columns], self.table, self.bound, rules)
            is_enough = growth.has_ended or not lacks
            self._known[known] = KnownSchemas({None: placed(schema, names)}) if is_enough else None
        return self._known[known]

    @cached_property
    def _known(self) -> dict[tuple[str, Growth, bool], KnownSchemas | None]:
        return {}

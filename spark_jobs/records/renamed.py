"""Fields that are called otherwise than their columns: a format inside knows the fields' names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.records.decoder import Decoded, Decoder, PlainDecoder, PlainRows

if TYPE_CHECKING:
    from spark_jobs.config.new_fields import Growth
    from spark_jobs.kafka.chunks import Chunk
    from spark_jobs.protocol.kept_columns import KeptColumn
    from spark_jobs.schema.evidence import Evidence


@dataclass(frozen=True, slots=True)
class RenamedDecoder:
    """``fields`` are by column the names that the inner decoder knows."""

    inner: Decoder
    fields: Mapping[str, str]

    @property
    def takes_tombstones(self) -> bool:
        """See ``Decoder``."""
        return self.inner.takes_tombstones

    @property
    def growth(self) -> Growth:
        """See ``Decoder``."""
        return self.inner.growth

    def under(self, growth: Growth) -> RenamedDecoder:
        """See ``Decoder``."""
        return replace(self, inner=self.inner.under(growth))

    def keeping(self, kept: Sequence[KeptColumn], generation: int) -> RenamedDecoder:
        """See ``Decoder``."""
        of_fields = [replace(each, column=self.fields.get(each.column, each.column)) for each in kept]
        return replace(self, inner=self.inner.keeping(of_fields, generation))

    def decode(self, records: Chunk, columns: pa.Schema) -> Decoded:
        """See ``Decoder``."""
        decoded = self.inner.decode(records, _of_fields(columns, self.fields))
        return replace(decoded, table=_of_columns(decoded.table, self.fields))

    def observe(self, records: Chunk) -> Evidence:
        """See ``Decoder``."""
        return self.inner.observe(records)


@dataclass(frozen=True, slots=True)
class PlainRenamedDecoder:
    """The same for ``audit``."""

    inner: PlainDecoder
    fields: Mapping[str, str]

    @property
    def takes_tombstones(self) -> bool:
        """See ``PlainDecoder``."""
        return self.inner.takes_tombstones

    def decode(self, records: Chunk, columns: pa.Schema) -> PlainRows:
        """See ``PlainDecoder``."""
        plain = self.inner.decode(records, _of_fields(columns, self.fields))
        return replace(plain, table=_of_columns(plain.table, self.fields))


def _of_fields(columns: pa.Schema, fields: Mapping[str, str]) -> pa.Schema:
    return pa.schema([each.with_name(fields.get(each.name, each.name)) for each in columns])


def _of_columns(rows: pa.Table, fields: Mapping[str, str]) -> pa.Table:
    columns = {field: column for column, field in fields.items()}
    return rows.rename_columns([columns.get(name, name) for name in rows.column_names])

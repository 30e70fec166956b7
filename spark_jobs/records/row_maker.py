"""A chunk of Kafka records as rows of the table and rows of the dead-letter table: decode, then shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.protocol.batch import Balance
from spark_jobs.records.decoder import BadValue, Decoder, Phase
from spark_jobs.records.shape import Origin, dead_letter_table, shape
from spark_jobs.schema.metadata_columns import ORIGIN_COLUMNS

if TYPE_CHECKING:
    from spark_jobs.kafka.reader import Chunk
    from spark_jobs.records.decoder import Decoded


class NewFieldsSeen(Exception):
    """A chunk holds fields that the table has no column for."""


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """What a chunk came to; ``balance`` counts its records, not the gaps between them.

    ``ignored`` counts values of fields that have no column, by dotted name.
    """

    rows: pa.Table
    dead_letters: pa.Table
    balance: Balance
    ignored: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RowMaker:
    """Makes rows of ``schema`` (the table's whole Arrow schema) and of ``dead_letter_schema``.

    ``rejected`` says by partition and offset why a record that could be a row is to be a dead letter.
    """

    decoder: Decoder
    origin: Origin
    batch_id: str
    schema: pa.Schema
    dead_letter_schema: pa.Schema
    rejected: Mapping[int, Mapping[int, str]] = field(default_factory=dict)

    def make(
        self, chunk: Chunk, step: Callable[[str], AbstractContextManager[None]] = lambda _name: nullcontext()
    ) -> ChunkRows:
        """Return every record as a row, a dead letter, or, having no value, a tombstone that is only counted.

        ``step`` is entered around "decode" and "shape". Raises ``NewFieldsSeen``.
        """
        with step("decode"):
            tombstones = chunk.values.count(None)
            records = _with_values(chunk) if tombstones else chunk
            columns = pa.schema([field for field in self.schema if field.name not in ORIGIN_COLUMNS])
            decoded = self.decoder.decode(records, columns)
            if decoded.new_fields is not None:
                raise NewFieldsSeen
        with step("shape"):
            shaped = shape(decoded, records, self.origin, self.schema)
            if rejected := self.rejected.get(chunk.partition):
                shaped = shaped.without(_rejected(rejected, shaped, records))
            dead_letters = dead_letter_table(
                shaped.bad, records, self.origin, self.batch_id, self.dead_letter_schema
            )
        balance = Balance(
            rows=shaped.table.num_rows, dead_letters=dead_letters.num_rows, tombstones=tombstones
        )
        return ChunkRows(shaped.table, dead_letters, balance, decoded.ignored)


def _with_values(chunk: Chunk) -> Chunk:
    return chunk.take([i for i, value in enumerate(chunk.values) if value is not None])


def _rejected(rejected: Mapping[int, str], shaped: Decoded, records: Chunk) -> list[BadValue]:
    """Return the rows at these offsets as bad values."""
    offsets = ((row, records.offsets[row]) for row in shaped.indices)
    return [
        BadValue(row, Phase.QUALITY, None, rejected[offset]) for row, offset in offsets if offset in rejected
    ]

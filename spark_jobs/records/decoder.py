"""The seam between a record format and all that reads records, and a second one for ``audit`` alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from spark_jobs.kafka.chunks import Chunk
from spark_jobs.schema.evidence import Evidence

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_jobs.records.decoded import Decoded


class Decoder(Protocol):
    """What a record format can do. It travels pickled to Spark's tasks: a frozen dataclass, no secrets."""

    def decode(self, records: Chunk, columns: pa.Schema) -> Decoded:
        """Return every record as a row of ``columns`` or as a bad value, none of them changed or left out.

        ``columns`` are a table's own but for those of the record's origin: the value's, ``_kafka_key`` and
        ``_kafka_headers``. No value is None. With ``new_fields`` in the result nothing was decoded: the
        records have fields that columns can be added for.
        """

    def observe(self, records: Chunk) -> Evidence:
        """Return what the values' fields are and of which kinds; records without a value are passed over."""


@dataclass(frozen=True, slots=True)
class PlainRows:
    """What rows must hold, by the indices of their records; ``has_more`` are those that say more than that.

    Chunk that can be no row are in neither.
    """

    table: pa.Table
    rows: list[int]
    has_more: list[int]


class PlainDecoder(Protocol):
    """Reads records again, slowly and by other means than the format's ``Decoder``."""

    def decode(self, records: Chunk, columns: pa.Schema) -> PlainRows:
        """Return what rows of ``columns`` must hold, the columns as ``Decoder`` takes them."""

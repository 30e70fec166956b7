"""The seam between a record format and everything that reads records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_jobs.records.decoded import Decoded
    from spark_jobs.records.records import Records
    from spark_jobs.schema.evidence import Evidence


class Decoder(Protocol):
    """What a record format can do. It travels pickled to Spark's tasks: a frozen dataclass, no secrets."""

    def decode(self, records: Records, columns: pa.Schema) -> Decoded:
        """Return every record as a row of ``columns`` or as a bad value, none of them changed or left out.

        ``columns`` are a table's own but for those of the record's origin: the value's, ``_kafka_key`` and
        ``_kafka_headers``. No value is None. With ``new_fields`` in the result nothing was decoded: the
        records have fields that columns can be added for.
        """

    def observe(self, records: Records) -> Evidence:
        """Return what the values' fields are and of which kinds; records without a value are passed over."""

"""Keys and headers as they came, beside the columns of the value."""

from __future__ import annotations

import pyarrow as pa

from spark_jobs.kafka.chunks import Chunk
from spark_jobs.records.decoder import BadValue, Decoded, Phase
from spark_jobs.records.shape import headers_column, pick
from spark_jobs.schema.metadata_columns import HEADERS, KEY


def add_keys_and_headers(decoded: Decoded, records: Chunk, columns: pa.Schema) -> Decoded:
    """Return the rows with all of ``columns``, in their order.

    A key that is not UTF-8 where ``_kafka_key`` is a string makes its record a bad value.
    """
    try:
        keys = pa.array(pick(records.keys, decoded.rows), pa.binary()).cast(columns.field(KEY).type)
    except pa.ArrowInvalid:
        bad = [
            BadValue(row, Phase.KEY, KEY, "the key is not UTF-8")
            for row in decoded.indices
            if not _is_utf8(records.keys[row])
        ]
        return add_keys_and_headers(decoded.without(bad), records, columns)
    headers = headers_column(pick(records.headers, decoded.rows), columns.field(HEADERS).type)
    return decoded.beside({KEY: keys, HEADERS: headers}, columns)


def _is_utf8(key: bytes | None) -> bool:
    try:
        return key is None or key.decode() is not None
    except UnicodeDecodeError:
        return False

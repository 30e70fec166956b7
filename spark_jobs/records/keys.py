"""Keys and headers as they came, beside the columns of the value."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from spark_jobs.kafka.chunks import Chunk
from spark_jobs.records.decoded import BadValue, Decoded, Phase
from spark_jobs.records.shape import headers_column, pick
from spark_jobs.schema.metadata_columns import HEADERS, KEY


def add_keys_and_headers(decoded: Decoded, records: Chunk, columns: pa.Schema) -> Decoded:
    """Return the rows with all of ``columns``, in their order.

    A key that is not UTF-8 where ``_kafka_key`` is a string makes its record a bad value.
    """
    kind = columns.field(KEY).type
    keys = _as_keys(pick(records.keys, decoded.rows), kind)
    if keys is None:
        decoded = decoded.without(
            [
                BadValue(row, Phase.KEY, KEY, "the key is not UTF-8")
                for row in decoded.indices
                if not _is_utf8(records.keys[row])
            ]
        )
        keys = _as_keys(pick(records.keys, decoded.rows), kind)
    headers = headers_column(pick(records.headers, decoded.rows), columns.field(HEADERS).type)
    return decoded.beside({KEY: keys, HEADERS: headers}, columns)


def _as_keys(keys: Sequence[bytes | None], kind: pa.DataType) -> pa.Array | None:
    """Return the keys as a column, or None when one is not of the column's type."""
    try:
        return pa.array(keys, pa.binary()).cast(kind)
    except pa.ArrowInvalid:
        return None


def _is_utf8(key: bytes | None) -> bool:
    try:
        return key is None or key.decode() is not None
    except UnicodeDecodeError:
        return False

"""Record formats: the seam that tasks, preview and replay decode through."""

from __future__ import annotations

import pickle

import pyarrow as pa
from pyiceberg.schema import Schema

from spark_jobs.kafka.chunks import Chunk
from spark_jobs.records.reading_plan import JSON
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.iceberg_types import ORIGIN_COLUMNS, with_metadata_columns

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        *(c for c in arrow_schema(with_metadata_columns(Schema())) if c.name not in ORIGIN_COLUMNS),
    ]
)


def test_a_decoder_travels_to_a_task() -> None:
    """Pickled and read back it is equal, and needs no more room than a line of text."""
    pickled = pickle.dumps(JSON.decoder)
    assert pickle.loads(pickled) == JSON.decoder  # noqa: S301  (our own bytes)
    assert len(pickled) < 300


def test_keys_headers_and_values_are_decoded_together() -> None:
    """A row has them all; a record is bad by its value first and else by its key, in the records' order."""
    chunk = Chunk(
        3,
        [10, 11, 12, 13],
        [0, 0, 0, 0],
        [b"a", b"\xff", b"\xff", None],
        [b'{"id":1}', b'{"id":2}', b"oops", b'{"id":4}'],
        [[("h", b"1")], None, None, None],
    )
    decoded = JSON.decoder.decode(chunk, COLUMNS)
    assert decoded.table.to_pylist() == [
        {"id": 1, "_kafka_key": "a", "_kafka_headers": [{"key": "h", "value": b"1"}]},
        {"id": 4, "_kafka_key": None, "_kafka_headers": None},
    ]
    assert list(decoded.indices) == [0, 3]
    assert [(bad.index, bad.phase, bad.field) for bad in decoded.bad] == [
        (1, "key", "_kafka_key"),
        (2, "decode", None),
    ]


def test_evidence_is_of_records_that_have_a_value() -> None:
    """A tombstone says nothing of fields; an empty value is no object; examples are found by offset."""
    chunk = Chunk(3, [10, 11, 12], [0] * 3, [None] * 3, [None, b"", b'{"id":1}'], [None] * 3)
    evidence = JSON.decoder.observe(chunk)
    assert (evidence.records, evidence.undecodable) == (1, 1)
    assert evidence.fields["id"].order == (3, 12, 0)

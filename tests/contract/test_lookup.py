"""Rows of a record key without SQL: those that SQL gives, in its order and types, in files and hot."""

from __future__ import annotations

import datetime as dt
import uuid
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.types import (
    DecimalType,
    FixedType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)

from spark_jobs.hot.prefix import Prefix, Seam
from spark_jobs.hot.segment import Segment, Share
from spark_jobs.hot.watermark import Epoch
from spark_jobs.protocol.errors import ConfigError, RetryableError
from spark_jobs.query.lookup import newest_of_key
from spark_jobs.query.query import Engine, SqlQuery, answer_query
from spark_jobs.schema.arrow_schema import arrow_schema, column_of, no_rows
from tests.support.recovery_scene import Scene, make_scene

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from tests.support.lake import Lake

DAY = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
KINDS = {
    "amount": DecimalType(12, 2),
    "which": UUIDType(),
    "four": FixedType(4),
    "tags": ListType(100, StringType(), element_required=False),
    "whiches": ListType(101, UUIDType(), element_required=False),
    "counts": MapType(102, StringType(), 103, LongType(), value_required=False),
    "inner": StructType(
        NestedField(104, "a", StringType(), required=False),
        NestedField(105, "id", UUIDType(), required=False),
    ),
}
KEYS = ("k1", "it's", "", "a rather long key of one", "k1", "ø", None)


@pytest.fixture
def scene(sqlite_lake: Lake, tmp_path: Path) -> Scene:
    """A table of thirty drained rows without keys."""
    made = make_scene(sqlite_lake, str(tmp_path / "state"))
    made.lake.drain(0, 30)
    return made


@pytest.mark.parametrize("is_binary", [False, True], ids=["text", "bytes"])
def test_the_rows_of_a_key_are_those_that_sql_gives(scene: Scene, is_binary: bool) -> None:
    """The same columns, types and order over several generations, times and partitions, with hot ones."""
    table = scene.lake.make_table("keys", key_is_binary=is_binary)
    with table.update_schema() as update:
        for name, kind in KINDS.items():
            update.add_column(name, kind)
    files, first, last = (_rows(table, start, is_binary) for start in (0, 40, 80))
    for half in (files.slice(0, 20), files.slice(20)):
        table.append(half)
    keys = first.column("_kafka_key").combine_chunks().dictionary_encode()
    held = first.set_column(first.column_names.index("_kafka_key"), "_kafka_key", keys)
    epoch = Epoch("u", "t", 0, 0)
    letters = no_rows(pa.schema([("_kafka_offset", pa.int64())]))
    shares = (
        Share(0, 0, 40, 80, (Segment(epoch, 0, 40, 80, held, letters),)),
        Share(1, 0, 80, 110, (Segment(epoch, 1, 80, 120, last, letters).between(80, 110),)),
    )
    table.refresh()
    prefix = Prefix(Seam(table, None, scene.connections.state), shares, 0)
    pipeline = scene.pipeline.model_copy(update={"table": scene.lake.name("keys")})
    order = "_kafka_generation DESC, _kafka_timestamp DESC NULLS LAST, _kafka_offset DESC"
    for key in {*KEYS, "not there"} - {None}:
        wanted = "encode(?)" if is_binary else "?"
        sql = f"FROM keys WHERE _kafka_key = {wanted} ORDER BY {order}"
        asked = SqlQuery(pipeline, sql, [key])
        with closing(Engine()) as engine, answer_query(asked, prefix.seam, engine, prefix=prefix) as answer:
            by_sql = pa.Table.from_batches(answer.batches, answer.schema)
        found = newest_of_key(pipeline, scene.connections, str(key), prefix=prefix)
        told = pa.Table.from_batches(found.batches, found.schema)
        assert told.schema == by_sql.schema
        assert told.to_pylist() == by_sql.to_pylist(), key
        assert len(told) == sum(
            part.column("_kafka_key").to_pylist().count(key.encode() if is_binary else key)
            for part in (files, first, last.slice(0, 30))
        )


def test_a_lookup_ends_by_name(scene: Scene) -> None:
    """When its time is over, where rows need more memory than they may have, columns or files are gone."""
    table = scene.lake.load()
    table.append(_rows(table, 30, is_binary=False))

    def ask(**limits: Any) -> int:
        answer = newest_of_key(scene.pipeline, scene.connections, "k1", **limits)
        return sum(map(len, answer.batches))

    assert ask() == 11
    with pytest.raises(RetryableError, match="longer than allowed") as late:
        ask(is_over=lambda: True)
    with pytest.raises(ConfigError, match="more than 100 bytes") as large:
        ask(memory_bytes=100)
    with scene.lake.load().update_schema(allow_incompatible_changes=True) as update:
        update.rename_column("_kafka_timestamp", "at_in_kafka")
    with pytest.raises(ConfigError, match="no column _kafka_timestamp") as renamed:
        ask()
    with scene.lake.load().update_schema(allow_incompatible_changes=True) as update:
        update.rename_column("at_in_kafka", "_kafka_timestamp")
    for task in scene.lake.load().scan().plan_files():
        Path(task.file.file_path.removeprefix("file://")).unlink()
    with pytest.raises(RetryableError, match="could not be read") as gone:
        ask()
    codes = [raised.value.code for raised in (late, large, renamed, gone)]
    assert codes == ["query-timeout", "query-too-large", "query-refused", "table-unreadable"]


def _rows(table: Table, start: int, is_binary: bool) -> pa.Table:
    """Forty rows; some times are alike, and some are missing."""
    schema, rows = arrow_schema(table.schema()), []
    for offset in range(start, start + 40):
        key, each = KEYS[offset % len(KEYS)], uuid.UUID(int=offset)
        values = {
            "id": offset,
            "amount": Decimal(offset) / 4,
            "which": each.bytes if offset % 3 else None,
            "four": b"four",
            "tags": ["a", None] if offset % 2 else None,
            "whiches": [each.bytes, None],
            "counts": [("n", offset)],
            "inner": {"a": "x", "id": each.bytes} if offset % 4 else None,
            "_kafka_topic": "t",
            "_kafka_partition": 0,
            "_kafka_offset": offset,
            "_kafka_generation": offset % 2,
            "_kafka_timestamp": None if offset % 5 == 0 else DAY + dt.timedelta(seconds=offset % 4),
            "_kafka_key": key.encode() if is_binary and key is not None else key,
            "_kafka_headers": [{"key": "h", "value": b"v"}],
        }
        rows.append(values)
    columns = [column_of([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)

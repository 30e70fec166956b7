"""`sort_by` in files and in a table's metadata: what is written together is sorted, as the table says."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from spark_jobs.commit.table_creation import create_table
from spark_jobs.lake.parquet_writer import SplitWriter
from spark_jobs.lake.tables import evolve_table, progress_of, set_sort_order
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.progress import Progress
from spark_jobs.schema.arrow_schema import arrow_schema, column_of
from spark_jobs.schema.declared import ordered_by, sorted_by

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from tests.support.lake import Lake

IDENTITY = ("_kafka_generation", "_kafka_partition", "_kafka_offset")
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
# Ascending, as Iceberg's specification has it.
VALUES: dict[str, tuple[Any, list[Any]]] = {
    "long": (LongType(), [None, -(2**62), 0, 7]),
    "double": (DoubleType(), [None, -math.inf, -1.5, 0.0, math.inf, math.nan]),
    "float": (FloatType(), [None, -1.5, 2.5, math.nan]),
    "decimal": (DecimalType(20, 2), [None, Decimal("-1.00"), Decimal("0.50"), Decimal("10.00")]),
    "text": (StringType(), [None, "", "B", "a", "aa", "é", "\uffff", "😀"]),
    "yes": (BooleanType(), [None, False, True]),
    "raw": (BinaryType(), [None, b"", b"\x01", b"\x80"]),
    "four": (FixedType(4), [None, b"\x00aaa", b"\xffaaa"]),
    "day": (DateType(), [None, dt.date(1969, 12, 31), dt.date(2026, 1, 1)]),
    "clock": (TimeType(), [None, dt.time(0), dt.time(23, 59)]),
    "at": (TimestamptzType(), [None, dt.datetime(1969, 1, 1, tzinfo=dt.UTC), NOON]),
    "key": (UUIDType(), [None, bytes(16), b"\x01" * 16, b"\xff" * 16]),
}


def _make(lake: Lake, fields: dict[str, Any], *sort_by: str) -> Table:
    columns = (NestedField(n, name, kind, required=False) for n, (name, kind) in enumerate(fields.items(), 1))
    return create_table(
        lake.open(),
        lake.name(),
        Schema(*columns),
        partition_by=(),
        sort_by=sort_by,
        properties={},
        progress=Progress("t", 1, {0: 0}),
        dead_letters=False,
    )


def _write(table: Table, columns: dict[str, list[Any]], **more: Any) -> list[pq.ParquetFile]:
    rows = len(next(iter(columns.values())))
    identity = {
        "_kafka_generation": [1] * rows,
        "_kafka_partition": [0] * rows,
        "_kafka_offset": [*range(rows)],
    }
    schema = arrow_schema(table.schema())
    values = {**{name: [None] * rows for name in schema.names}, **columns, **identity}
    found = pa.Table.from_arrays([column_of(values[f.name], f.type) for f in schema], schema=schema)
    options = {"file_prefix": "a-0", "row_group_bytes": 1 << 20, "max_open_files": 8, **more}
    writer = SplitWriter(table.metadata, table.io, **options)
    for start in range(0, rows, 10):
        writer.write(found.slice(start, 10))
    return [pq.ParquetFile(table.io.new_input(file.path).open()) for file in writer.close()]


@pytest.mark.parametrize("name", VALUES)
def test_values_stand_in_icebergs_order(sqlite_lake: Lake, name: str) -> None:
    """Of every type there is: nulls first, NaN last, and equal values as their records came."""
    kind, ascending = VALUES[name]
    came = [*reversed(ascending), *ascending]
    (file,) = _write(_make(sqlite_lake, {name: kind}, name), {name: came})
    offsets = file.read(["_kafka_offset"]).column(0).to_pylist()
    assert offsets == [
        at for n in range(len(ascending)) for at in (len(ascending) - 1 - n, len(ascending) + n)
    ]


def test_what_is_written_together_is_sorted(sqlite_lake: Lake) -> None:
    """By the first column, then the second; a file of several row groups does not say it is sorted."""
    table = _make(sqlite_lake, {"customer": StringType(), "n": LongType()}, "customer", "n")
    numbers = [(7 * n) % 400 for n in range(400)]
    columns: dict[str, list[Any]] = {"customer": [f"c{n % 5}" for n in numbers], "n": numbers}
    (file,) = _write(table, columns, row_group_bytes=1 << 15)
    assert file.num_row_groups > 1
    for group in range(file.num_row_groups):
        rows = file.read_row_group(group, columns=["customer", "n"]).to_pylist()
        assert rows == sorted(rows, key=lambda row: (row["customer"], row["n"]))
    assert sorted(file.read().column("n").to_pylist()) == sorted(numbers)


def test_rows_without_sort_by_stay_as_they_came(sqlite_lake: Lake) -> None:
    """Also where another engine has given the table an order of its own."""
    table = _make(sqlite_lake, {"n": LongType()})
    came = [3, 1, 2]
    assert _write(table, {"n": came})[0].read(["n"]).column(0).to_pylist() == came
    with table.update_sort_order() as update:
        update.desc("n", BucketTransform(4))
    assert _write(sqlite_lake.load(), {"n": came})[0].read(["n"]).column(0).to_pylist() == came
    assert (
        set_sort_order(sqlite_lake.open, sqlite_lake.load(), ()).sort_order()
        == sqlite_lake.load().sort_order()
    )


def test_a_tables_order_is_set_anew(lake: Lake) -> None:
    """Snapshot and progress stay, a column that comes later is taken in, and no `sort_by` is the way back."""
    before = lake.make_table()
    after = set_sort_order(lake.open, before, ("speed", "name"))
    assert ordered_by(after.schema(), after.sort_order()) == ("name", *IDENTITY)
    assert after.metadata.current_snapshot_id == before.metadata.current_snapshot_id
    assert progress_of(after) == progress_of(before)
    lake.drain(0, 10)
    evolved = evolve_table(lake.open, lake.name(), [(("speed",), DoubleType())])
    wider = set_sort_order(lake.open, evolved, ("speed", "name"))
    assert sorted_by(wider.schema(), wider.sort_order()) == ("speed", "name")
    again = set_sort_order(lake.open, wider, ("speed", "name"))
    assert again.metadata_location == wider.metadata_location
    back = set_sort_order(lake.open, again, ())
    assert (ordered_by(back.schema(), back.sort_order()), sorted_by(back.schema(), back.sort_order())) == (
        IDENTITY,
        (),
    )
    lake.drain(10, 20)
    assert lake.offsets() == list(range(20))


def test_a_column_of_the_identity_may_be_sorted_by(sqlite_lake: Lake) -> None:
    """It stands once, where it was named."""
    table = _make(sqlite_lake, {"n": LongType()}, "_kafka_offset", "n")
    order = ("_kafka_offset", "n", "_kafka_generation", "_kafka_partition")
    assert ordered_by(table.schema(), table.sort_order()) == order
    assert sorted_by(table.schema(), table.sort_order()) == order[:2]


def test_what_has_no_order_is_refused(sqlite_lake: Lake) -> None:
    """By name and type, before a table is made."""
    inner = StructType(NestedField(9, "a", LongType(), required=False))
    with pytest.raises(ConfigError, match="the column s of type struct<a: long>") as refused:
        _make(sqlite_lake, {"s": inner}, "s")
    assert refused.value.code == "sort-type"

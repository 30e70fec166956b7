"""Files of a task: what Iceberg is told about them is what is in them, and memory stays bounded."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import ParquetFormatWriter
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from spark_jobs.commit.table_creation import create_table
from spark_jobs.lake.data_files import to_data_file
from spark_jobs.lake.parquet_writer import SplitWriter
from spark_jobs.protocol.errors import ConfigError, RetryableError
from spark_jobs.protocol.progress import Progress
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.storage.paths import normalise_path

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from tests.support.lake import Lake

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
WIDE = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "small", IntegerType(), required=False),
    NestedField(3, "at", TimestamptzType(), required=False),
    NestedField(4, "local", TimestampType(), required=False),
    NestedField(5, "day", DateType(), required=False),
    NestedField(6, "clock", TimeType(), required=False),
    NestedField(7, "text", StringType(), required=False),
    NestedField(8, "price", DecimalType(9, 2), required=False),
    NestedField(9, "ratio", DoubleType(), required=False),
    NestedField(10, "ratio32", FloatType(), required=False),
    NestedField(11, "yes", BooleanType(), required=False),
    NestedField(12, "raw", BinaryType(), required=False),
    NestedField(13, "key", UUIDType(), required=False),
    NestedField(
        14, "inner", StructType(NestedField(15, "when", TimestamptzType(), required=False)), required=False
    ),
    NestedField(16, "odd name-é.x", StringType(), required=False),
    NestedField(17, "tags", ListType(18, StringType(), element_required=False), required=False),
    NestedField(19, "map", MapType(20, StringType(), 21, LongType(), value_required=False), required=False),
    NestedField(
        22,
        "odd-inner",
        ListType(23, StructType(NestedField(24, "a b", LongType(), required=False)), element_required=False),
        required=False,
    ),
)


def _rows(count: int) -> list[dict[str, Any]]:
    return [{**(_row(n) if n % 7 else {"id": n}), **_identity(n)} for n in range(count)]


def _identity(n: int) -> dict[str, int]:
    return {"_kafka_generation": 1, "_kafka_partition": 0, "_kafka_offset": n}


def _row(n: int) -> dict[str, Any]:
    at = NOON + dt.timedelta(hours=5 * n) if n % 3 else dt.datetime(1969, 12, 31, 23, 59, tzinfo=dt.UTC)
    return {
        "id": n,
        "small": n,
        "at": at,
        "local": at.replace(tzinfo=None),
        "day": at.date(),
        "clock": at.time(),
        "text": "😀" * (n % 4) + str(n),
        "price": Decimal(n) / 4,
        "ratio": float("nan") if n == 8 else n / 3,
        "ratio32": n / 2,
        "yes": n % 2 == 0,
        "raw": bytes([n % 256]),
        "key": bytes([n % 256] * 16),
        "inner": {"when": at},
        "odd name-é.x": "x",
        "tags": ["a", None],
        "map": [("k", n)],
        "odd-inner": [{"a b": n}],
    }


def _table(lake: Lake, *partition_by: str) -> Table:
    return create_table(
        lake.open(),
        lake.name(),
        WIDE,
        partition_by=partition_by,
        properties={},
        progress=Progress("t", 0, {0: 0}),
        dead_letters=False,
    )


def _writer(table: Table, **more: Any) -> SplitWriter:
    # As a task gets them.
    metadata, io = pickle.loads(pickle.dumps((table.metadata, table.io)))  # noqa: S301  (as Spark does)
    options = {"file_prefix": "attempt-3-try", "row_group_bytes": 1 << 20, "max_open_files": 50, **more}
    return SplitWriter(metadata, io, **options)


def _append(table: Table, files: list[dict[str, Any]]) -> None:
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for file in files:
            append.append_data_file(to_data_file(file, table.metadata))


def _described(file: DataFile) -> dict[str, Any]:
    maps = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    return {
        "partition": file.partition,
        "rows": file.record_count,
        **{name: dict(getattr(file, name) or {}) for name in maps},
    }


@pytest.mark.parametrize(
    "partition_by",
    [
        (),
        ("day(at)",),
        ("year(day)", "bucket(3, id)"),
        ("month(local)", "truncate(2, text)", "yes"),
        ("hour(inner.when)",),
        ("bucket(4, price)", "bucket(3, key)", "bucket(2, at)", "bucket(2, small)"),
        ("truncate(10, id)", "price"),
        ("identity(day)", "bucket(2, text)", "at"),
        ("truncate(1, price)", "local"),
    ],
    ids=" ".join,
)
def test_files_are_described_as_pyiceberg_would(sqlite_lake: Lake, partition_by: tuple[str, ...]) -> None:
    """Partition values, bounds and counts equal those of PyIceberg's own append of the same rows."""
    table = _table(sqlite_lake, *partition_by)
    rows = pa.Table.from_pylist(_rows(60), schema=arrow_schema(table.schema()))
    writer = _writer(table)
    writer.write(rows)
    ours = [to_data_file(file, table.metadata) for file in writer.close()]
    table.append(rows)
    theirs = [task.file for task in table.scan().plan_files()]

    def order(file: dict[str, Any]) -> str:
        return repr(file["partition"])

    assert sorted(map(_described, ours), key=order) == sorted(map(_described, theirs), key=order)


def test_rows_come_back(sqlite_lake: Lake) -> None:
    """Through a PyIceberg scan, by field id and by partition filter, and through DuckDB from the files."""
    table = _table(sqlite_lake, "day(at)")
    rows = pa.Table.from_pylist(_rows(60), schema=arrow_schema(table.schema()))
    writer = _writer(table)
    writer.write(rows.slice(0, 30))
    writer.write(rows.slice(30))
    files = writer.close()
    _append(table, files)
    read = table.scan().to_arrow().sort_by("id").select(rows.column_names)
    lists = ["_kafka_headers", "odd-inner"]
    assert [row[0]["a b"] for row in read["odd-inner"].to_pylist() if row] == [n for n in range(60) if n % 7]
    # PyIceberg reads a null list of structs as an empty one; the file has the null.
    assert repr(read.drop(lists).to_pylist()) == repr(rows.drop(lists).to_pylist())
    assert table.scan("at < '1970-01-01T00:00:00+00:00'").to_arrow().num_rows == 17
    paths = [normalise_path(file.path) for file in files]
    read_by_duckdb = duckdb.read_parquet(paths).aggregate("count(*), sum(id), count(distinct text)")
    assert read_by_duckdb.fetchall() == [(60, sum(range(60)), 51)]


def test_order_row_groups_and_names(sqlite_lake: Lake) -> None:
    """Rows keep their order, row groups are cut by bytes, names count up from the prefix, codec is zstd."""
    table = _table(sqlite_lake)
    writer = _writer(table, row_group_bytes=20_000)
    for start in range(0, 4_000, 100):
        rows = [{"id": n, "text": "x" * 50, **_identity(n)} for n in range(start, start + 100)]
        writer.write(pa.Table.from_pylist(rows, schema=arrow_schema(table.schema())))
    (file,) = writer.close()
    assert file.path.endswith("/data/attempt-3-try-00000.parquet")
    parquet = pq.ParquetFile(normalise_path(file.path))
    assert parquet.read()["id"].to_pylist() == list(range(4_000))
    assert parquet.metadata.num_row_groups > 10
    assert parquet.metadata.row_group(0).column(0).compression == "ZSTD"
    assert file.rows == 4_000
    assert len(file.split_offsets or ()) == parquet.metadata.num_row_groups


@pytest.mark.parametrize(("codec", "written"), [("snappy", "SNAPPY"), ("uncompressed", "UNCOMPRESSED")])
def test_a_level_that_its_codec_does_not_take_is_left_out(
    sqlite_lake: Lake, codec: str, written: str
) -> None:
    """Tables of earlier versions keep zstd's level beside another codec, and so does one altered later."""
    table = _table(sqlite_lake)
    assert table.properties["write.parquet.compression-level"] == "1"
    with table.transaction() as transaction:
        transaction.set_properties({"write.parquet.compression-codec": codec})
    writer = _writer(table)
    writer.write(pa.Table.from_pylist(_rows(3), schema=arrow_schema(table.schema())))
    (file,) = writer.close()
    group = pq.ParquetFile(normalise_path(file.path)).metadata.row_group(0)
    assert group.column(0).compression == written


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("write.parquet.page-size-bytes", "1MB"),
        ("write.parquet.row-group-size-bytes", "128MB"),
        ("write.parquet.dict-size-bytes", "two"),
        ("write.parquet.compression-codec", "lzo"),
        ("write.parquet.compression-level", "max"),
    ],
)
def test_what_another_engine_set_and_cannot_be_read_is_left_out(
    sqlite_lake: Lake, key: str, value: str
) -> None:
    """A size with a unit, a codec that PyArrow has not: files are written as without the property."""
    table = _table(sqlite_lake)
    with table.transaction() as transaction:
        transaction.set_properties({key: value})
    writer = _writer(table)
    writer.write(pa.Table.from_pylist(_rows(3), schema=arrow_schema(table.schema())))
    (file,) = writer.close()
    assert pq.ParquetFile(normalise_path(file.path)).metadata.row_group(0).column(0).compression == "ZSTD"


def test_the_tables_own_row_group_bytes_bound_a_row_group(sqlite_lake: Lake) -> None:
    """Without PyIceberg's warning that it is not implemented."""
    table = _table(sqlite_lake)
    with table.transaction() as transaction:
        transaction.set_properties({"write.parquet.row-group-size-bytes": "50000"})
    writer = _writer(table)
    for start in range(0, 600, 60):
        rows = [{**row, **_identity(start + n)} for n, row in enumerate(_rows(60))]
        writer.write(pa.Table.from_pylist(rows, schema=arrow_schema(table.schema())))
    (file,) = writer.close()
    assert pq.ParquetFile(normalise_path(file.path)).metadata.num_row_groups > 2


def test_a_page_that_changed_on_its_way_is_noticed(sqlite_lake: Lake) -> None:
    """Even where nothing is compressed, so that nothing fails to unpack."""
    table = _table(sqlite_lake)
    with table.transaction() as transaction:
        transaction.set_properties({"write.parquet.compression-codec": "uncompressed"})
    writer = _writer(table)
    rows = [{"id": n, "text": f"text number {n}", **_identity(n)} for n in range(500)]
    writer.write(pa.Table.from_pylist(rows, schema=arrow_schema(table.schema())))
    (file,) = writer.close()
    path = Path(normalise_path(file.path))
    path.write_bytes(path.read_bytes().replace(b"text number 321", b"text number 3Z1"))
    assert "text number 3Z1" in pq.ParquetFile(path).read()["text"].to_pylist()
    with pytest.raises(OSError, match="CRC checksum verification failed"):
        pq.ParquetFile(path, page_checksum_verification=True).read()


def test_columns_that_do_not_repeat_have_no_dictionary_and_all_readers_see_the_same(
    sqlite_lake: Lake,
) -> None:
    """Judged by the first rows, inside structs too; a few distinct values and nulls only keep theirs."""
    table = _table(sqlite_lake)
    count = 12_000
    rows = [
        {
            "id": n,
            "small": n % 50,
            "text": f"{n % 4_600}",
            "inner": {"when": NOON + dt.timedelta(hours=n)},
            **_identity(n),
        }
        for n in range(count)
    ]
    writer = _writer(table, row_group_bytes=1 << 19)
    for begin in range(0, count, 3_000):
        writer.write(pa.Table.from_pylist(rows[begin : begin + 3_000], schema=arrow_schema(table.schema())))
    (file,) = writer.close()
    path = normalise_path(file.path)
    assert pq.read_metadata(path).num_row_groups > 1
    with_dictionary = _columns_with_dictionary(path)
    assert {"small", "text", "at", "_kafka_partition"} <= with_dictionary
    assert not {"id", "inner.when", "_kafka_offset"} & with_dictionary
    _append(table, [file])
    wanted = [(row["id"], row["small"], row["text"]) for row in rows]
    seen = table.scan(selected_fields=("id", "small", "text")).to_arrow().to_pylist()
    assert sorted(map(tuple, map(dict.values, seen))) == wanted
    read = duckdb.read_parquet(path)
    assert read.project("id, small, text").order("id").fetchall() == wanted


def test_files_of_a_split_are_judged_by_the_first_that_has_enough_rows(sqlite_lake: Lake) -> None:
    """A few rows, which never repeat, say nothing of the files after them."""
    table = _table(sqlite_lake, "small")
    writer = _writer(table)
    for small, count, distinct in ((0, 40, 40), (1, 6_000, 20), (2, 6_000, 6_000)):
        rows = [
            {"small": small, "text": f"{n % distinct}", **_identity(6_000 * small + n)} for n in range(count)
        ]
        writer.write(pa.Table.from_pylist(rows, schema=arrow_schema(table.schema())))
    files = [_columns_with_dictionary(normalise_path(file.path)) for file in writer.close()]
    assert ["text" in columns for columns in files] == [False, True, True]


def test_a_dictionary_size_of_its_own_keeps_dictionaries_for_all_columns(sqlite_lake: Lake) -> None:
    """The table's own word wins over what Sluice finds."""
    table = _table(sqlite_lake)
    with table.transaction() as transaction:
        transaction.set_properties({"write.parquet.dict-size-bytes": "1048576"})
    writer = _writer(table)
    writer.write(pa.Table.from_pylist(_rows(100), schema=arrow_schema(table.schema())))
    (file,) = writer.close()
    assert {"id", "_kafka_offset"} <= _columns_with_dictionary(normalise_path(file.path))


def _columns_with_dictionary(path: str) -> set[str]:
    return _columns_with("RLE_DICTIONARY", path)


def _columns_with(encoding: str, path: str) -> set[str]:
    footer = pq.read_metadata(path)
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    columns = [group.column(index) for group in groups for index in range(footer.num_columns)]
    return {column.path_in_schema for column in columns if encoding in column.encodings}


def test_field_ids_are_the_tables(sqlite_lake: Lake) -> None:
    """Nested ones too, or engines read nulls."""
    table = _table(sqlite_lake)
    writer = _writer(table)
    writer.write(pa.Table.from_pylist(_rows(3), schema=arrow_schema(table.schema())))
    (file,) = writer.close()
    read = pq.read_schema(normalise_path(file.path))
    ids = [int(field.metadata[b"PARQUET:field_id"]) for field in read]
    assert ids == [field.field_id for field in table.schema().fields]
    assert read.names[13:15] == ["inner", "odd_x20name_x2Dé_x2Ex"]
    inner = read.field("inner").type.field(0)
    assert int(inner.metadata[b"PARQUET:field_id"]) == table.schema().find_field("inner.when").field_id


def test_open_files_are_bounded(sqlite_lake: Lake) -> None:
    """A record of the year 3000 costs one file, not one more open file."""
    table = _table(sqlite_lake, "day(at)")
    writer = _writer(table, max_open_files=3, row_group_bytes=1)
    for day in [0, 1, 2, 3, 4, 0, 1]:
        rows = [{"id": n, "at": NOON + dt.timedelta(days=day), **_identity(n)} for n in range(5)]
        writer.write(pa.Table.from_pylist(rows, schema=arrow_schema(table.schema())))
        assert len(writer._open_files()) <= 3
    files = writer.close()
    assert sum(file.rows for file in files) == 35
    assert len({file.path for file in files}) == len(files) >= 6


def test_waiting_rows_are_bounded(sqlite_lake: Lake) -> None:
    """However many partitions are open, at most twice the row group's bytes wait in memory."""
    table = _table(sqlite_lake, "bucket(20, id)")
    writer = _writer(table, row_group_bytes=30_000, max_open_files=50)
    for _ in range(30):
        rows = [{"id": n, "text": "x" * 50, **_identity(n)} for n in range(200)]
        writer.write(pa.Table.from_pylist(rows, schema=arrow_schema(table.schema())))
        assert sum(part.waiting_bytes for part in writer._parts.values()) == writer._waiting_bytes < 60_000
    assert sum(file.rows for file in writer.close()) == 6_000


@pytest.mark.parametrize(("row_group_bytes", "most_files"), [(16 << 20, 40), (200_000, 300)])
def test_many_partitions_are_a_file_each(sqlite_lake: Lake, row_group_bytes: int, most_files: int) -> None:
    """However mixed their rows come, and however few files may be open: what fits in memory waits there."""
    table = _table(sqlite_lake, "bucket(40, id)")
    writer = _writer(table, row_group_bytes=row_group_bytes, max_open_files=3)
    for start in range(0, 2_000, 200):
        rows = [{"id": n, "text": "x", **_identity(n)} for n in range(start, start + 200)]
        writer.write(pa.Table.from_pylist(rows, schema=arrow_schema(table.schema())))
        assert len(writer._open_files()) <= 3
    files = writer.close()
    assert 40 <= len(files) <= most_files
    _append(table, files)
    read = table.refresh().scan().to_arrow()
    assert sorted(read["id"].to_pylist()) == list(range(2_000))


def test_nothing_written_is_no_file(sqlite_lake: Lake) -> None:
    """A split of tombstones only has no data file."""
    table = _table(sqlite_lake)
    writer = _writer(table)
    writer.write(arrow_schema(table.schema()).empty_table())
    assert writer.close() == []


def test_abort_lets_go(sqlite_lake: Lake) -> None:
    """After a failure open files are closed; files never begun are no obstacle."""
    table = _table(sqlite_lake, "bucket(4, id)")
    writer = _writer(table, row_group_bytes=1)
    writer.write(pa.Table.from_pylist(_rows(3), schema=arrow_schema(table.schema())))
    writer.abort()
    assert writer._parts == {}


def test_a_full_disk_is_worth_a_retry(sqlite_lake: Lake, tmp_path: Path) -> None:
    """Storage that fails is an error with a name, not a traceback."""
    table = _table(sqlite_lake)
    writer = _writer(table, row_group_bytes=1)
    data = tmp_path / "lake"
    for path in data.rglob("t-*"):
        (path / "data").write_text("a file where the folder should be")
    with pytest.raises(RetryableError) as caught:
        writer.write(pa.Table.from_pylist(_rows(3), schema=arrow_schema(table.schema())))
    assert caught.value.code == "storage-failed"


def test_a_failure_is_told_and_not_that_its_file_cannot_be_closed(
    sqlite_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyIceberg has no statistics of a file that nothing was written to: what stopped the write counts."""
    table = _table(sqlite_lake)
    writer = _writer(table)
    monkeypatch.setattr(ParquetFormatWriter, "write", Mock(side_effect=ValueError("the true error")))
    writer.write(pa.Table.from_pylist(_rows(3), schema=arrow_schema(table.schema())))
    with pytest.raises(ValueError, match="the true error"):
        writer.close()
    writer.abort()


def test_a_required_column_without_a_value_is_named(sqlite_lake: Lake) -> None:
    """Whoever made it required: nothing of the rows is written."""
    table = _table(sqlite_lake)
    writer = _writer(table)
    rows = pa.Table.from_pylist(_rows(3), schema=arrow_schema(table.schema()))
    place = rows.column_names.index("_kafka_offset")
    with pytest.raises(ConfigError, match="column _kafka_offset of ") as caught:
        writer.write(rows.set_column(place, rows.schema.field(place), pa.nulls(3, pa.int64())))
    assert caught.value.code == "required-column"
    assert writer.close() == []

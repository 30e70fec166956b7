"""Rows of one data file: by field id, by condition, and only the row groups that can matter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import AlwaysTrue, And, EqualTo, GreaterThanOrEqual, IsNull, LessThan, Or
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask
from pyiceberg.types import ListType, LongType, MapType, NestedField, StringType, StructType

from spark_jobs.lake.file_rows import rows_of_file
from spark_jobs.schema.arrow_schema import arrow_schema

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression

SCHEMA = Schema(
    NestedField(1, "a", LongType()), NestedField(2, "b", LongType()), NestedField(3, "c", StringType())
)
ROWS = 40
A_GROUP = 8
VALUES = [{"a": n, "b": 1000 - n, "c": None if n % 5 == 0 else f"c{n}"} for n in range(ROWS)]


@pytest.fixture
def task(tmp_path: Path) -> FileScanTask:
    """A file of five row groups; ``a`` rises through them."""
    path = tmp_path / "data.parquet"
    rows = pa.Table.from_pylist(VALUES, schema=arrow_schema(SCHEMA))
    pq.write_table(rows, path, row_group_size=A_GROUP, use_dictionary=False)
    file = DataFile.from_args(file_path=str(path), file_format=FileFormat.PARQUET)
    return FileScanTask(file)


def _read(task: FileScanTask, schema: Schema, condition: BooleanExpression) -> list[dict[str, object]]:
    return [
        row for rows in rows_of_file(PyArrowFileIO(), task, schema, condition) for row in rows.to_pylist()
    ]


@pytest.mark.parametrize(
    ("condition", "is_meant"),
    [
        (EqualTo("a", 17), lambda row: row["a"] == 17),
        (And(GreaterThanOrEqual("a", 6), LessThan("a", 20)), lambda row: 6 <= row["a"] < 20),
        (Or(LessThan("a", 2), GreaterThanOrEqual("b", 1_001)), lambda row: row["a"] < 2),
        (IsNull("c"), lambda row: row["c"] is None),
        (LessThan("a", -1), lambda _row: False),
    ],
)
def test_a_condition_keeps_what_it_would_keep_of_all_rows(task: FileScanTask, condition, is_meant) -> None:
    """In their order, over row groups that are read and some that are not."""
    assert _read(task, SCHEMA, condition) == [row for row in VALUES if is_meant(row)]


def _damage(path: str | Path, group: int, column: int) -> None:
    there = pq.ParquetFile(path).metadata.row_group(group).column(column)
    with Path(path).open("r+b") as file:
        file.seek(there.data_page_offset)
        file.write(b"\xff" * there.total_compressed_size)


def test_what_cannot_matter_is_not_read(task: FileScanTask) -> None:
    """A row group that the condition leaves out may be damaged; one that it needs may not."""
    _damage(task.file.file_path, 1, 0)
    assert len(_read(task, SCHEMA, LessThan("a", A_GROUP))) == A_GROUP
    with pytest.raises(OSError, match=r"\S"):
        _read(task, SCHEMA, LessThan("a", A_GROUP + 1))


def test_other_columns_are_read_only_where_a_row_is_kept(task: FileScanTask) -> None:
    """A row group that may have some by its statistics, and has none, is read no further."""
    _damage(task.file.file_path, 1, 0)
    assert _read(task, SCHEMA, EqualTo("c", "c17")) == [VALUES[17]]
    with pytest.raises(OSError, match=r"\S"):
        _read(task, SCHEMA, EqualTo("c", "c14"))


def test_of_a_struct_no_more_is_read_than_is_wanted(tmp_path: Path) -> None:
    """Another field of it may be damaged; a null one stays null, also where the file has nothing wanted."""

    def schema(*inside: NestedField) -> Schema:
        return Schema(NestedField(1, "s", StructType(*inside)))

    x, y, new = (NestedField(2 + n, name, LongType()) for n, name in enumerate(("x", "y", "new")))
    values = [{"s": {"x": 1, "y": 2}}, {"s": None}, {"s": {"x": None, "y": 3}}]
    path = tmp_path / "data.parquet"
    pq.write_table(
        pa.Table.from_pylist(values, schema=arrow_schema(schema(x, y))), path, use_dictionary=False
    )
    task = FileScanTask(DataFile.from_args(file_path=str(path), file_format=FileFormat.PARQUET))
    assert _read(task, schema(new), AlwaysTrue()) == [{"s": {"new": None}}, {"s": None}, {"s": {"new": None}}]
    _damage(path, 0, 1)
    assert _read(task, schema(x), AlwaysTrue()) == [{"s": {"x": 1}}, {"s": None}, {"s": {"x": None}}]
    with pytest.raises(OSError, match=r"\S"):
        _read(task, schema(x, y), AlwaysTrue())


def test_columns_that_changed_names_keep_their_values(task: FileScanTask) -> None:
    """A condition speaks of the names of today, also where two columns have swapped them."""
    swapped = Schema(NestedField(1, "b", LongType()), NestedField(2, "a", LongType()))
    assert _read(task, swapped, EqualTo("b", 3)) == [{"b": 3, "a": 997}]
    added = Schema(NestedField(9, "d", StringType()), NestedField(1, "a", LongType()))
    assert _read(task, added, And(EqualTo("a", 3), IsNull("d"))) == [{"d": None, "a": 3}]
    alone = Schema(NestedField(9, "d", StringType()))
    assert _read(task, alone, IsNull("d")) == _read(task, alone, AlwaysTrue()) == [{"d": None}] * ROWS


def test_maps_lists_and_structs_are_read_as_they_are(tmp_path: Path) -> None:
    """Null, empty and nested ones, also below a condition; a field that a map's structs got later is null."""

    def schema(*inside: NestedField) -> Schema:
        tags = MapType(3, StringType(), 4, StructType(*inside), value_required=False)
        days = MapType(9, StringType(), 10, LongType(), value_required=False)
        return Schema(
            NestedField(1, "n", LongType()),
            NestedField(2, "tags", tags),
            NestedField(7, "days", ListType(8, days, element_required=False)),
        )

    sizes = NestedField(5, "sizes", ListType(6, LongType(), element_required=False))
    before, after = schema(sizes), schema(sizes, NestedField(11, "new", StringType()))
    values = [
        {"n": 0, "tags": [("a", {"sizes": [1, None]}), ("b", None)], "days": [[("x", 1)], None, []]},
        {"n": 1, "tags": None, "days": None},
        {"n": 2, "tags": [], "days": []},
        {"n": 3, "tags": [("c", {"sizes": None})], "days": [[("y", 2), ("z", None)]]},
    ]
    path = tmp_path / "data.parquet"
    pq.write_table(pa.Table.from_pylist(values, schema=arrow_schema(before)), path)
    task = FileScanTask(DataFile.from_args(file_path=str(path), file_format=FileFormat.PARQUET))
    assert _read(task, before, AlwaysTrue()) == values
    assert _read(task, before, GreaterThanOrEqual("n", 2)) == values[2:]
    assert _read(task, after, EqualTo("n", 3))[0]["tags"] == [("c", {"sizes": None, "new": None})]

"""Declared types, and tables whose columns are not what a pipeline expects."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from spark_jobs.commit.table_creation import create_table
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.progress import Progress
from spark_jobs.schema.iceberg_types import check_columns, declared_type

if TYPE_CHECKING:
    from tests.support.lake import Lake


@pytest.mark.parametrize(
    ("declared", "read"),
    [
        ("long", "long"),
        ("decimal(9, 2)", "decimal(9, 2)"),
        (" fixed[ 4 ] ", "fixed[4]"),
        ("list<struct<a: int, b: map<string, double>>>", "list<struct<1: a: optional int, ...>>"),
        ("timestamptz", "timestamptz"),
    ],
)
def test_declared_types(declared: str, read: str) -> None:
    """Every type a configuration may name; nested fields are optional."""
    kind = declared_type(declared)
    if "<" not in declared:
        assert str(kind) == read
    else:
        element = kind.element_type  # type: ignore[attr-defined]
        assert [(f.name, str(f.field_type), f.required) for f in element.fields] == [
            ("a", "int", False),
            ("b", "map<string, double>", False),
        ]


def test_the_declared_types_are_the_tables(sqlite_lake: Lake) -> None:
    """Equal types pass, columns the table does not have yet pass, a clash names both types."""
    table = sqlite_lake.make_table()
    check_columns(table, {"id": "long", "at": "timestamptz", "new": "list<struct<a: int>>"})
    with pytest.raises(ConfigError) as caught:
        check_columns(table, {"id": "string"})
    assert caught.value.code == "column-clash"
    assert caught.value.message == "column id has type long in the table, but Sluice writes string"


@pytest.mark.parametrize(
    ("there", "declared", "fits"),
    [
        ("struct<a: int, b: long>", "struct<a: int>", True),
        ("list<struct<b: long, a: int>>", "list<struct<a: int>>", True),
        ("map<string, struct<a: int, b: long>>", "map<string, struct<a: int>>", True),
        ("struct<a: int>", "struct<a: int, b: long>", False),
        ("struct<a: long>", "struct<a: int>", False),
        ("struct<a: int>", "struct<a: long>", True),
        ("struct<a: int>", "struct<a: double>", False),
        ("decimal(5,2)", "decimal(9,2)", True),
        ("decimal(5,2)", "decimal(9,3)", False),
        ("list<int>", "struct<a: int>", False),
        ("map<int, int>", "map<long, int>", False),
    ],
)
def test_a_declared_struct_may_have_gained_fields(
    sqlite_lake: Lake, there: str, declared: str, fits: bool
) -> None:
    """Records bring fields that nobody declared; those that were declared can have their types."""
    table = sqlite_lake.make_table()
    with table.update_schema() as update:
        update.add_column("nested", declared_type(there))
    with nullcontext() if fits else pytest.raises(ConfigError):
        check_columns(sqlite_lake.load(), {"nested": declared})


def test_the_keys_format_is_the_tables(sqlite_lake: Lake) -> None:
    """A table made for string keys is not written with binary ones."""
    table = sqlite_lake.make_table()
    with pytest.raises(ConfigError) as caught:
        check_columns(table, {}, key_is_binary=True)
    assert caught.value.message == "column _kafka_key has type string in the table, but Sluice writes binary"


def test_two_columns_of_one_name_in_files_are_named(sqlite_lake: Lake) -> None:
    """Such a table was made by an earlier version: what it needs is said, not where it fails."""
    table = sqlite_lake.make_table()
    with table.update_schema() as update:
        for name in ("1h", "_1h"):
            update.add_column(name, LongType())
    with pytest.raises(ConfigError) as caught:
        check_columns(sqlite_lake.load(), {})
    assert caught.value.code == "column-clash"
    assert "multiple fields for name _1h" in caught.value.message
    assert "Drop or rename one" in str(caught.value)
    with sqlite_lake.load().update_schema() as update:
        update.delete_column("_1h")
    check_columns(sqlite_lake.load(), {})


def test_a_field_of_our_columns_name_is_refused(sqlite_lake: Lake) -> None:
    """It would hold two things."""
    schema = Schema(NestedField(1, "_kafka_offset", LongType(), required=False))
    with pytest.raises(ConfigError) as caught:
        create_table(
            sqlite_lake.open(),
            sqlite_lake.name(),
            schema,
            partition_by=(),
            properties={},
            progress=Progress("t", 0, {}),
            dead_letters=False,
        )
    assert caught.value.code == "reserved-column"

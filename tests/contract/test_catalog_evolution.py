"""New columns: added once whoever asks, and nothing else changes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, IntegerType, ListType, LongType, NestedField, StringType, StructType

from spark_jobs.commit.anchor import check_anchor
from spark_jobs.commit.columns_commit import commit_columns
from spark_jobs.commit.table_creation import create_table
from spark_jobs.lake.tables import evolve_table, progress_of
from spark_jobs.protocol.errors import SourceChanged
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.work import NoFailPoints
from spark_jobs.schema.arrow_schema import arrow_schema, json_columns
from spark_jobs.schema.placing import Rules, place
from spark_jobs.schema.writer_schema import WriterColumns

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.types import IcebergType

    from spark_jobs.schema.evolution import Evolution
    from tests.support.lake import Lake

_STRUCT = StructType(NestedField(3, "a", LongType(), required=False))
_ELEMENT = StructType(NestedField(5, "a", LongType(), required=False))
_NESTED = Schema(
    NestedField(1, "s", _STRUCT, required=False),
    NestedField(2, "l", ListType(4, _ELEMENT, element_required=False), required=False),
)


def test_new_columns_keep_snapshot_and_progress(lake: Lake) -> None:
    """The schema is new, the rows and offsets are the same, and the next batch has the column."""
    lake.make_table()
    lake.drain(0, 10)
    before = lake.load()
    after = evolve_table(lake.open, lake.name(), [(("speed",), DoubleType())])
    assert after.metadata.current_snapshot_id == before.metadata.current_snapshot_id
    assert progress_of(after) == progress_of(before)
    assert json_columns(after).names == ["id", "name", "at", "speed"]
    assert arrow_schema(after.schema()).names[-1] == "speed"
    lake.drain(10, 20)
    assert lake.load().scan().to_arrow()["speed"].null_count == 20


def test_asking_again_changes_nothing(lake: Lake) -> None:
    """What is there stays, of whatever type another run chose."""
    lake.make_table()
    evolve_table(lake.open, lake.name(), [(("speed",), DoubleType())])
    before = lake.load().metadata
    after = evolve_table(lake.open, lake.name(), [(("speed",), StringType())])
    assert after.metadata.current_schema_id == before.current_schema_id
    assert str(after.schema().find_type("speed")) == "double"


def test_two_runs_add_at_once(lake: Lake) -> None:
    """Each gets a table with its own columns; no column is there twice."""
    lake.make_table()
    additions = [[(("a",), LongType()), (("b",), LongType())], [(("b",), LongType()), (("c",), LongType())]]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda added: evolve_table(lake.open, lake.name(), added), additions))
    assert sorted(json_columns(lake.load()).names) == ["a", "at", "b", "c", "id", "name"]


def test_fields_inside_structs_and_lists(sqlite_lake: Lake) -> None:
    """At any depth, with and without the list's own ``element`` in the path."""
    lake = sqlite_lake
    create_table(
        lake.open(),
        lake.name(),
        _NESTED,
        partition_by=(),
        properties={},
        progress=Progress("t", 0, {}),
        dead_letters=False,
    )
    paths = [("s", "b"), ("l", "b"), ("l", "element", "c")]
    for _ in range(2):
        table = evolve_table(lake.open, lake.name(), [(path, LongType()) for path in paths])
    assert [str(field.type) for field in json_columns(table)] == [
        "struct<a: int64, b: int64>",
        "list<element: struct<a: int64, b: int64, c: int64>>",
    ]
    same = evolve_table(lake.open, lake.name(), [(("s", "a", "deeper"), LongType())])
    assert same.metadata.current_schema_id == table.metadata.current_schema_id


def test_a_table_that_is_gone_is_a_named_error(sqlite_lake: Lake) -> None:
    """Evolving never makes a table."""
    with pytest.raises(SourceChanged):
        evolve_table(sqlite_lake.open, sqlite_lake.name(), [(("a",), LongType())])


def test_two_runs_that_learn_different_schemas_at_once_leave_one_column_map(lake: Lake) -> None:
    """Each field has one column, whichever run came first; asked again, nothing is lacking."""
    lake.make_table()
    kinds: list[IcebergType] = [LongType(), StringType(), DoubleType()]
    schemas = [
        WriterColumns(StructType(NestedField(1, "size", kind, required=False)), {1: "size"}) for kind in kinds
    ]

    def learn(schema: WriterColumns) -> Table:
        def lacks(table: Table) -> Evolution:
            return place([schema], table.schema(), progress_of(table).columns, Rules(99))[0]

        return commit_columns(lake.open, lake.name(), lacks, NoFailPoints())

    before = progress_of(lake.load())
    with ThreadPoolExecutor(3) as pool:
        for made in pool.map(learn, schemas):
            assert "size" in made.schema().column_names
    after = lake.load()
    bound = progress_of(after).columns["size"]
    types = {kind: str(after.schema().find_field(each).field_type) for kind, (each,) in bound.items()}
    assert types == {"long": "long", "string": "string", "double": "double"}
    assert sorted(json_columns(after).names) == ["at", "id", "name", "size", "size_2", "size_3"]
    assert replace(progress_of(after), columns={}, anchor=None) == replace(before, anchor=None)
    check_anchor(after)
    lake.drain(0, 10)
    assert progress_of(learn(schemas[0])).columns == {"size": bound}


def test_a_column_that_is_new_may_be_widened_at_once(sqlite_lake: Lake) -> None:
    """By a schema of the same batch; inside structs and lists that are new as well."""
    sqlite_lake.make_table()

    def version(number: IcebergType) -> WriterColumns:
        item = StructType(NestedField(3, "z", number, required=False))
        size = NestedField(1, "size", number, required=False)
        items = NestedField(2, "items", ListType(4, item, element_required=False), required=False)
        return WriterColumns(StructType(size, items), {1: "size", 2: "items", 3: "items.element.z"})

    def lacks(table: Table) -> Evolution:
        versions = [version(IntegerType()), version(LongType())]
        return place(versions, table.schema(), progress_of(table).columns, Rules(99))[0]

    made = commit_columns(sqlite_lake.open, sqlite_lake.name(), lacks, NoFailPoints())
    assert str(made.schema().find_type("size")) == "long"
    assert str(made.schema().find_type("items.element.z")) == "long"
    assert not lacks(made)

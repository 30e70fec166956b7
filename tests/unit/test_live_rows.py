"""Rows of keys are found where they are, once, and not where they were deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

from spark_jobs.commit.mirror_commit import stage_mirror
from spark_jobs.commit.swap import send, stage_append
from spark_jobs.commit.table_creation import create_table
from spark_jobs.lake.catalog import open_catalog
from spark_jobs.lake.data_files import to_data_file
from spark_jobs.lake.parquet_writer import SplitWriter
from spark_jobs.lake.tables import load_table, progress_of
from spark_jobs.mirror.keys import Cut
from spark_jobs.mirror.live_rows import locate
from spark_jobs.protocol.errors import CorruptLog
from spark_jobs.protocol.progress import Progress
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.iceberg_types import (
    GENERATION,
    MIRROR_COLUMNS,
    OFFSET,
    OPERATION,
    PARTITION,
    ROW_ID,
    SEQUENCE,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from spark_jobs.protocol.batch import WrittenFile

NAME = "lab.mirror"


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """A catalog with an empty mirror."""
    opened = open_catalog(
        "here", {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": tmp_path.as_uri()}
    )
    fields = [NestedField(1, "name", StringType(), required=False)]
    fields += [each.model_copy(update={"field_id": n}) for n, each in enumerate(MIRROR_COLUMNS.fields, 2)]
    progress = Progress("topic", 1, {0: 0}, layout="mirror", starts={0: 0})
    given: dict[str, Any] = {"partition_by": (), "properties": {}, "dead_letters": False}
    create_table(opened, NAME, Schema(*fields), progress=progress, **given)
    return opened


def _table(catalog: Catalog) -> Table:
    table = load_table(catalog, NAME)
    assert table is not None
    return table


def _written(table: Table, events: list[tuple[str, str, int]], group: int = 1_000) -> list[WrittenFile]:
    """Write events (operation, key, offset) as a file of row groups; an offset is the position, too."""
    schema = arrow_schema(table.schema())
    operations, keys, offsets = (list(each) for each in zip(*events, strict=True))
    here = {OPERATION: operations, ROW_ID: keys, SEQUENCE: offsets, OFFSET: offsets}
    here |= {PARTITION: [0] * len(events), GENERATION: [1] * len(events)}
    columns = [
        pa.array(here[field.name], field.type) if field.name in here else pa.nulls(len(events), field.type)
        for field in schema
    ]
    writer = SplitWriter(
        table.metadata, table.io, file_prefix=uuid4().hex, row_group_bytes=1, max_open_files=1
    )
    for first in range(0, len(events), group):
        writer.write(pa.Table.from_arrays(columns, schema=schema).slice(first, group))
    return writer.close()


def _take(catalog: Catalog, *events: tuple[str, str, int]) -> Table:
    """Commit a batch of events, as a drain does."""
    table = _table(catalog)
    attempt = uuid4().hex
    swap = stage_mirror(
        table, attempt, _written(table, [*events]), progress_of(table).with_attempt(attempt), {}
    )
    send(catalog, table, swap)
    return _table(catalog)


def _keys(table: Table) -> list[str]:
    return sorted(table.scan(selected_fields=(ROW_ID,)).to_arrow().column(ROW_ID).to_pylist())


def test_a_row_is_found_until_it_is_deleted(catalog: Catalog) -> None:
    """And of the deletes of many commits one file is left, in which all still stand."""
    table = _take(catalog, ("c", "a", 1), ("c", "b", 2), ("c", "c", 3), ("c", "b", 4))
    assert _keys(table) == ["a", "b", "c"]
    assert locate(table, pa.array(["b", "x", "c"])).rows == 2
    table = _take(catalog, ("d", "b", 5), ("u", "a", 6))
    assert _keys(table) == ["a", "c"]
    assert locate(table, pa.array(["b"])).rows == 0
    for offset in range(7, 17):
        table = _take(catalog, ("u", "c", offset))
    assert _keys(table) == ["a", "c"]
    assert 0 < locate(table, pa.array(["a"])).delete_files <= 8
    snapshot = table.metadata.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    told = int(snapshot.summary.additional_properties["total-delete-files"])
    assert told == locate(table, pa.array(["a"])).delete_files


@pytest.mark.parametrize("wanted", [[3], [0, 59], [*range(18, 43)], [*range(0, 60, 7)], [*range(60)]])
def test_rows_are_found_in_whichever_row_groups_they_are(catalog: Catalog, wanted: list[int]) -> None:
    """Groups that stand together are read together; those between that cannot have a key are passed over."""
    table = _table(catalog)
    (file,) = _written(table, [("c", f"{key:02}", key + 1) for key in range(60)], group=5)
    groups = pq.read_metadata(file.path.removeprefix("file://")).num_row_groups
    assert groups == 60 // 5
    swap = stage_append(
        table, [to_data_file(file, table.metadata)], progress_of(table).with_attempt("other"), {}
    )
    send(catalog, table, swap)
    keys = [f"{key:02}" for key in wanted]
    located = locate(_table(catalog), pa.array([*keys, "x"]))
    assert {path: found.tolist() for path, found in located.found.items()} == {file.path: wanted}
    after = _take(catalog, *(("d", key, 100 + at) for at, key in enumerate(keys)))
    assert _keys(after) == [f"{key:02}" for key in range(60) if key not in wanted]
    assert locate(after, pa.array(keys)).rows == 0


def test_a_truncate_takes_what_is_below_it(catalog: Catalog) -> None:
    """Files that are wholly below go, of others the rows below; what comes later from below is not let in.

    A row at its very place stays, also where it is the last of its file.
    """
    _take(catalog, ("c", "a", 1), ("c", "b", 2))
    _take(catalog, ("c", "c", 3), ("c", "d", 9))
    _take(catalog, ("c", "g", 4), ("c", "h", 5))
    table = _take(catalog, ("t", "", 5), ("c", "e", 4), ("c", "f", 6))
    assert _keys(table) == ["d", "f", "h"]
    assert len(list(table.scan().plan_files())) == 3
    table = _take(catalog, ("c", "a", 4), ("u", "d", 10))
    assert _keys(table) == ["d", "f", "h"]


def test_a_key_that_is_there_twice_is_not_committed_to(catalog: Catalog) -> None:
    """Another writer added it: which of both is right nobody knows."""
    table = _take(catalog, ("c", "a", 1))
    files = [to_data_file(file, table.metadata) for file in _written(table, [("c", "a", 2)])]
    send(catalog, table, stage_append(table, files, progress_of(table).with_attempt("other"), {}))
    with pytest.raises(CorruptLog) as refused:
        _take(catalog, ("u", "a", 3))
    assert refused.value.code == "mirror-key-twice"
    assert _keys(_take(catalog, ("u", "b", 4))) == ["a", "a", "b"]


def test_a_truncate_of_before_a_restart_takes_no_row_of_after_it(catalog: Catalog) -> None:
    """A restored database counts from below: by bounds alone its files would go whole."""
    table = _take(catalog, ("c", "a", 1), ("c", "b", 2))
    none = pa.array([], pa.string())
    assert len(locate(table, none, Cut(0, 100)).whole) == 1
    located = locate(table, none, Cut(0, 100, ({0: 1},)))
    assert (located.whole, located.rows) == ((), 0)
    located = locate(table, none, Cut(0, 100, ({0: 2},)))
    assert (located.whole, located.rows) == ((), 1)

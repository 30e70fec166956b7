"""Columns of another type come with the commit of their rows, in every catalog, and go back with them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.types import DoubleType, IntegerType, StringType

from spark_jobs.commit.columns_commit import PlannedColumns
from spark_jobs.commit.swap import send, stage_append, stage_rewind
from spark_jobs.lake.tables import evolve_table, progress_of
from spark_jobs.protocol.errors import CommitConflict

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.commit.swap import Swap
    from tests.support.lake import Lake


def _staged(planned: PlannedColumns, table: Table) -> Swap:
    to_be = planned.on(table)
    mirror = replace(progress_of(to_be), layout="mirror")
    return planned.as_sent(stage_append(to_be, (), mirror, {}), table)


def _names(lake: Lake, snapshot_id: int | None = None) -> set[str | None]:
    return set(lake.load().scan(snapshot_id=snapshot_id).to_arrow()["name"].to_pylist())


def test_another_column_comes_with_a_snapshot_and_goes_with_it(lake_with_history: Lake) -> None:
    """Each snapshot is read with the column that it was written for; a rollback brings the old one back."""
    lake = lake_with_history
    lake.make_table()
    before = lake.drain(0, 10).snapshot_id
    base = lake.load()
    names = _names(lake)
    send(lake.open(), base, _staged(PlannedColumns(base, {"name": IntegerType()}), base))
    after = lake.load()
    snapshot = after.metadata.current_snapshot()
    assert snapshot is not None
    assert snapshot.schema_id == after.metadata.current_schema_id
    assert [each.name for each in after.schema().fields] == [each.name for each in base.schema().fields]
    assert after.schema().find_field("name").field_id > base.metadata.last_column_id
    assert after.schema().identifier_field_names() == base.schema().identifier_field_names()
    assert isinstance(after.schema().find_type("name"), IntegerType)
    assert (_names(lake), _names(lake, before)) == ({None}, names)

    send(lake.open(), after, stage_rewind(after, before, progress_of(after), {}))
    assert isinstance(lake.load().schema().find_type("name"), StringType)
    assert _names(lake) == names


def test_columns_that_were_changed_meanwhile_refuse_it(lake_with_history: Lake) -> None:
    """By the catalog where it was staged before, then by the plan: another column may have its id."""
    lake = lake_with_history
    lake.make_table()
    base = lake.load()
    planned = PlannedColumns(base, {"name": IntegerType()})
    swap = _staged(planned, base)
    evolve_table(lake.open, lake.name(), [(("speed",), DoubleType())])
    with pytest.raises(CommitFailedException):
        send(lake.open(), base, swap)
    with pytest.raises(CommitConflict, match="columns changed"):
        planned.on(lake.load())
    assert lake.load().schema().column_names[:3] == ["id", "name", "at"]

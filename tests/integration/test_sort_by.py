"""`sort_by` from the first batch to compaction: the same rows, found with less reading."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from prove.lab.pipeline_lab import PIPELINE, configure, orders
from spark_jobs.audit.trace import trace
from spark_jobs.audit.trace_answers import Where
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.schema.declared import sorted_by
from tests.support.upkeep_lab import set_upkeep, tidy

if TYPE_CHECKING:
    from prove.lab.pipeline_lab import Lab
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SMALL_GROUPS = {"write.parquet.row-group-size-bytes": "2048"}


def _row_groups_read(lab: Lab, customer: str) -> tuple[int, int]:
    """Row groups that a reader opens for one customer, and all there are."""
    found = [
        (len(fragment.subset(filter=pc.field("customer") == customer).row_groups), len(fragment.row_groups))
        for task in lab.table().scan().plan_files()
        for fragment in ds.dataset(task.file.file_path.removeprefix("file://")).get_fragments()
    ]
    return sum(read for read, _ in found), sum(there for _, there in found)


def test_rows_are_sorted_by_drains_and_wholly_by_compaction(
    new_lab: NewLab, caplog: pytest.LogCaptureFixture
) -> None:
    """A column that is not there yet is told and taken in later; replay, audit and trace find every row."""
    lab = new_lab(orders(0, 600), sort_by=["region", "customer"], table_properties=SMALL_GROUPS)
    set_upkeep(lab, compact_above=2)
    lab.drain()
    assert "sort_by names 1 column not there yet, region: rows are sorted by customer" in caplog.text
    new_lab.produce(lab, [json.dumps({"id": n, "region": f"r{n % 3}"}).encode() for n in range(600, 630)])
    lab.drain()
    for first in (630, 930, 1230):
        new_lab.produce(lab, orders(first, 300))
        lab.drain()
    table = lab.table()
    assert sorted_by(table.schema(), table.sort_order()) == ("region", "customer")
    lab.replay(OffsetRange(0, 100, 700))
    assert lab.audit().is_clean

    configure(lab, f"pipelines/{PIPELINE}", {"sort_by": ["customer"]})
    lab.drain()
    read_before, there_before = _row_groups_read(lab, "c3")
    tidy(lab, "compaction")
    assert len(list(lab.table().scan().plan_files())) == 1
    customers = lab.table().scan().to_arrow().select(["customer", "_kafka_offset"]).to_pylist()
    assert customers == sorted(customers, key=lambda row: (row["customer"] or "", row["_kafka_offset"]))
    read, there = _row_groups_read(lab, "c3")
    assert read / there < read_before / there_before / 3

    lab.replay(OffsetRange(0, 1000, 1100))
    result = lab.audit()
    assert (result.is_clean, result.rows) == (True, 1530)
    with lab.connections() as connections:
        found = trace(lab.pipeline, connections, 0, 700)[0]
    assert found.where is Where.ROW
    assert found.place is not None
    assert found.place.position is not None
    with lab.table().io.new_input(found.place.file).open() as stream:
        offsets = pq.read_table(stream, columns=["_kafka_offset"]).column(0)
    assert offsets[found.place.position].as_py() == 700

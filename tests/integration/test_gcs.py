"""A pipeline whose tables and log are on Google Cloud Storage, by fake-gcs-server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.lab.pipeline_lab import configure
from spark_jobs.query.query import query
from spark_jobs.storage.create_only import CreateOnlyStore
from tests.support.new_lab import NewLab
from tests.support.upkeep_lab import drain_often, expect_whole, set_upkeep, tidy

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.gcs import Gcs
    from prove.lab.kafka_server import KafkaBroker
    from prove.lab.pipeline_lab import Lab

pytestmark = pytest.mark.kafka


def lab_on(gcs: Gcs, new_lab: NewLab) -> Lab:
    """A pipeline with all that it keeps in the bucket."""
    lab = new_lab()
    configure(lab, "catalog", {"warehouse": gcs.location("lake"), **gcs.properties})
    configure(lab, "", {"state": gcs.location("log")})
    return lab


def test_records_and_dead_letters_come_and_are_read(gcs: Gcs, kafka: KafkaBroker, tmp_path: Path) -> None:
    """Two drains: all is there once by the audit, and queries find it."""
    new_lab = NewLab(kafka, "", tmp_path, is_here=True)
    lab = lab_on(gcs, new_lab)
    drain_often(lab, new_lab, 2)
    expect_whole(lab, 2)
    assert lab.table().location().startswith(gcs.location("lake"))
    asked = "SELECT (SELECT count(*) FROM orders) AS rows, (SELECT count(*) FROM dead_letters) AS letters"
    with lab.connections() as connections, query(lab.pipeline, connections, asked) as answer:
        assert [row for batch in answer.batches for row in batch.to_pylist()] == [{"rows": 20, "letters": 2}]


@pytest.mark.spark
def test_upkeep_compacts_expires_and_removes_strays(gcs: Gcs, new_lab: NewLab) -> None:
    """Iceberg on Spark rewrites the tables in the bucket; old strays go, and what tables name stays."""
    lab = lab_on(gcs, new_lab)
    set_upkeep(lab, compact_above=5, keep_snapshots=1)
    drain_often(lab, new_lab, 5)
    assert [table.after.data_files for table in tidy(lab, "compaction").tables] == [1, 1]
    assert [table.after.snapshots for table in tidy(lab, "snapshots").tables] == [1, 1]
    lake = CreateOnlyStore(lab.table().location(), gcs.properties)
    lake.create("data/stray.parquet", b"stray")
    gcs.order(is_old=True)
    assert [table.done.counts["deleted"] for table in tidy(lab, "orphans").tables] == [1, 0]
    gcs.order()
    assert lake.read("data/stray.parquet") is None
    drain_often(lab, new_lab, 1)
    expect_whole(lab, 6)

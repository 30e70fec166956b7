"""The same work on a standalone Spark cluster, whose workers do not have Sluice."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from prove.lab.new_lab import configure
from prove.lab.pipeline_lab import TABLE, make_lab, orders
from prove.lab.spark_cluster import spark_cluster
from resources.spark import PARALLELISM
from spark_jobs.compact import compact
from spark_jobs.io.metadata_columns import INGESTED_AT, OFFSET
from tests.support.upkeep_lab import tidy

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from prove.lab.kafka_server import KafkaBroker
    from prove.lab.pipeline_lab import Lab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

RECORDS = 20_500  # more than one task takes
TASKS = 4


def _content(lab: Lab) -> pa.Table:
    """Every column but the time of ingestion, in the order of the topic."""
    return lab.rows().drop_columns([INGESTED_AT]).sort_by(OFFSET)


def test_a_standalone_cluster_does_the_same(kafka: KafkaBroker, tmp_path: Path) -> None:
    """Both workers take part with the code that came along; rows are the same, and upkeep runs there."""
    topic = kafka.new_topic(1, retention_ms=-1)
    kafka.produce(topic, [*orders(0, RECORDS), b"not json"])
    alone = make_lab(tmp_path / "alone", bootstrap=kafka, topic=topic, spark_remote=None)
    alone.drain()
    with spark_cluster(tmp_path / "cluster") as cluster:
        asked = [cluster.python, "-c", "import spark_jobs"]
        assert subprocess.run(asked, cwd=tmp_path, capture_output=True, check=False).returncode == 1
        lab = make_lab(tmp_path / "spread", bootstrap=kafka, topic=topic, spark_remote=cluster.remote)
        configure(lab, "spark", {"conf": {PARALLELISM: str(TASKS)}})
        (batch,) = lab.drain().batches
        assert (batch.balance.rows, batch.balance.dead_letters) == (RECORDS, 1)
        assert all(list(folder.rglob("spark_jobs-*.zip")) for folder in cluster.worker_folders)
        assert len(list(lab.table(TABLE).scan().plan_files())) == TASKS
        tidy(lab, compact)
        assert len(list(lab.table(TABLE).scan().plan_files())) == 1
    assert _content(lab) == _content(alone)

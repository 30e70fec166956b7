"""Dagster's own processes killed in the middle of a run, and started again over the same state."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from dagster import DagsterInstance, DagsterRunStatus, RunsFilter

from prove.lab.pipeline_lab import TABLE, make_lab, orders
from servers.dagster import DagsterSettings, start_dagster
from servers.process import free_ports
from spark_jobs.lake.catalog import close_catalog
from spark_jobs.lake.tables import load_table, progress_of

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker
    from prove.lab.pipeline_lab import Lab
    from servers.dagster import DagsterServers

RECORDS = 3_000
BATCH = 200  # so that the run is still at work when it is killed
PATIENCE_SECONDS = 200.0


def start(folder: Path, lab: Lab) -> DagsterServers:
    """Daemon and webserver over the lab's configuration."""
    return start_dagster(DagsterSettings(folder / "home", lab.path, free_ports(1)[0]))


def next_offset(lab: Lab) -> int:
    """How far the table is; 0 without one."""
    with lab.connections() as connections:
        catalog = connections.open_catalog()
        table = load_table(catalog, TABLE)
        close_catalog(catalog)
    return progress_of(table).next_offsets.get(0, 0) if table is not None else 0


def wait_beyond(lab: Lab, offset: int) -> None:
    """Wait until the table has got further than ``offset``."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while next_offset(lab) <= offset:
        assert time.monotonic() < deadline, f"no commit beyond offset {offset}"
        time.sleep(0.1)


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.faults
def test_a_killed_dagster_goes_on_where_it_was(kafka: KafkaBroker, spark_remote: str, tmp_path: Path) -> None:
    """After kill -9 of daemon, code server and run, a new start goes on by itself and loses nothing."""
    topic = kafka.new_topic()
    kafka.produce(topic, orders(0, RECORDS))
    lab = make_lab(
        tmp_path,
        bootstrap=kafka,
        topic=topic,
        spark_remote=spark_remote,
        freshness="5s",
        max_batch_records=BATCH,
    )
    first = start(tmp_path, lab)
    wait_beyond(lab, BATCH)
    first.kill()
    reached = next_offset(lab)
    assert reached < RECORDS
    second = start(tmp_path, lab)
    try:
        # The five minutes' checks may have been under way as well.
        assert second.failed_runs >= 1
        wait_beyond(lab, RECORDS - 1)
        assert sorted(lab.rows().column("id").to_pylist()) == list(range(RECORDS))
        with DagsterInstance.from_config(str(tmp_path / "home" / "dagster")) as instance:
            failed = instance.get_runs(RunsFilter(job_name="drain", statuses=[DagsterRunStatus.FAILURE]))
        assert [run.tags["sluice/pipeline"] for run in failed] == [lab.pipeline.name]
    finally:
        second.stop()

"""A pipeline that Dagster's own daemon drains, with a webserver to look at: what a browser is shown."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dagster import DagsterInstance, DagsterRunStatus, RunsFilter
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill

from prove.lab.pipeline_lab import Lab, make_lab
from servers.dagster import DagsterSettings, start_dagster
from servers.process import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker

ORDERS = "orders"
ORDERS_RECORDS = 620_000  # more offsets than one replay window holds
PATIENCE_SECONDS = 600.0

_POLL_SECONDS = 1.0
_UNDER_WAY = (BulkActionStatus.REQUESTED, BulkActionStatus.FAILING)


@dataclass(frozen=True, slots=True)
class Scene:
    """Where the webserver answers, and what is behind it."""

    url: str
    lab: Lab
    dagster_home: Path

    def wait_until_drained(self) -> None:
        """Wait until a run of the sensor's has succeeded; it asks again for one that failed."""
        with DagsterInstance.from_config(str(self.dagster_home)) as instance:
            deadline = time.monotonic() + PATIENCE_SECONDS
            succeeded = RunsFilter(job_name="drain", statuses=[DagsterRunStatus.SUCCESS])
            while not instance.get_runs(succeeded):
                assert time.monotonic() < deadline, [run.status for run in instance.get_runs()]
                time.sleep(_POLL_SECONDS)

    def wait_for_backfill(self) -> PartitionBackfill:
        """Wait until the newest backfill has ended, however it did."""
        with DagsterInstance.from_config(str(self.dagster_home)) as instance:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not (backfills := instance.get_backfills(limit=1)) or backfills[0].status in _UNDER_WAY:
                assert time.monotonic() < deadline, [run.status for run in instance.get_runs()]
                time.sleep(_POLL_SECONDS)
            return backfills[0]


@contextmanager
def open_scene(folder: Path, kafka: KafkaBroker, spark_remote: str) -> Iterator[Scene]:
    """Fill a topic and start Dagster over it, with all its state in ``folder``; stop it in the end."""
    kafka.create_topic(ORDERS, retention_ms=-1)
    kafka.produce(ORDERS, _order_values(), **{"linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
    lab = make_lab(
        folder,
        bootstrap=kafka,
        topic=ORDERS,
        spark_remote=spark_remote,
        table="sales.orders",
        freshness="5s",
        owners=["sales@example.com"],
    )
    settings = DagsterSettings(folder / "home", lab.path, free_ports(1)[0], dies_with_parent=True)
    servers = start_dagster(settings)
    try:
        yield Scene(servers.url, lab, settings.dagster_home)
    finally:
        servers.stop()


def _order_values() -> Iterator[bytes]:
    for n in range(ORDERS_RECORDS):
        yield b'{"id": %d, "customer": "c%d", "price": %d.5}' % (n, n % 1000, n % 90)

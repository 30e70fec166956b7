"""A pipeline that Dagster's own daemon drains, with a webserver to look at: what a browser is shown."""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING

from dagster import DagsterInstance, DagsterRun, DagsterRunStatus, RunsFilter
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill

from assets.pipeline_asset import table_key
from assets.replays import windows_of
from prove.lab.pipeline_lab import Lab, configure, make_lab
from servers.dagster import DagsterSettings, start_dagster
from servers.process import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker

ORDERS = "orders"
TOKEN = "the-scenes-token"
ORDERS_GONE = 490_000  # retention took them: those that are there lie in two replay windows all the same
ORDERS_RECORDS = 20_000
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

    @property
    def table_url(self) -> str:
        """The table's page."""
        return f"{self.url}/assets/{table_key(self.lab.pipeline).to_user_string()}"

    def wait_for_windows(self, number: int) -> None:
        """Wait until the sensor has registered so many windows that can be replayed."""
        with DagsterInstance.from_config(str(self.dagster_home)) as instance:
            deadline = time.monotonic() + PATIENCE_SECONDS
            name = windows_of(self.lab.pipeline).name or ""
            while len(there := instance.get_dynamic_partitions(name)) < number:
                assert time.monotonic() < deadline, there
                time.sleep(_POLL_SECONDS)

    def wait_for_run(self, is_meant: Callable[[DagsterRun], bool]) -> DagsterRunStatus:
        """Wait until the run that a person started in the UI and that is meant has ended; how it did."""
        with DagsterInstance.from_config(str(self.dagster_home)) as instance:
            deadline = time.monotonic() + PATIENCE_SECONDS
            by_hand = RunsFilter(tags={"dagster/from_ui": "true"})
            while True:
                meant = [run for run in instance.get_runs(by_hand) if is_meant(run)]
                if meant and meant[0].is_finished:
                    return meant[0].status
                assert time.monotonic() < deadline, [run.status for run in meant]
                time.sleep(_POLL_SECONDS)

    def failures(self) -> str:
        """What failed runs say, one paragraph each."""
        with DagsterInstance.from_config(str(self.dagster_home)) as instance:
            failed = instance.get_runs(RunsFilter(statuses=[DagsterRunStatus.FAILURE]))
            logs = [instance.all_logs(run.run_id) for run in failed]
        return "\n\n".join(str(event) for log in logs for event in log if event.level >= logging.ERROR)

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
    values = (*repeat(b"gone", ORDERS_GONE), *_order_values())
    kafka.produce(ORDERS, values, **{"linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
    kafka.delete_records(ORDERS, {0: ORDERS_GONE})
    lab = make_lab(
        folder,
        bootstrap=kafka,
        topic=ORDERS,
        spark_remote=spark_remote,
        table="sales.orders",
        freshness="5s",
        owners=["sales@example.com"],
    )
    configure(lab, "", {"ui": {"tokens": [f"${{file:{_token_file(folder)}}}"]}})
    settings = DagsterSettings(folder / "home", lab.path, free_ports(1)[0])
    servers = start_dagster(settings)
    try:
        yield Scene(servers.url, lab, settings.dagster_home)
    finally:
        servers.stop()


def _token_file(folder: Path) -> Path:
    file = folder / "ui-token"
    file.write_text(TOKEN)
    return file


def _order_values() -> Iterator[bytes]:
    for n in range(ORDERS_RECORDS):
        yield b'{"id": %d, "customer": "c%d", "price": %d.5}' % (n, n % 1000, n % 90)

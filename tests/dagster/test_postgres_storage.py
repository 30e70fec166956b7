"""Dagster's own records in a Postgres, by the settings that containers get."""

from __future__ import annotations

import datetime as dt
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from dagster import DagsterInstance, DagsterRunStatus, asset, materialize
from dagster_postgres import PostgresEventLogStorage
from sqlalchemy.engine import make_url

from assets.pipeline_asset import pools_of
from orchestration.event_log_upkeep import TAG_CODE_LOCATION, delete_old_runs, kept_since
from orchestration.pools import announce_pools
from prove.lab.postgres import PostgresCatalog, start_postgres
from servers.process import ServerFolder
from spark_jobs.config.settings import PipelineConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.postgres

SETTINGS = Path(__file__).parents[2] / "packaging/compose/dagster.yaml"
OURS = {TAG_CODE_LOCATION: "sluice"}


@pytest.fixture
def postgres(servers_folder: Path) -> Iterator[PostgresCatalog]:
    """An empty one."""
    server = start_postgres(ServerFolder(servers_folder, f"postgres-{uuid.uuid4().hex[:8]}"))
    yield server
    server.process.stop()


@pytest.fixture
def home(postgres: PostgresCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of Dagster's with the settings of containers, at this database."""
    settings: dict[str, Any] = yaml.safe_load(SETTINGS.read_text())
    there, address = settings["storage"]["postgres"]["postgres_db"], make_url(postgres.properties["uri"])
    there |= {"hostname": address.host, "port": address.port, "username": address.username}
    there |= {"db_name": address.database}
    monkeypatch.setenv("POSTGRES_PASSWORD", str(address.password))
    settings["local_artifact_storage"]["config"]["base_dir"] = str(tmp_path / "artifacts")
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(settings))
    return tmp_path


@asset(pool="local_spark")
def table() -> None:
    """Materialized twice."""


def test_runs_are_recorded_read_elsewhere_and_pruned(home: Path) -> None:
    """Who opens the instance on another machine sees runs and events; the old ones go; pools have limits."""
    with DagsterInstance.from_config(str(home)) as instance:
        assert isinstance(instance.event_log_storage, PostgresEventLogStorage)
        old, newest = (materialize([table], instance=instance, tags=OURS).run_id for _ in range(2))
    with DagsterInstance.from_config(str(home)) as elsewhere:
        found = {run.run_id: run.status for run in elsewhere.get_runs()}
        assert found == dict.fromkeys((old, newest), DagsterRunStatus.SUCCESS)
        event = elsewhere.get_latest_materialization_event(table.key)
        assert event is not None
        assert event.run_id == newest
        orders = PipelineConfig(name="orders", topic="orders", table="lake.orders")
        announce_pools(elsewhere, [orders])
        limits = {pool.name: pool.limit for pool in elsewhere.event_log_storage.get_pool_limits()}
        assert limits == dict.fromkeys(pools_of(orders), 1)
        assert elsewhere.get_concurrency_config().pool_config.default_pool_limit == 1
        bound = kept_since(elsewhere, "sluice", dt.datetime.min.replace(tzinfo=dt.UTC), rows=1)
        assert bound == elsewhere.get_run_records()[0].create_timestamp
        tomorrow = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
        assert delete_old_runs(elsewhere, "sluice", tomorrow, budget_seconds=30) == 1
        assert not elsewhere.all_logs(old)

"""Dagster's own records in a real Postgres, by the settings that the runbook tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from dagster import DagsterEventType, DagsterInstance, job, op
from sqlalchemy.engine import make_url

from bootstrap.places import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.postgres


@op
def _greet() -> None:
    pass


@job
def greeting() -> None:
    """One step, in this process."""
    _greet()


def test_a_run_of_the_runbooks_instance_is_read_from_postgres(
    tmp_path: Path, postgres_catalog_properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With only the place in them changed, another process's instance finds the run and its events there."""
    at = make_url(postgres_catalog_properties["uri"])
    runbook = (ROOT / "docs" / "OPERATIONS.md").read_text(encoding="utf-8")
    settings = yaml.safe_load("storage:" + runbook.split("```yaml\nstorage:")[1].split("```")[0])
    settings["storage"]["postgres"]["postgres_db"] |= {
        "hostname": at.host,
        "port": at.port,
        "username": at.username,
        "db_name": at.database,
    }
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(settings))
    monkeypatch.setenv("POSTGRES_PASSWORD", str(at.password))
    with DagsterInstance.from_config(str(tmp_path)) as instance:
        run_id = greeting.execute_in_process(instance=instance).run_id
    with DagsterInstance.from_config(str(tmp_path)) as instance:
        run = instance.get_run_by_id(run_id)
        assert run is not None
        assert run.is_success
        events = {entry.dagster_event_type for entry in instance.all_logs(run_id)}
    assert {DagsterEventType.STEP_SUCCESS, DagsterEventType.RUN_SUCCESS} <= events
    assert not list(tmp_path.rglob("*.db"))

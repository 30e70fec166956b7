"""Pruning of what Dagster keeps for ever."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from dagster import DagsterInstance, asset, materialize

from orchestration.event_log_upkeep import delete_old_runs

if TYPE_CHECKING:
    from pathlib import Path


@asset
def busy() -> None:
    """Materialized often."""


@asset
def idle() -> None:
    """Materialized once."""


def test_old_runs_go_and_the_last_of_each_asset_stays(tmp_path: Path) -> None:
    """Runs and events before the bound are deleted, newer ones stay, and no asset looks unmaterialized."""
    with DagsterInstance.local_temp(str(tmp_path)) as instance:
        first = materialize([idle], instance=instance).run_id
        old = [materialize([busy], instance=instance).run_id for _ in range(3)]
        bound = dt.datetime.now(dt.UTC)
        assert delete_old_runs(instance, bound - dt.timedelta(hours=1), budget_seconds=30) == 0
        assert delete_old_runs(instance, bound + dt.timedelta(seconds=1), budget_seconds=30) == 2
        assert {run.run_id for run in instance.get_runs()} == {first, old[-1]}
        assert not instance.all_logs(old[0])
        assert instance.get_latest_materialization_event(idle.key) is not None

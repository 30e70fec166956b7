"""Pruning of what Dagster keeps for ever."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from dagster import DagsterInstance, asset, materialize

from orchestration.event_log_upkeep import (
    TAG_CODE_LOCATION,
    delete_old_runs,
    event_log_upkeep_job,
    kept_since,
)

if TYPE_CHECKING:
    from pathlib import Path


OURS = {TAG_CODE_LOCATION: "sluice"}
THEIRS = {TAG_CODE_LOCATION: "another_team"}


@asset
def busy() -> None:
    """Materialized often."""


@asset
def idle() -> None:
    """Materialized once."""


def test_old_runs_go_and_the_last_of_each_asset_stays(tmp_path: Path) -> None:
    """Runs before the bound go with their files, newer ones stay, and no asset looks unmaterialized."""
    with DagsterInstance.local_temp(str(tmp_path)) as instance:
        first = materialize([idle], instance=instance, tags=OURS).run_id
        old = [materialize([busy], instance=instance, tags=OURS).run_id for _ in range(3)]
        bound = dt.datetime.now(dt.UTC)
        assert delete_old_runs(instance, "sluice", bound - dt.timedelta(hours=1), budget_seconds=30) == 0
        assert delete_old_runs(instance, "sluice", bound + dt.timedelta(seconds=1), budget_seconds=30) == 2
        assert {run.run_id for run in instance.get_runs()} == {first, old[-1]}
        left = {file.name.partition(".")[0] for file in tmp_path.rglob("*.db*")}
        assert left & {first, *old} == {first, old[-1]}
        assert instance.get_latest_materialization_event(idle.key) is not None


def test_the_newest_runs_that_fill_the_rows_stay(tmp_path: Path) -> None:
    """Runs of the last two days go too if newer ones have enough rows; another team's are not counted."""
    with DagsterInstance.local_temp(str(tmp_path)) as instance:
        ours = [materialize([busy], instance=instance, tags=OURS).run_id for _ in range(3)]
        materialize([busy], instance=instance, tags=THEIRS)
        since, rows = dt.datetime.now(dt.UTC) - dt.timedelta(days=2), len(instance.all_logs(ours[0]))
        assert kept_since(instance, "sluice", since, 3 * rows + 1) == since
        bound = kept_since(instance, "sluice", since, rows + 1)
        assert delete_old_runs(instance, "sluice", bound, budget_seconds=30) == 1
        assert {run.run_id for run in instance.get_runs()} & set(ours) == {*ours[1:]}


def test_runs_of_other_code_locations_stay(tmp_path: Path) -> None:
    """In an instance that is shared, another team's history is not ours to delete, however old."""
    with DagsterInstance.local_temp(str(tmp_path)) as instance:
        theirs = [materialize([busy], instance=instance, tags=tags).run_id for tags in (THEIRS, {})]
        ours = [materialize([busy], instance=instance, tags=OURS).run_id for _ in range(2)]
        tomorrow = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
        assert delete_old_runs(instance, "sluice", tomorrow, budget_seconds=30) == 1
        assert {run.run_id for run in instance.get_runs()} == {*theirs, ours[-1]}


def test_a_run_that_no_workspace_started_deletes_nothing(tmp_path: Path) -> None:
    """Executed by hand it does not know which runs are its own, and says so."""
    with DagsterInstance.local_temp(str(tmp_path)) as instance:
        by_hand = event_log_upkeep_job.execute_in_process(instance=instance)
        started = event_log_upkeep_job.execute_in_process(instance=instance, tags=OURS)
        assert _said(instance, by_hand.run_id, "nothing deleted")
        assert _said(instance, started.run_id, "deleted 0 runs")


def _said(instance: DagsterInstance, run_id: str, text: str) -> bool:
    return any(text in entry.user_message for entry in instance.all_logs(run_id))

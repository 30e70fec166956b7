"""Runs that a dead daemon left, seen by the next start."""

from __future__ import annotations

from dagster import DagsterInstance, DagsterRunStatus
from dagster._core.test_utils import create_run_for_test

from servers.dagster_calls import fail_left_over_runs

LAUNCHED = {".dagster/grpc_info": "{}"}


def test_runs_of_a_dead_daemon_are_failed_and_others_left_alone() -> None:
    """What a daemon launched is failed in whatever phase; finished runs and the command line's are not."""
    with DagsterInstance.ephemeral() as instance:
        left = [
            create_run_for_test(instance, status=status, tags=LAUNCHED)
            for status in (DagsterRunStatus.STARTING, DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING)
        ]
        asked = create_run_for_test(
            instance, status=DagsterRunStatus.NOT_STARTED, tags={"dagster/sensor_name": "s"}
        )
        typed = create_run_for_test(instance, status=DagsterRunStatus.STARTED)
        done = create_run_for_test(instance, status=DagsterRunStatus.SUCCESS, tags=LAUNCHED)
        assert fail_left_over_runs(instance) == 4
        statuses = {run.run_id: run.status for run in instance.get_runs()}
        assert {statuses[run.run_id] for run in (*left, asked)} == {DagsterRunStatus.FAILURE}
        assert statuses[typed.run_id] == DagsterRunStatus.STARTED
        assert statuses[done.run_id] == DagsterRunStatus.SUCCESS
        assert fail_left_over_runs(instance) == 0

"""Deletes old runs with their logs, which Dagster never does: 140 KB each, 200 MB a day at one a minute.

Runs are old after two days, or sooner if newer ones have a million rows in the event log: some 4 GB.

Only runs of Sluice's own code location are deleted, since a Dagster instance may be shared. The run of an
asset's last materialization stays, so that an idle table does not look unmaterialized.
"""

import datetime as dt
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from dagster import (
    DagsterInstance,
    DagsterRunStatus,
    OpExecutionContext,
    RunsFilter,
    ScheduleDefinition,
    job,
    op,
)
from dagster._core.storage.event_log import SqlEventLogStorage, SqliteEventLogStorage
from dagster._core.storage.event_log.schema import SqlEventLogStorageTable
from sqlalchemy import func, select

from assets.pipeline_asset import OTHER_MAX_RUNTIME_SECONDS
from orchestration.jobs import SCHEDULE, run_tags

FINISHED = [DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED]
TAG_CODE_LOCATION = "dagster/code_location"  # set by Dagster on each run that a workspace started
KEPT_FOR = dt.timedelta(days=2)
KEPT_ROWS = 1_000_000
PASS_SECONDS = 600.0
PAGE_RUNS = 200


def kept_since(instance: DagsterInstance, code_location: str, since: dt.datetime, rows: int) -> dt.datetime:
    """Return ``since``, or when the newest of the location's runs was created that fill these rows."""
    filters = RunsFilter(statuses=FINISHED, created_after=since, tags={TAG_CODE_LOCATION: code_location})
    cursor = None
    while records := instance.get_run_records(filters, limit=PAGE_RUNS, cursor=cursor):
        of_run = _rows(instance.event_log_storage, [record.dagster_run.run_id for record in records])
        for record in records:
            rows -= of_run[record.dagster_run.run_id]
            if rows <= 0:
                return record.create_timestamp
        cursor = records[-1].dagster_run.run_id
    return since


def _rows(storage: object, run_ids: Sequence[str]) -> Counter[str]:
    """Return the number of rows that each of the runs has in the event log."""
    if isinstance(storage, SqliteEventLogStorage):
        return Counter({run_id: _rows_in(Path(storage.path_for_shard(run_id))) for run_id in run_ids})
    if not isinstance(storage, SqlEventLogStorage):
        return Counter()
    run_id = SqlEventLogStorageTable.c.run_id
    with storage.index_connection() as connection:
        found = connection.execute(select(run_id, func.count()).where(run_id.in_(run_ids)).group_by(run_id))
        return Counter(dict(found.fetchall()))


def _rows_in(path: Path) -> int:
    # Dagster's own connection would create the file, and takes several milliseconds.
    if not path.exists():
        return 0
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as file:
        return int(file.execute("SELECT count(*) FROM event_logs").fetchone()[0])


def delete_old_runs(
    instance: DagsterInstance, code_location: str, before: dt.datetime, *, budget_seconds: float
) -> int:
    """Delete the location's finished runs created before ``before``, oldest first; return their number.

    ``before`` is time-zone-aware.
    """
    deadline = time.monotonic() + budget_seconds
    kept = _newest_materializations(instance)
    deleted, cursor = 0, None
    while time.monotonic() < deadline:
        runs = instance.get_runs(
            RunsFilter(statuses=FINISHED, created_before=before, tags={TAG_CODE_LOCATION: code_location}),
            cursor=cursor,
            limit=PAGE_RUNS,
            ascending=True,
        )
        for run in runs:
            if run.run_id not in kept:
                instance.delete_run(run.run_id)
                instance.compute_log_manager.delete_logs(prefix=[run.run_id])
                _delete_file(instance.event_log_storage, run.run_id)
                deleted += 1
        kept_here = [run.run_id for run in runs if run.run_id in kept]
        if len(runs) < PAGE_RUNS:
            break
        cursor = kept_here[-1] if kept_here else cursor
    return deleted


def _delete_file(storage: object, run_id: str) -> None:
    """Delete the run's own SQLite file, which Dagster empties and keeps."""
    if isinstance(storage, SqliteEventLogStorage):
        for suffix in ("", "-wal", "-shm"):
            Path(storage.path_for_shard(run_id) + suffix).unlink(missing_ok=True)


def _newest_materializations(instance: DagsterInstance) -> set[str]:
    records = instance.get_asset_records()
    entries = [record.asset_entry for record in records]
    return {entry.last_run_id for entry in entries if entry.last_run_id} | {
        entry.last_materialization.run_id for entry in entries if entry.last_materialization
    }


@op(tags={"sluice/upkeep": "event-log"})
def delete_old_event_logs(context: OpExecutionContext) -> None:
    """Delete old runs; if the time of one pass is not enough, the next one continues."""
    code_location = context.run.tags.get(TAG_CODE_LOCATION)
    if code_location is None:
        context.log.info(
            "nothing deleted: this run was not started from a workspace, so its location is unknown"
        )
        return
    since = dt.datetime.now(dt.UTC) - KEPT_FOR
    before = kept_since(context.instance, code_location, since, KEPT_ROWS)
    deleted = delete_old_runs(context.instance, code_location, before, budget_seconds=PASS_SECONDS)
    context.log.info("deleted %s runs created before %s", deleted, before.isoformat(timespec="seconds"))


@job(name="event_log_upkeep", tags=run_tags(OTHER_MAX_RUNTIME_SECONDS))
def event_log_upkeep_job() -> None:
    """Delete this code location's old runs with their event logs."""
    delete_old_event_logs()


event_log_upkeep_schedule = ScheduleDefinition(
    name="event_log_upkeep",
    job=event_log_upkeep_job,
    cron_schedule="23 * * * *",
    description="Deletes this code location's runs older than two days, or than its last million rows of the"
    " event log, with their logs; except the last materialization of each asset.",
    default_status=SCHEDULE,
)

"""Calls of ``up`` to Dagster, in a short process: the supervisor would keep Dagster's imports for days.

``start HOME`` says how many runs it failed, and ends when the daemon's sensors run. ``reload SOCKET`` has a
code server load its definitions again.
"""

from __future__ import annotations

import sys
import time

from dagster import DagsterInstance, DagsterRunStatus, RunsFilter
from dagster._grpc.client import DagsterGrpcClient

from servers.code_server import LOAD_SECONDS
from servers.dagster import FAILED_RUNS
from servers.runs import TAG_PROCESS

_POLL_SECONDS = 0.1
# Tags of runs that a daemon launched or was about to; runs of the command line carry none of them.
_DAEMON_TAGS = frozenset({TAG_PROCESS, ".dagster/grpc_info", "dagster/sensor_name", "dagster/schedule_name"})


def fail_left_over_runs(instance: DagsterInstance) -> int:
    """Mark the runs of a dead daemon as failed, only while none runs. Queued runs stay queued.

    Nobody else would, and their pools and their pipelines would wait for them for ever.
    """
    under_way = [
        DagsterRunStatus.NOT_STARTED,
        DagsterRunStatus.STARTING,
        DagsterRunStatus.STARTED,
        DagsterRunStatus.CANCELING,
    ]
    left = [
        run for run in instance.get_runs(RunsFilter(statuses=under_way)) if _DAEMON_TAGS & run.tags.keys()
    ]
    for run in left:
        instance.report_run_failed(run, "The daemon that started this run ended before it did.")
    return len(left)


def _start(home: str) -> None:
    with DagsterInstance.from_config(home) as instance:
        sys.stdout.write(f"{FAILED_RUNS}{fail_left_over_runs(instance)}\n")
        sys.stdout.flush()
        since = time.time()
        while not _sensors_run(instance, since):
            time.sleep(_POLL_SECONDS)


def _sensors_run(instance: DagsterInstance, since: float) -> bool:
    heartbeat = instance.get_daemon_heartbeats().get("SENSOR")
    return heartbeat is not None and heartbeat.timestamp >= since


def _reload(socket: str) -> None:
    DagsterGrpcClient(socket=socket).reload_code(timeout=int(LOAD_SECONDS))


if __name__ == "__main__":
    {"start": _start, "reload": _reload}[sys.argv[1]](sys.argv[2])

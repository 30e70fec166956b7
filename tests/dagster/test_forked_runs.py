"""Runs that are forked from a loaded process, under Dagster's own daemon."""

from __future__ import annotations

import contextlib
import inspect
import json
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster
import httpx
import psutil
import pytest
from dagster import AssetMaterialization, DagsterInstance, DagsterRunStatus
from dagster._cli.api import execute_run_command
from dagster._core.instance.ref import InstanceRef
from dagster._core.launcher.base import RunLauncher
from dagster._core.test_utils import create_run_for_test
from dagster._daemon.monitoring.run_monitoring import check_run_timeout
from dagster._grpc.types import ExecuteRunArgs
from dagster._serdes import deserialize_value

from orchestration.run_launcher import ForkingRunLauncher
from prove.lab.dagster_daemon import running_dagster, wait_beyond
from prove.lab.pipeline_lab import make_lab, orders
from servers import private_dagster
from servers.dagster import PROJECT, prepare_dagster_home
from servers.environment import sluice_environment
from servers.process import ServerFolder, record_of
from servers.runs import RENEW, SOCKET_VARIABLE, TAG_PROCESS, ForkedRun, _client, fork_run, start_resident
from servers.runs_asleep import ASLEEP

if TYPE_CHECKING:
    from collections.abc import Callable

    from dagster import DagsterRun

    from prove.lab.dagster_daemon import DagsterDaemon
    from prove.lab.kafka_server import KafkaBroker

PATIENCE_SECONDS = 120.0
RECORDS, BATCH = 600, 20
MOST_ASLEEP_BYTES = 20 << 20  # shared pages included


def test_the_private_names_are_those_of_the_known_version() -> None:
    """Another Dagster is to be tried before runs are forked with it; until then they are spawned."""
    assert dagster.__version__ == private_dagster.KNOWN_VERSION
    assert execute_run_command.callback is not None
    given = list(inspect.signature(execute_run_command.callback).parameters)
    assert given == ["input_json", "compressed_input_json"]
    asked = list(inspect.signature(ExecuteRunArgs.__new__).parameters)
    assert asked == ["cls", "job_origin", "run_id", "instance_ref", "set_exit_code_on_failure"]
    assert "overrides" in inspect.signature(InstanceRef.from_dir).parameters
    assert {"check_run_worker_health", "get_run_worker_debug_info", "terminate"} <= set(dir(RunLauncher))


def test_a_forked_run_connects_once_to_each_database_of_the_event_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it stored is there for others, and no file is left that the next reader has to recover."""
    connected, connect = Counter[str](), sqlite3.dbapi2.connect

    def counted(path: str, **options: Any) -> sqlite3.Connection:
        connected[Path(path).name] += 1
        return connect(path, **options)

    with DagsterInstance.local_temp(str(tmp_path)) as instance:
        run = create_run_for_test(instance)
        monkeypatch.setattr(sqlite3.dbapi2, "connect", counted)
        with private_dagster.event_log_kept_open():
            for number in range(20):
                instance.report_engine_event(f"number {number}", run)
                instance.report_runless_asset_event(AssetMaterialization("table"))
        monkeypatch.undo()
        assert len(instance.all_logs(run.run_id)) == 20
    assert connected[f"{run.run_id}.db"] <= 2  # its tables are created by a second one
    assert connected["index.db"] == 1
    assert not list(tmp_path.rglob("*-wal"))


def test_any_settings_without_a_launcher_get_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever version wrote them; only of ``up``, and neither a user's own nor another Dagster's."""
    settings = tmp_path / "dagster.yaml"
    settings.write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    assert private_dagster.launcher_option() == []
    monkeypatch.setenv(SOCKET_VARIABLE, str(tmp_path / "runs"))
    option, ref = private_dagster.launcher_option()
    with DagsterInstance.from_ref(deserialize_value(ref, InstanceRef)) as instance:
        assert (option, type(instance.run_launcher)) == ("--instance-ref", ForkingRunLauncher)
    settings.write_text("run_launcher: {module: dagster_docker, class: DockerRunLauncher}\n")
    assert private_dagster.launcher_option() == []
    assert private_dagster.forks_here()
    monkeypatch.setattr(private_dagster, "KNOWN_VERSION", "1.13.26")
    assert not private_dagster.forks_here()


def wait_for(found: Callable[[], list[DagsterRun]]) -> DagsterRun:
    """Return the newest run that is found, once there is one."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (runs := found()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return runs[0]


def running(daemon: DagsterDaemon) -> DagsterRun:
    """Return the forked drain under way, once it has committed: the next one needs no pause."""
    before = daemon.lab.drained()

    def found() -> list[DagsterRun]:
        return [run for run in daemon.drains(DagsterRunStatus.STARTED) if TAG_PROCESS in run.tags]

    wait_for(found)
    wait_beyond(daemon.lab, before)
    return wait_for(found)


def monitor_often(folder: Path) -> None:
    """Have Dagster look at runs every second, not every ten."""
    prepare_dagster_home(folder)
    path, often = folder / "dagster.yaml", "poll_interval_seconds: 1\n"
    text = path.read_text().replace("poll_interval_seconds: 10\n", often)
    assert often in text
    path.write_text(text)


def pid_of(run: DagsterRun) -> int:
    """Return the pid of a forked run."""
    return int(json.loads(run.tags[TAG_PROCESS])["pid"])


def cancel(daemon: DagsterDaemon, run: DagsterRun) -> None:
    """Cancel the run as the UI does."""
    assert daemon.servers is not None
    asked = {"query": "mutation($id: String!) {terminateRun(runId: $id) {__typename}}"}
    url = f"{daemon.servers.url}/graphql"
    answer = httpx.post(url, json=asked | {"variables": {"id": run.run_id}}, timeout=PATIENCE_SECONDS)
    assert answer.json()["data"]["terminateRun"]["__typename"] == "TerminateRunSuccess"


def told(daemon: DagsterDaemon, run: DagsterRun) -> str:
    """Return the messages of all events of the run."""
    with daemon.instance() as instance:
        entries = instance.all_logs(run.run_id)
    return "\n".join(entry.dagster_event.message or "" for entry in entries if entry.dagster_event)


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.faults
def test_forked_runs_drain_and_end_as_spawned_ones(
    kafka: KafkaBroker, spark_remote: str, tmp_path: Path
) -> None:
    """Cancel and kill -9 end one run, a reload none; without the resident ends are seen and runs spawned."""
    topic = kafka.new_topic()
    kafka.produce(topic, orders(0, RECORDS))
    settings = {"bootstrap": kafka, "topic": topic, "freshness": "1s", "max_batch_records": BATCH}
    lab = make_lab(tmp_path, spark_remote=spark_remote, **settings)
    monitor_often(tmp_path / "home" / "dagster")
    with running_dagster(lab, tmp_path / "home") as daemon:
        assert daemon.servers is not None
        assert daemon.servers.resident is not None
        resident = daemon.servers.resident.process

        cancelled = running(daemon)
        cancel(daemon, cancelled)
        wait_for(lambda: daemon.drains(DagsterRunStatus.CANCELED))
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(pid_of(cancelled)).wait(PATIENCE_SECONDS)

        killed = running(daemon)
        os.kill(pid_of(killed), signal.SIGKILL)
        assert wait_for(lambda: daemon.drains(DagsterRunStatus.FAILURE)).run_id == killed.run_id

        under_way = running(daemon)
        os.kill(pid_of(under_way), signal.SIGSTOP)  # a reload may take longer than the run
        daemon.servers.reload()
        assert psutil.Process(pid_of(under_way)).ppid() == resident.pid
        os.kill(resident.pid, signal.SIGKILL)
        os.kill(pid_of(under_way), signal.SIGKILL)
        wait_for(lambda: daemon.drains(DagsterRunStatus.FAILURE)[1:])
        (failure,) = [
            text for text in daemon.failures() if "has ended" in text and str(pid_of(under_way)) in text
        ]
        assert "Detected run worker status FAILED" in failure

        assert wait_beyond(lab, RECORDS - 1) == RECORDS
        spawned, *forked = daemon.drains()
        assert TAG_PROCESS not in spawned.tags
        assert "Spawned, not forked: the process that forks runs does not answer" in told(daemon, spawned)
        assert [run.status.value for run in forked] == ["FAILURE", "FAILURE", "CANCELED"]
    assert sorted(lab.rows().column("id").to_pylist()) == list(range(RECORDS))


def test_a_forked_run_ends_at_its_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dagster's run monitoring interrupts its process by our launcher, and the run fails with the reason."""
    prepare_dagster_home(tmp_path)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    monkeypatch.setenv(SOCKET_VARIABLE, str(tmp_path / "runs"))
    _, ref = private_dagster.launcher_option()
    with (
        DagsterInstance.from_ref(deserialize_value(ref, InstanceRef)) as instance,
        subprocess.Popen(["sleep", "60"]) as process,
    ):
        record = json.dumps(asdict(record_of(process.pid, ServerFolder(tmp_path, "runs"))))
        tags = {TAG_PROCESS: record, "dagster/max_runtime": "1"}
        run = create_run_for_test(instance, status=DagsterRunStatus.STARTED, tags=tags)
        (started,) = instance.get_run_records()
        check_run_timeout(instance, started._replace(start_time=1.0), logging.getLogger(), 1800.0)
        assert process.wait(PATIENCE_SECONDS) == -signal.SIGINT
        (ended,) = instance.get_runs()
        said = instance.all_logs(run.run_id)[-1].dagster_event
    assert ended.status is DagsterRunStatus.FAILURE
    assert said is not None
    assert said.message == "Exceeded maximum runtime of 1 seconds."


def answers(program: str, folder: Path) -> list[str]:
    """Return what the program, which has a resident, prints."""
    start = """
import os, sys, threading
from dagster import DagsterInstance
from dagster._core.test_utils import create_run_for_test
from orchestration.run_resident import Resident
from servers.runs_asleep import listen
resident = Resident(listen(os.environ["DAGSTER_HOME"] + "/runs"), {})
"""
    prepare_dagster_home(folder)
    environment = {**os.environ, "DAGSTER_HOME": str(folder)}
    command = [sys.executable, "-c", start + program]
    done = subprocess.run(
        command, cwd=PROJECT, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.splitlines()


def test_a_thread_or_an_open_file_is_not_forked(tmp_path: Path) -> None:
    """A process with either says so to who asks for a run, which is then spawned."""
    program = """
print(resident.halfway())
with open(sys.executable):
    print(resident.halfway())
threading.Thread(target=threading.Event().wait, daemon=True).start()
print(resident.halfway())
"""
    nothing, file, thread = answers(program, tmp_path)
    assert nothing == ""
    assert file == f"the process that forks runs has open: {Path(sys.executable).resolve()}"
    assert thread.startswith("the process that forks runs has 2 threads: ")


def test_the_end_of_a_dead_run_is_recorded(tmp_path: Path) -> None:
    """The run fails at once and says how its process ended, without a look of Dagster's run monitoring."""
    program = """
with DagsterInstance.get() as instance:
    run_id = create_run_for_test(instance).run_id
pid = resident.fork(run_id, lambda: os.kill(os.getpid(), 9))
while resident.runs:
    resident.reap()
with DagsterInstance.get() as instance:
    print(instance.get_run_by_id(run_id).status.value, pid)
    print(instance.all_logs(run_id)[-1].dagster_event.message)
"""
    end, message = answers(program, tmp_path)
    status, pid = end.split()
    assert status == "FAILURE"
    assert f"The process of this run ({pid}) was killed by signal 9." in message


def test_the_process_that_forks_runs_sleeps_without_work(tmp_path: Path) -> None:
    """It wakes for a run, which is told so, and stays awake after a reload or work, not after checks."""
    (tmp_path / "sluice.yaml").write_text(
        "version: 1\nspark: {sleep_after: 2s}\npipelines: {one: {topic: one, table: lake.one}}\n"
    )
    prepare_dagster_home(tmp_path)
    environment = sluice_environment(tmp_path, tmp_path / "sluice.yaml") | {"DAGSTER_HOME": str(tmp_path)}
    resident = start_resident(tmp_path, environment, tmp_path)
    process, path = psutil.Process(resident.process.pid), str(resident.socket)

    def is_asleep() -> bool:
        return ASLEEP in process.cmdline()

    def run(job: str) -> bool:
        started = fork_run(path, "none", job, "no arguments")
        assert isinstance(started, ForkedRun)
        return started.was_asleep

    try:
        resident.process.wait_until(lambda: resident.socket.exists() and is_asleep(), PATIENCE_SECONDS)
        assert process.memory_info().rss < MOST_ASLEEP_BYTES
        with _client() as code_server:
            code_server.connect(path)
            code_server.send(RENEW)
        assert not run("drain")
        resident.process.wait_until(lambda: not process.children()[1:], PATIENCE_SECONDS)
        ended = time.monotonic()
        assert not is_asleep()
        resident.process.wait_until(is_asleep, PATIENCE_SECONDS)
        assert time.monotonic() - ended > 1
        assert run("checks")
        resident.process.wait_until(is_asleep, PATIENCE_SECONDS)
    finally:
        resident.process.stop()

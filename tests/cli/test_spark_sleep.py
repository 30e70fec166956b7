"""The Spark server of `up` sleeps while nothing uses it, and starts once for all who wait."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cli.commands.status import up_state
from cli.stand.run_record import hold
from cli.stand.running import SPARK, Mending, Servers, servers_of
from servers.process import read_record
from spark_jobs.config.file import load_config
from spark_jobs.connections import spark_use
from spark_jobs.connections.endpoints import Endpoints, read_endpoints, write_endpoints
from spark_jobs.connections.spark_use import unused_seconds, wait_for_spark
from spark_jobs.protocol.errors import RetryableError

PROJECT = Path(__file__).resolve().parents[2]
LONG_AGO = (0, 0)
RUN_SECONDS = 120
COUNTS = """
import logging, sys
logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
from resources.spark import SparkSessions
from spark_jobs.config.file import load_config
spark = SparkSessions(load_config()).of("drain")
spark.use()
print("counted", spark.session().range(7).count())
"""


def a_run() -> subprocess.Popen[str]:
    """Start a process that counts with Spark."""
    command = [sys.executable, "-c", COUNTS]
    return subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)


def is_used(servers: Servers) -> bool:
    """Whether a process holds a share of the lock."""
    with unused_seconds(servers.config.home) as seconds:
        return seconds is None


def wait_until_used(servers: Servers) -> None:
    """Wait for a run's request."""
    deadline = time.monotonic() + RUN_SECONDS
    while not is_used(servers):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def put_to_sleep(servers: Servers) -> None:
    """Let the server see that nothing used it for long."""
    os.utime(servers.home / "run" / "spark.lock", LONG_AGO)
    servers.mend()


@pytest.mark.spark
def test_an_unused_spark_server_sleeps_and_wakes_once_for_two_runs_though_killed_while_waking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In use it does not sleep; asleep it is not restarted; one killed while it wakes is started again."""
    file = tmp_path / "sluice.yaml"
    file.write_text("version: 1\nkafka: {bootstrap.servers: '127.0.0.1:1'}\n")
    monkeypatch.setenv("SLUICE_CONFIG", str(file))
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home"))
    config, now = load_config(), [1000.0]
    with hold(config.home, "./sluice up"), servers_of(config) as servers:
        servers.mending = Mending(now=lambda: now[0])
        servers.start_backends()
        servers.mend()
        first = servers.processes[SPARK]
        put_to_sleep(servers)
        assert not first.is_running
        servers.mend()
        assert SPARK not in servers.processes
        assert "Spark is asleep" in up_state(config.home, 0).sentence

        runs = [a_run(), a_run()]
        wait_until_used(servers)
        killer = threading.Thread(target=kill_when_started, args=(servers,))
        killer.start()
        servers.mend()
        killer.join()
        assert read_endpoints(config.home).spark_asleep
        assert "server-start" in capsys.readouterr().err
        now[0] += 31
        servers.mend()
        woken = servers.processes[SPARK]
        printed = [run.communicate(timeout=RUN_SECONDS)[0] for run in runs]
        for each in printed:
            assert each.startswith("Spark is asleep and is started for this work\n")
            assert "counted 7" in each
        servers.mend()
        assert servers.processes[SPARK] is woken
        assert capsys.readouterr().out.count("starting spark-connect") == 1

        busy = a_run()
        wait_until_used(servers)
        put_to_sleep(servers)
        assert woken.is_running
        assert "counted 7" in busy.communicate(timeout=RUN_SECONDS)[0]
        woken.kill()
        now[0] += 31
        servers.mend()
        assert servers.processes[SPARK].is_running  # an ended server is no sleeping one


def kill_when_started(servers: Servers) -> None:
    """Kill the server that is being started, like a crash."""
    record = servers.folder(SPARK).record_path
    deadline = time.monotonic() + RUN_SECONDS
    while not record.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process = read_record(servers.folder(SPARK))
    assert process is not None
    os.killpg(process.pid, 9)


def test_a_run_that_begins_while_spark_is_stopped_waits_and_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the stop is done it is told nothing; a server that does not start is a named error."""
    home = str(tmp_path)
    write_endpoints(home, Endpoints(spark_remote="sc://localhost:1/;token=x"))
    asked = threading.Thread(target=spark_use.use_spark, args=(home,))
    with unused_seconds(home) as seconds:
        assert seconds is not None
        asked.start()
        asked.join(0.2)
        assert asked.is_alive()
        write_endpoints(home, Endpoints(spark_remote="sc://localhost:1/;token=x", spark_asleep=True))
    asked.join()
    with unused_seconds(home) as seconds:
        assert seconds is None
    monkeypatch.setattr(spark_use, "START_SECONDS", 0.1)
    with pytest.raises(RetryableError, match="was asleep and has not started"):
        wait_for_spark(home)

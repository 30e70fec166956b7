"""Children are recorded, waited for and stopped, and nobody else's process is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from servers.environment import clean_environment
from servers.kafka import spelled_cluster_id
from servers.process import (
    ServerFolder,
    ServerProcess,
    free_ports,
    is_alive,
    is_listening,
    read_record,
    stop_recorded,
)
from spark_jobs.protocol.errors import RetryableError

if TYPE_CHECKING:
    from pathlib import Path


def _start(root: Path, *command: str) -> ServerProcess:
    return ServerProcess(ServerFolder(root, "server"), command, os.environ)


def _wait_for_end(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        state = subprocess.run(
            ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        if not state.stdout.strip() or state.stdout.startswith("Z"):
            return True
        time.sleep(0.05)
    return False


def test_stop_ends_the_whole_group(tmp_path: Path) -> None:
    """A stopped server's own children end with it and its record goes."""
    script = "sleep 60 & echo $!; wait"
    server = _start(tmp_path, "sh", "-c", script)
    log = tmp_path / "logs" / "server.log"
    server.wait_until(lambda: log.read_text().strip() != "", 10)
    record = read_record(ServerFolder(tmp_path, "server"))
    assert record is not None
    assert record.pid == server.pid
    assert is_alive(record)
    server.stop()
    assert not is_alive(record)
    assert _wait_for_end(int(log.read_text()))
    assert read_record(ServerFolder(tmp_path, "server")) is None


def test_a_stubborn_server_is_killed(tmp_path: Path) -> None:
    """What ignores SIGTERM ends by SIGKILL after the grace, also when only its record is known."""
    server = _start(tmp_path, "sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done")
    server.wait_until((tmp_path / "logs" / "server.log").read_text, 10)
    assert stop_recorded(ServerFolder(tmp_path, "server"), grace_seconds=0.2)
    assert not server.is_running
    assert not stop_recorded(ServerFolder(tmp_path, "server"))


def test_another_process_under_the_pid_is_left_alone(tmp_path: Path) -> None:
    """A record whose start time or boot is not the process's own stops nothing."""
    server = _start(tmp_path, "sleep", "60")
    path = tmp_path / "run" / "server.json"
    try:
        for stale in (replace(server.record, started="1"), replace(server.record, boot="an earlier one")):
            path.write_text(json.dumps({name: getattr(stale, name) for name in stale.__slots__}))
            assert not stop_recorded(ServerFolder(tmp_path, "server"))
            assert server.is_running
            assert not path.exists()
    finally:
        server.stop()


def test_a_server_that_ends_is_one_line_with_its_log(tmp_path: Path) -> None:
    """The error names the telling line of the log and where the log is."""
    script = "echo 'java.net.BindException: in use'; echo '  at somewhere'; exit 3"
    server = _start(tmp_path, "sh", "-c", script)
    with pytest.raises(RetryableError, match="exit code 3") as caught:
        server.wait_until(lambda: False, 10)
    assert "BindException: in use" in str(caught.value)
    assert "server.log" in caught.value.hint


def test_a_server_that_is_never_ready_is_stopped(tmp_path: Path) -> None:
    """After the timeout the child is gone."""
    server = _start(tmp_path, "sleep", "60")
    with pytest.raises(RetryableError, match="not ready"):
        server.wait_until(lambda: False, 0.1)
    assert not server.is_running


def test_a_child_dies_with_a_killed_parent(tmp_path: Path) -> None:
    """Kill -9 of the parent ends the server, which ran under the recorded pid."""
    program = (
        "import sys, time; from pathlib import Path; from tests.unit.test_process import _start\n"
        "server = _start(Path(sys.argv[1]), 'sleep', '60')\n"
        "print(server.pid, flush=True); time.sleep(60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert subprocess.run(["ps", "-p", str(pid)], capture_output=True, check=False).returncode == 0
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    assert _wait_for_end(pid)


def test_free_ports_are_free_and_distinct() -> None:
    """Ports are given once and nothing listens there."""
    ports = free_ports(3)
    assert len(set(ports)) == 3
    assert not any(is_listening(port) for port in ports)


def test_foreign_set_up_does_not_reach_a_server(tmp_path: Path) -> None:
    """The user's Spark, Python, Dagster and Java options are dropped; the rest stays."""
    foreign = {
        "SPARK_HOME": "x",
        "SPARK_REMOTE": "x",
        "PYTHONPATH": "x",
        "DAGSTER_HOME": "x",
        "_JAVA_OPTIONS": "x",
    }
    environment = clean_environment(tmp_path, {**foreign, "PYSPARK_PYTHON": "x", "HTTPS_PROXY": "kept"})
    assert environment == {
        "HTTPS_PROXY": "kept",
        "JAVA_HOME": str(tmp_path),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


@pytest.mark.parametrize("first", ["00", "7b", "f8", "fb", "ff"])
def test_a_cluster_id_never_looks_like_an_option(first: str) -> None:
    """Whatever was drawn, the id has Kafka's length and does not begin with a dash."""
    spelled = spelled_cluster_id(uuid.UUID(hex=first + "ff" * 15))
    assert len(spelled) == 22
    assert spelled[0].isalnum()

"""A standalone Kafka Connect worker with Iceberg's own sink, for comparison; its jars are the bench's."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from bench.lab import Lab
from servers.environment import LOG_SETTINGS, clean_environment, java_home
from servers.jars import jar_paths
from servers.process import ServerFolder, ServerProcess, free_ports

CONNECT_LOCK = Path(__file__).with_name("jars-connect.lock")
_HEAP = "2g"
_START_SECONDS = 90.0
_ANSWER_SECONDS = 30.0
_STATE_SECONDS = 120.0
# What waits for the sink is bounded like a drain's queue; the default of 500 records a poll costs it speed.
_WORKER = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "plugin.discovery": "service_load",
    "consumer.max.poll.records": "10000",
    "consumer.max.partition.fetch.bytes": "4194304",
    # Without new records its tasks hear of a commit only then; the default lets the last one wait a minute.
    "offset.flush.interval.ms": "1000",
}
_SINK = "org.apache.iceberg.connect.IcebergSinkConnector"


@dataclass(frozen=True, slots=True)
class ConnectWorker:
    """A worker that answers at ``address``; ``pid`` is its process."""

    address: str
    pid: int

    def is_ready(self) -> bool:
        """True once it answers about connectors: it listens before it knows its paths."""
        with suppress(requests.ConnectionError, RuntimeError):
            self._ask("GET", "/connectors")
            return True
        return False

    def add_sink(self, name: str, settings: Mapping[str, str]) -> None:
        """Start a connector of Iceberg's sink."""
        self._ask("PUT", f"/connectors/{name}/config", {"connector.class": _SINK, **settings})

    def pause(self, name: str) -> None:
        """Pause its tasks, and wait until they stop reading."""
        self._ask("PUT", f"/connectors/{name}/pause")
        self._wait_for(name, "PAUSED")

    def resume(self, name: str) -> None:
        """Resume its tasks, without waiting."""
        self._ask("PUT", f"/connectors/{name}/resume")

    def remove(self, name: str) -> None:
        """Stop its tasks and remove it."""
        self._ask("DELETE", f"/connectors/{name}")

    def failure(self, name: str) -> str | None:
        """Return the last line of a failed task's error, or None."""
        traces = [task.get("trace", "") for task in self._tasks(name) if task["state"] == "FAILED"]
        causes = [line for trace in traces for line in trace.splitlines() if not line.startswith("\t")]
        return causes[-1] if causes else None

    def _wait_for(self, name: str, state: str) -> None:
        deadline = time.monotonic() + _STATE_SECONDS
        while {task["state"] for task in self._tasks(name)} != {state}:
            if time.monotonic() > deadline:
                raise RuntimeError(f"the tasks of {name} are not {state}: {self._tasks(name)}")
            time.sleep(0.1)

    def _tasks(self, name: str) -> list[dict[str, Any]]:
        tasks: list[dict[str, Any]] = self._ask("GET", f"/connectors/{name}/status")["tasks"]
        return tasks

    def _ask(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        with requests.Session() as session:
            session.trust_env = False  # a proxy is no way to loopback
            answer = session.request(method, self.address + path, json=body, timeout=_ANSWER_SECONDS)
        if not answer.ok:
            raise RuntimeError(f"Connect refuses {method} {path}: {answer.text}")
        return answer.json() if answer.content else None


@contextmanager
def open_worker(lab: Lab) -> Iterator[ConnectWorker]:
    """Start a worker on the lab's broker and stop it."""
    folder = ServerFolder(lab.folder, "connect")
    folder.home.mkdir(parents=True)
    (port,) = free_ports(1)
    address = f"http://127.0.0.1:{port}"
    properties = folder.home / "worker.properties"
    settings = {
        **_WORKER,
        "bootstrap.servers": lab.bootstrap_servers,
        "offset.storage.file.filename": str(folder.home / "offsets"),
        "listeners": address,
    }
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    home = java_home()
    class_path = os.pathsep.join(str(path) for path in jar_paths(lock=CONNECT_LOCK))
    options = [f"-Xmx{_HEAP}", f"-Dlog4j2.configurationFile={LOG_SETTINGS}", "-cp", class_path]
    process = ServerProcess(
        folder,
        [
            str(home / "bin" / "java"),
            *options,
            "org.apache.kafka.connect.cli.ConnectStandalone",
            str(properties),
        ],
        clean_environment(home),
    )
    try:
        worker = ConnectWorker(address, process.pid)
        process.wait_until(worker.is_ready, _START_SECONDS)
        yield worker
    finally:
        process.stop()

"""A real gateway of a lab's configuration, forked, which can be killed at once or at a fail point."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from prove.lab.forked import fork
from prove.lab.pipeline_lab import configure
from prove.lab.signal_at import SignalAt
from resources.sluice import open_connections
from servers.gateway import serve_gateway
from servers.process import free_ports
from spark_jobs.config.file import load_config
from spark_jobs.config.listener import Address
from spark_jobs.protocol.errors import SluiceError
from spark_jobs.protocol.work import FailPoints, NoFailPoints

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

    from prove.lab.pipeline_lab import Lab

STREAM = "orders"
_SECONDS = 60.0


class GatewayProcess:
    """A gateway process; ``port`` is the same for its successors."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.port = load_config(path).gateway.listen.port  # type: ignore[union-attr]
        self.start()

    @property
    def url(self) -> str:
        """Return the address for posting batches."""
        return f"http://127.0.0.1:{self.port}/v1/streams/{STREAM}"

    @property
    def socket(self) -> str:
        """Return the address for clients' sockets."""
        return self.url.replace("http", "ws", 1)

    def start(self, fail_points: FailPoints | None = None) -> None:
        """Start or restart it, without waiting."""
        self._process, self._told = fork(_run, self._path, fail_points or NoFailPoints())

    def start_at(self, place: str) -> None:
        """Start one that kills itself when it first reaches a fail point."""
        self.start(SignalAt(f"gateway.{place}"))

    def wait(self) -> dict[str, Any]:
        """Wait for its slots, and return its health."""
        deadline = time.monotonic() + _SECONDS
        while True:
            try:
                health = httpx.get(f"http://127.0.0.1:{self.port}/v1/health", trust_env=False)
                if health.status_code == httpx.codes.OK:
                    return dict(health.json())
            except httpx.TransportError:
                pass
            assert self.is_alive, f"the gateway ended: {self.code()}"
            assert time.monotonic() < deadline, "the gateway takes no events"
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill it immediately; it may be dead."""
        self._process.kill()
        self._process.join()

    def died(self) -> int | None:
        """Wait for its death; return the signal, or its exit code."""
        self._process.join(_SECONDS)
        return self._process.exitcode

    @property
    def is_alive(self) -> bool:
        """True while it runs."""
        return self._process.is_alive()

    def stop(self) -> str:
        """Terminate it; return the code of its error, empty for none."""
        assert self._process.pid is not None
        if self._process.is_alive():
            os.kill(self._process.pid, signal.SIGTERM)
        self._process.join(_SECONDS)
        assert self._process.exitcode is not None, "the gateway does not end"
        return self.code()

    @property
    def pid(self) -> int:
        """Return the process's id."""
        assert self._process.pid is not None
        return self._process.pid

    def drain_spool(self) -> str:
        """Send its spool by the command; return the command's output."""
        command = (sys.executable, "-m", "cli", "gateway", "--drain-spool", "--config", str(self._path))
        done = subprocess.run(command, capture_output=True, text=True, timeout=2 * _SECONDS, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def code(self) -> str:
        """Return the code of its error, empty for none or a killed process."""
        try:
            return str(self._told.recv()) if self._told.poll() else ""
        except EOFError:
            return ""


def gateway_settings(topic: str, **settings: Any) -> dict[str, Any]:
    """Return the ``gateway`` section for one stream at a free port."""
    (port,) = free_ports(1)
    stream = {"topic": topic, **settings.pop("stream", {})}
    return {"listen": f"127.0.0.1:{port}", "streams": {STREAM: stream}, **settings}


@contextmanager
def taking_events(lab: Lab, **settings: Any) -> Iterator[GatewayProcess]:
    """Yield a gateway for the topic of the lab's pipeline, and stop it at the end."""
    configure(lab, "", {"gateway": gateway_settings(lab.pipeline.topic, **settings)})
    gateway = GatewayProcess(lab.path)
    try:
        gateway.wait()
        yield gateway
    finally:
        gateway.kill()


def _run(sender: Connection, path: Path, fail_points: FailPoints) -> None:
    os.environ["SLUICE_CONFIG"] = str(path)
    config = load_config(path)
    listen = config.gateway.listen
    assert isinstance(listen, Address)
    code = ""
    with open_connections(config, "", kind="gateway", actor="test", run_id="test") as connections:
        try:
            serve_gateway(config, replace(connections, fail_points=fail_points), listen, lambda _url: None)
        except SluiceError as error:
            code = error.code
    sender.send(code)

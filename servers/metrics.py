"""The metrics endpoint as a process of its own beside Dagster: drains never wait for a scrape."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from servers.environment import sluice_environment
from servers.java import java_home
from servers.process import ServerFolder, ServerProcess, free_ports, is_listening
from spark_jobs.config.settings import DEFAULT_METRICS_PORT
from spark_jobs.protocol.errors import ConfigError

METRICS = "metrics"


@dataclass(frozen=True, slots=True)
class MetricsServer:
    """The process; it answers at ``url`` a few seconds after it was started."""

    url: str
    process: ServerProcess


def start_metrics(
    sluice_home: Path, config_path: Path | None, *, host: str, port: int | None
) -> MetricsServer:
    """Start it and do not wait for it: what runs beside it works without.

    ``port`` None takes the usual one, or a free one when that is taken: a second Sluice on the machine must
    not fail for its metrics. Raises ``ConfigError`` (``port-taken``) for a port that was asked for.
    """
    number = _port(port)
    command = [sys.executable, "-m", "cli", "metrics", "--host", host, "--port", str(number)]
    environment = sluice_environment(java_home(), sluice_home, config_path)
    process = ServerProcess(ServerFolder(sluice_home, METRICS), command, environment, sluice_home)
    return MetricsServer(f"http://{host}:{number}/metrics", process)


def refuse_taken(port: int) -> None:
    """Raise ``ConfigError`` (``port-taken``) when something listens there."""
    if is_listening(port):
        raise ConfigError(
            f"port {port} is taken, so metrics cannot be served there",
            code="port-taken",
            hint="Choose another under `metrics:`, or stop what listens there.",
        )


def _port(wanted: int | None) -> int:
    if wanted is None:
        return free_ports(1)[0] if is_listening(DEFAULT_METRICS_PORT) else DEFAULT_METRICS_PORT
    refuse_taken(wanted)
    return wanted

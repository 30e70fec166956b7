"""``metrics``: serves Prometheus metrics until it is stopped; ``up`` runs it beside Dagster."""

from __future__ import annotations

import signal
import threading

import click
from prometheus_client import CollectorRegistry, start_http_server

from cli import output
from servers.metrics import refuse_taken
from spark_jobs.config.file import load_config
from spark_jobs.config.settings import DEFAULT_METRICS_PORT


@click.command("metrics")
@click.option("--host", default=None, help="Where to listen instead of metrics.host.")
@click.option(
    "--port", type=click.IntRange(1, 65535), default=None, help="Which port instead of metrics.port."
)
def command(host: str | None, port: int | None) -> None:
    """Serve Prometheus metrics of every pipeline at /metrics until Ctrl-C; reads only.

    `./sluice up` does this by itself. Use it where Dagster runs elsewhere. Each scrape looks at topics,
    tables and logs, at most every 15 s. docs/monitoring has a Grafana dashboard and alert rules.
    """
    from spark_jobs.monitoring.metrics import SluiceCollector

    config = load_config()
    address = host or config.metrics.host
    number = port or config.metrics.port or DEFAULT_METRICS_PORT
    refuse_taken(number)
    registry = CollectorRegistry()
    registry.register(SluiceCollector(config))
    server, thread = start_http_server(number, address, registry)
    output.say(f"metrics at http://{address}:{number}/metrics")
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    try:
        stopped.wait()
    except KeyboardInterrupt:
        output.say("stopped")
    finally:
        server.shutdown()
        thread.join()

"""``metrics``: serve Prometheus metrics; ``up`` runs it as a server of its own."""

from __future__ import annotations

from contextlib import AbstractContextManager
from threading import Thread
from typing import TYPE_CHECKING

import click

from cli import output
from cli.work import listener_options
from spark_jobs.config.file import load_config
from spark_jobs.config.listener import DEFAULT_METRICS

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from spark_jobs.config.listener import Address, MetricsSettings
    from spark_jobs.config.settings import SluiceConfig


@click.command("metrics")
@listener_options("metrics", "read them")
def command(port: int | None, *, insecure: bool) -> None:
    """Serve Prometheus metrics of every pipeline at /metrics until Ctrl-C. Reads only.

    `./sluice up` serves them too. Use this command where Dagster runs without `up`. A scrape reads topics,
    tables and logs at most every 15 s. docs/monitoring has a Grafana dashboard and alert rules.
    """
    from servers.serving import serve

    config = load_config()
    serve(
        *_metrics(config, port),
        lambda url: output.say(f"metrics at {url}/metrics" if url else "stopped"),
        insecure=insecure,
    )


def serve_metrics(config: SluiceConfig, port: int, *, insecure: bool) -> AbstractContextManager[Thread]:
    """Serve them in a thread within the block."""
    from servers.serving import served

    return served(*_metrics(config, port), insecure=insecure)


def _metrics(config: SluiceConfig, port: int | None) -> tuple[ASGIApp, MetricsSettings, Address]:
    from prometheus_client import CollectorRegistry, make_asgi_app

    from servers.listener import bound_at
    from spark_jobs.monitoring.metrics import SluiceCollector

    registry = CollectorRegistry()
    registry.register(SluiceCollector(config))
    return make_asgi_app(registry), config.metrics, bound_at(config.metrics.listen or DEFAULT_METRICS, port)

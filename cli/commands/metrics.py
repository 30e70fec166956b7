"""``metrics``: serve Prometheus metrics; ``up`` runs it as a server of its own."""

from __future__ import annotations

import click

from cli import output
from cli.work import listener_options
from spark_jobs.config.file import load_config
from spark_jobs.config.listener import DEFAULT_METRICS


@click.command("metrics")
@listener_options("metrics", "read them")
def command(port: int | None, *, insecure: bool) -> None:
    """Serve Prometheus metrics of every pipeline at /metrics until Ctrl-C. Reads only.

    `./sluice up` serves them too. Use this command where Dagster runs without `up`. A scrape reads topics,
    tables and logs at most every 15 s. docs/monitoring has a Grafana dashboard and alert rules.
    """
    from prometheus_client import CollectorRegistry, make_asgi_app

    from servers.listener import bound_at
    from servers.serving import serve
    from spark_jobs.monitoring.metrics import SluiceCollector

    config = load_config()
    registry = CollectorRegistry()
    registry.register(SluiceCollector(config))
    serve(
        make_asgi_app(registry),
        config.metrics,
        bound_at(config.metrics.listen or DEFAULT_METRICS, port),
        lambda url: output.say(f"metrics at {url}/metrics" if url else "stopped"),
        insecure=insecure,
    )

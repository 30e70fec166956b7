"""``metrics``: serves Prometheus metrics until it is stopped; ``up`` runs it beside Dagster."""

from __future__ import annotations

import signal
import socket

import click

from cli import output
from spark_jobs.config.file import load_config
from spark_jobs.config.listener import DEFAULT_METRICS, Address


@click.command("metrics")
@click.option(
    "--port", type=click.IntRange(1, 65535), default=None, help="Which port instead of metrics.listen's."
)
@click.option("--insecure", is_flag=True, help="Let others than this machine read them without tokens.")
def command(port: int | None, *, insecure: bool) -> None:
    """Serve Prometheus metrics of every pipeline at /metrics until Ctrl-C; reads only.

    `./sluice up` does this by itself. Use it where Dagster runs elsewhere. Each scrape looks at topics,
    tables and logs, at most every 15 s. docs/monitoring has a Grafana dashboard and alert rules.
    """
    import uvicorn
    from prometheus_client import CollectorRegistry, make_asgi_app

    from servers.browser_guard import BrowserGuard
    from servers.listener import guard_of, refuse_open, refuse_taken, tls_of, url_of
    from spark_jobs.monitoring.metrics import SluiceCollector

    config = load_config()
    settings = config.metrics
    listen = settings.listen or DEFAULT_METRICS
    address = Address(listen.host, port or listen.port)
    refuse_open(settings, insecure=insecure)
    refuse_taken(address)
    registry = CollectorRegistry()
    registry.register(SluiceCollector(config))
    app = BrowserGuard(make_asgi_app(registry), **guard_of(settings))
    serving = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, **tls_of(settings))
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    signal.signal(signal.SIGTERM, lambda *_: None)  # the server ends by it, and has it raised again
    with socket.create_server((address.host, address.port), family=family) as listening:
        output.say(f"metrics at {url_of(settings, address)}/metrics")
        try:
            uvicorn.Server(serving).run([listening])
        except KeyboardInterrupt:
            output.say("stopped")

"""``up``: run Dagster and the servers that the configuration needs, until Ctrl-C or ``down``."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from cli import output
from cli.stand.run_record import hold
from spark_jobs.config.file import load_config
from spark_jobs.config.listener import DEFAULT_CATALOG
from spark_jobs.config.redaction import redact_urls
from spark_jobs.config.settings import PipelineConfig, SluiceConfig
from spark_jobs.protocol.errors import SluiceError, fault

if TYPE_CHECKING:
    from cli.stand.running import Servers

WATCH_EVERY_SECONDS = 1.0
READ_EVERY_SECONDS = 30.0  # the configuration


@click.command("up")
@click.option(
    "--port",
    type=int,
    default=None,
    help="Port of the Dagster UI. Overrides the port of ui.listen. 0 chooses a free port.",
)
@click.option(
    "--catalog-port",
    type=click.IntRange(1, 65535),
    default=None,
    help="Serve the catalog to other engines on this port. Overrides the port of catalog_server.listen.",
)
@click.option(
    "--tls",
    is_flag=True,
    help="Run the embedded Kafka with SASL_SSL; certificates and logins are created at start.",
)
@click.option("--insecure", is_flag=True, help="Allow other machines to use the listeners without tokens.")
def command(port: int | None, catalog_port: int | None, insecure: bool, tls: bool) -> None:
    """Run Sluice in the foreground. Ctrl-C stops everything within 15 s.

    Starts Dagster, and a Spark server unless spark.remote, spark.remote_command or spark.master is set.
    Without kafka.bootstrap.servers it also starts an embedded Kafka and a sample stream of flights and
    weather.
    """
    from cli.stand.running import servers_of
    from servers.listener import refuse_open, tls_of

    config = load_config()
    if tls and config.has_broker:
        raise fault("tls-of-another")
    # Apart from what is read again for changes, in which the port does not stand.
    served = config if catalog_port is None else _with_catalog(config, catalog_port)
    for listener in (served.ui, served.metrics, served.catalog_server, served.serve, served.gateway):
        refuse_open(listener, insecure=insecure)
        tls_of(listener)
    address = config.ui.listen
    if not (address.is_loopback or config.ui.tokens):
        output.say(
            f"insecure: any client that reaches {address} can start and stop runs, replay, and read logs"
        )
    for problem in config.problems:
        output.say(f"left out: {problem}")
    with hold(config.home, "./sluice up"), servers_of(served, has_login=tls) as servers:
        output.say("starting")
        servers.start_backends()
        if not config.has_broker:
            servers.start_stream()
        elif config.templates:
            _list_topics(config)
        url = servers.start_dagster(address.port if port is None else port)
        _print_addresses(servers, url, servers.start_beside(insecure=insecure))
        try:
            _stay(servers)
        except KeyboardInterrupt:
            output.say("\nstopping all servers")
    output.say("stopped")


def _list_topics(config: SluiceConfig) -> None:
    """List the topics of ``topics_regex``; print an error and continue, as the sensor tries again."""
    from spark_jobs.connections.broker_topics import refresh_topics

    try:
        refresh_topics(config)
    except SluiceError as error:
        output.render_error(error)


def _print_addresses(servers: Servers, url: str, beside: dict[str, str]) -> None:
    from servers.beside import CATALOG, GATEWAY, METRICS, SERVE

    config = servers.config
    broker = servers.endpoints.kafka_bootstrap_servers
    command = config.spark.remote_command or (None,)
    spark = config.spark.remote or command[0] or config.spark.master or servers.endpoints.spark_remote
    output.table(
        ("what", "where"),
        [
            ("Dagster UI", url),
            ("metrics", f"{beside[METRICS]}/metrics" if METRICS in beside else "off"),
            (
                "Kafka",
                f"{broker} (embedded, with a sample stream{'; SASL_SSL' * servers.has_login})"
                if broker
                else config.kafka["bootstrap.servers"],
            ),
            ("Spark", redact_urls(spark or "-")),
            ("catalog", f"{config.catalog.name}: {config.catalog.properties.get('uri', 'see sluice.yaml')}"),
            *([("catalog server", beside[CATALOG])] if CATALOG in beside else []),
            *([("query server", beside[SERVE])] if SERVE in beside else []),
            *([("gateway", f"{beside[GATEWAY]}/v1/streams")] if GATEWAY in beside else []),
            ("state, logs", f"{config.home}, {servers.home / 'logs'}"),
        ],
    )
    output.say("\nrunning; stop it with Ctrl-C, or with ./sluice down in another terminal")


def _stay(servers: Servers) -> None:
    next_look, config = time.monotonic(), servers.config
    while True:
        servers.mend()
        if time.monotonic() >= next_look:
            config = _as_it_is_now(servers, config)
            next_look = time.monotonic() + READ_EVERY_SECONDS
        time.sleep(WATCH_EVERY_SECONDS)


def _with_catalog(config: SluiceConfig, port: int) -> SluiceConfig:
    own = config.catalog_server
    address = replace(own.listen or DEFAULT_CATALOG, port=port)
    return config.model_copy(update={"catalog_server": own.model_copy(update={"listen": address})})


def _as_it_is_now(servers: Servers, before: SluiceConfig) -> SluiceConfig:
    """Reload the configuration and, if it changed, Dagster's definitions; keep the old one on mistakes.

    The topics of ``topics_regex`` are those of the last list, which each look refreshes.
    """
    try:
        config = load_config()
    except SluiceError as error:
        output.render_error(error)
        return before
    if config != before:
        output.say("the configuration changed: Dagster reloads its pipelines")
        for sentence in difference(before.pipelines, config.pipelines):
            output.say(f"  {sentence}")
        servers.reload()
    return config


def difference(before: Sequence[PipelineConfig], after: Sequence[PipelineConfig]) -> Iterator[str]:
    """Yield the added, removed and changed pipelines."""
    old, new = ({each.name: each for each in side} for side in (before, after))
    if added := [name for name in new if name not in old]:
        yield f"new: {output.few(added)}"
    if gone := [name for name in old if name not in new]:
        yield f"removed: {output.few(gone)}"
    kept = [(old[name], each) for name, each in new.items() if name in old and old[name] != each]
    for was, now in kept:
        if was.topic != now.topic:
            yield f"{now.name} reads {now.topic} instead of {was.topic}"
    if changed := [now.name for was, now in kept if was.topic == now.topic]:
        yield f"changed settings: {output.few(changed)}"

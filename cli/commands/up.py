"""``up``: what the configuration names, in the foreground, until Ctrl-C or ``down``."""

from __future__ import annotations

import ipaddress
import time
from typing import TYPE_CHECKING

import click

from cli import output
from cli.commands.look_lines import difference, look_lines
from cli.commands.state_word import StateWord
from cli.commands.status import look
from cli.stand.run_record import hold
from spark_jobs.config.file import load_config
from spark_jobs.config.redaction import redact_urls
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.connections.broker_topics import list_topics, refresh_topics
from spark_jobs.connections.endpoints import resolve_kafka_properties
from spark_jobs.protocol.errors import ConfigError, SluiceError

if TYPE_CHECKING:
    from cli.stand.running import Servers

LOOK_EVERY_SECONDS = 30.0
WATCH_EVERY_SECONDS = 1.0


@click.command("up")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where the Dagster UI listens.")
@click.option("--port", default=3000, show_default=True, help="Its port; 0 takes a free one.")
@click.option("--allow-host", multiple=True, help="A name the UI is asked under, as by a proxy; repeatable.")
@click.option("--insecure", is_flag=True, help="Let the UI, which has no login, listen beyond this machine.")
def command(host: str, port: int, allow_host: tuple[str, ...], insecure: bool) -> None:
    """Run what the configuration names until Ctrl-C, which stops all of it within 15 s.

    With kafka.bootstrap.servers set that is Dagster, and a Spark server unless spark.remote or spark.master
    is set. Without a broker an embedded Kafka and a sample stream of flights and weather come with it.
    """
    from cli.stand.running import servers_of

    if not (is_loopback(host) or insecure):
        raise ConfigError(
            f"the Dagster UI has no login, and {host} is not this machine alone",
            code="ui-without-login",
            hint="Let a proxy with a login listen there (docs/OPERATIONS.md#the-ui-for-others), or open it "
            "as it is with --insecure.",
        )
    config = load_config()
    if not is_loopback(host):
        output.say(
            f"insecure: whoever reaches {host} can start and stop runs, replay, and read what they log"
        )
    for problem in config.problems:
        output.say(f"left out: {problem}")
    with hold(config.home, "./sluice up"), servers_of(config) as servers:
        output.say("starting")
        servers.start_backends()
        if config.has_broker:
            _list_topics(config)
        else:
            servers.start_stream()
        url = servers.start_dagster(host, port, allow_host)
        _print_addresses(servers, url, servers.start_metrics())
        try:
            _stay(servers)
        except KeyboardInterrupt:
            output.say("\nstopping what was started")
    output.say("stopped")


def is_loopback(host: str) -> bool:
    """True if only this machine reaches what listens there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _list_topics(config: SluiceConfig) -> None:
    """Tell at once when the broker is away, and go on: the sensor asks again every few seconds."""
    try:
        if config.templates:
            refresh_topics(config)
        else:
            list_topics(resolve_kafka_properties(config))
    except SluiceError as error:
        output.render_error(error)


def _print_addresses(servers: Servers, url: str, metrics: str | None) -> None:
    config = servers.config
    broker = servers.endpoints.kafka_bootstrap_servers
    spark = config.spark.remote or config.spark.master or servers.endpoints.spark_remote
    output.table(
        ("what", "where"),
        [
            ("Dagster UI", url),
            ("metrics", metrics or "switched off"),
            (
                "Kafka",
                f"{broker} (embedded, with a sample stream)" if broker else config.kafka["bootstrap.servers"],
            ),
            ("Spark", redact_urls(spark or "-")),
            ("catalog", f"{config.catalog.name}: {config.catalog.properties.get('uri', 'see sluice.yaml')}"),
            ("state, logs", f"{config.home}, {servers.home / 'logs'}"),
        ],
    )
    output.say("\nup; Ctrl-C here or ./sluice down elsewhere stops it")


def _stay(servers: Servers) -> None:
    next_look, config = time.monotonic(), servers.config
    words: dict[str, StateWord] = {}
    while True:
        servers.raise_if_ended()
        if time.monotonic() >= next_look:
            config = _as_it_is_now(servers, config)
            seen = look(config)
            first, *others = look_lines(seen, words)
            output.say("\n".join([f"{time.strftime('%H:%M:%S')}  {first}", *others]))
            words = {facts.pipeline.name: state.word for facts, state in seen}
            next_look = time.monotonic() + LOOK_EVERY_SECONDS
        time.sleep(WATCH_EVERY_SECONDS)


def _as_it_is_now(servers: Servers, before: SluiceConfig) -> SluiceConfig:
    """Read the configuration again and tell Dagster of a change; with mistakes it changes nothing.

    In it are the topics of ``topics_regex`` as last listed, which each look does.
    """
    try:
        config = load_config()
    except SluiceError as error:
        output.render_error(error)
        return before
    if config != before:
        output.say("the configuration has changed: Dagster loads its pipelines again")
        for sentence in difference(before.pipelines, config.pipelines):
            output.say(f"  {sentence}")
        servers.reload()
    return config

"""``gateway``: write events of clients without a Kafka client to Kafka."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from threading import Event

import click

from cli import output
from cli.work import connections_for, listener_options
from spark_jobs.config.file import load_config
from spark_jobs.config.listener import DEFAULT_GATEWAY
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.protocol.errors import fault, needs

# What other slots of a killed gateway left open hides ids for up to half a minute.
_UNMOVED_SECONDS = 60.0


@click.command("gateway")
@listener_options("gateway", "send")
@click.option("--drain-spool", is_flag=True, help="Send the batches in a gateway's spool and exit.")
def command(port: int | None, *, insecure: bool, drain_spool: bool) -> None:
    """Write events from WebSocket and HTTP clients to Kafka, exactly once, until Ctrl-C.

    Streams, tokens and limits are set under `gateway` in sluice.yaml. The protocol is in
    docs/reference/gateway.md. The position of each source is stored in Kafka, so another gateway can replace
    one that was killed.

    --drain-spool sends the batches that a stopped gateway left in its spool. A gateway that is running with
    the same slots then ends; start it again afterwards.
    """
    with needs("gateway"):
        from servers.gateway import serve_gateway
        from servers.listener import bound_at

    config = load_config()
    if drain_spool:
        _drain_spool(config)
        return
    if not config.gateway.streams:
        raise fault("gateway-without-streams")
    with connections_for(config, None, "gateway") as connections:
        serve_gateway(
            config,
            connections,
            bound_at(config.gateway.listen or DEFAULT_GATEWAY, port),
            lambda url: output.say(f"accepting events at {url}" if url else "stopped"),
            insecure=insecure,
        )


def _drain_spool(config: SluiceConfig) -> None:
    from gateway.gateway import Gateway, settings_of_spool
    from gateway.spool import Spool
    from servers.gateway import LOOK_SECONDS, wait_until_taken

    home, settings = Path(config.home), config.gateway
    with closing(Spool(home / settings.spool.path, settings.spool.max_bytes)) as spool:
        slots, first = spool.slots(), spool.size().batches
    with (
        connections_for(config, None, "gateway") as connections,
        closing(Gateway(settings_of_spool(settings, slots), (), connections, home=home, url="")) as gateway,
    ):
        gateway.start()
        wait_until_taken(gateway, Event())
        left, moved_at = first, time.monotonic()
        while left and time.monotonic() - moved_at < _UNMOVED_SECONDS:
            time.sleep(LOOK_SECONDS)
            if (now := gateway.spool.size().batches) != left:
                left, moved_at = now, time.monotonic()
    if left:
        raise fault("gateway-spool-left", left=left)
    output.say(f"{output.count(first, 'batch', 'batches')} sent from the spool")

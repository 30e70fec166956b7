"""Process of the gateway: claims its slots, serves its addresses and notifies clients of its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.gateway import WAITING, Gateway
from gateway.http_api import KINDS, GatewayApi, refusal
from gateway.persisted import Flushes, Persisted
from gateway.tokens import Tokens
from servers.environment import sluice_environment
from servers.listener import refuse_open, refuse_taken, tls_of, tokens_of, url_of
from servers.serving import serve
from spark_jobs import WITHIN
from spark_jobs.config.settings import SluiceConfig

if TYPE_CHECKING:
    from spark_jobs.config.gateway import GatewaySettings
    from spark_jobs.config.listener import Address
    from spark_jobs.connections.connect import Connections

# A gateway whose Kafka is away starts all the same, and takes nothing until it has been reached once.
START_SECONDS = 20.0
LOOK_SECONDS = 0.1
_FRAME_BYTES = 4096  # what may be around a batch
# The slowest uplink of a client: what it says to a ping comes behind the largest batch.
_SLOWEST_BYTES, _PONG_SECONDS = 16 << 10, 20.0
# Its tokens are its own.
GUARD = {"tokens": (), "kinds": KINDS, "refused": lambda why: refusal(why.status, why.reason)}


def serve_gateway(
    config: SluiceConfig,
    connections: Connections,
    address: Address,
    say: Callable[[str], None],
    *,
    insecure: bool = False,
) -> None:
    """Accept events until SIGTERM or Ctrl-C.

    Raises ``ConfigError`` for what can never work, and ``CommitConflict`` (``gateway-fenced``).
    """
    settings = config.gateway
    # Else a gateway that cannot serve would fence the one that does.
    refuse_open(settings.model_copy(update={"listen": address}), insecure=insecure)
    refuse_taken(address)
    tls_of(settings)
    tokens = Tokens(tokens_of(settings).values())
    url = url_of(settings, address)
    if settings.hosts:
        url = f"{url.partition('://')[0]}://{settings.hosts[0]}"
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())  # until the server ends by it
    home = Path(config.home)
    gateway = Gateway(settings, config.pipelines, connections, home=home, url=url, on_end=_end_this_process)
    with closing(gateway):
        gateway.start()
        wait_until_taken(gateway, ending)
        flushes, persisted = (
            Flushes(_drain_starter(config)),
            Persisted(connections, settings.memory.persisted),
        )
        api = GatewayApi(gateway, tokens, persisted, flushes, settings.origins)
        if not ending.is_set():
            gateway.metrics.watch(WAITING, persisted.__len__)
            serve(
                api.app(),
                settings,
                address,
                say,
                insecure=insecure,
                guard=GUARD,
                options=options_of(settings),
                finish=api.finish,
            )
    if gateway.ended is not None:
        raise gateway.ended


def options_of(settings: GatewaySettings) -> dict[str, Any]:
    """Return the options for uvicorn."""
    return {
        "ws_max_size": settings.max_batch_bytes + _FRAME_BYTES,
        # It compresses by windows of 4 KB, where others have 300 KB a connection, idle or not.
        "ws": "websockets-sansio",
        "ws_ping_timeout": _PONG_SECONDS + settings.max_batch_bytes / _SLOWEST_BYTES,
        "proxy_headers": bool(settings.trusted_proxies),
        "forwarded_allow_ips": list(settings.trusted_proxies),
    }


def wait_until_taken(gateway: Gateway, ending: threading.Event) -> None:
    """Wait until the slots are claimed, a timeout passes or it must end; raise permanent errors."""
    deadline = time.monotonic() + START_SECONDS
    while not gateway.is_ready and time.monotonic() < deadline:
        if gateway.ended is not None:
            raise gateway.ended
        if ending.wait(LOOK_SECONDS):
            return


def _end_this_process() -> None:
    def tell() -> None:
        while True:  # the server hears it once it runs
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)

    threading.Thread(target=tell, daemon=True).start()


def _drain_starter(config: SluiceConfig) -> Callable[[str], subprocess.Popen[bytes]]:
    """Return a function that starts ``drain`` of a pipeline as a separate process."""
    environment = sluice_environment(config.home, config.source)

    def start(pipeline: str) -> subprocess.Popen[bytes]:
        typed = [sys.executable, "-m", f"{WITHIN}cli", "drain", pipeline]
        return subprocess.Popen(typed, env=environment, cwd=config.home, stdout=subprocess.DEVNULL)

    return start

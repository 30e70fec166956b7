"""Serving an application of Sluice's where its settings say, behind the guard, until it is told to end."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import uvicorn

from servers.browser_guard import BrowserGuard
from servers.listener import guard_of, refuse_open, refuse_taken, tls_of, url_of
from spark_jobs.config.listener import Address, ListenerSettings

if TYPE_CHECKING:
    from starlette.types import ASGIApp


def serve(
    app: ASGIApp,
    settings: ListenerSettings,
    address: Address,
    say: Callable[[str], None],
    *,
    insecure: bool,
    **guard: Any,
) -> None:
    """Serve it until SIGTERM or Ctrl-C; ``say`` is told the address once it is bound.

    Raises ``ConfigError``: ``listener-without-tokens``, ``port-taken``.
    """
    settings = settings.model_copy(update={"listen": address})
    refuse_open(settings, insecure=insecure)
    refuse_taken(address)
    guarded = BrowserGuard(app, **guard_of(settings), **guard)
    serving = uvicorn.Config(guarded, log_level="warning", timeout_graceful_shutdown=1, **tls_of(settings))
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    signal.signal(signal.SIGTERM, lambda *_: None)  # the server ends by it, and has it raised again
    with socket.create_server((address.host, address.port), family=family) as listening:
        say(url_of(settings, address))
        try:
            uvicorn.Server(serving).run([listening])
        except KeyboardInterrupt:
            say("")

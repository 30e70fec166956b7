"""Serving of an ASGI application at its configured address, behind the guard, until stopped."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import signal
import socket
import weakref
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from servers.browser_guard import BrowserGuard
from servers.listener import guard_of, refuse_open, refuse_taken, tls_of, url_of
from servers.process import is_listening
from spark_jobs.config.listener import Address, ListenerSettings, ServeSettings
from spark_jobs.protocol.errors import fault

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from serving.flight_api import FlightApi
    from serving.service import QueryService


# Events and records come by the ten thousand, and none is in a circle of objects: looking for one among those
# on their way each time 700 more were made took half of a gateway's time.
GARBAGE_THRESHOLD = 200_000


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, finish: Callable[[], Awaitable[None]] | None) -> None:
        super().__init__(config)
        self._finish = finish

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._finish is not None:
            await self._finish()
        await super().shutdown(sockets)


def guarded(
    app: ASGIApp,
    settings: ListenerSettings,
    *,
    guard: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> uvicorn.Config:
    """Return the application behind the guard, with TLS if configured."""
    behind = BrowserGuard(app, **{**guard_of(settings), **(guard or {})})
    graceful = {"log_level": "warning", "timeout_graceful_shutdown": 1, "http": HeadsInTime}
    config = uvicorn.Config(behind, **{**graceful, **tls_of(settings), **(options or {})})
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    return config


def _is_news(record: logging.LogRecord) -> bool:
    """Return False for uvicorn's log lines about refused WebSockets."""
    return "completing handshake" not in record.msg


def serve(
    app: ASGIApp,
    settings: ListenerSettings,
    address: Address,
    say: Callable[[str], None],
    *,
    insecure: bool,
    guard: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    finish: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Serve the application until SIGTERM or Ctrl-C; ``say`` is called with the bound address.

    ``guard`` and ``options`` are what ``BrowserGuard`` and uvicorn are given beside what the settings say.
    ``finish`` is awaited before connections are closed.

    Raises ``ConfigError``: ``listener-without-tokens``, ``port-taken``.
    """
    gc.set_threshold(GARBAGE_THRESHOLD)
    settings = settings.model_copy(update={"listen": address})
    refuse_open(settings, insecure=insecure)
    serving = guarded(app, settings, guard=guard, options=options)
    signal.signal(signal.SIGTERM, lambda *_: None)  # the server ends by it, and has it raised again
    with _bound(address) as listening:
        say(url_of(settings, address))
        try:
            _Server(serving, finish).run([listening])
        except KeyboardInterrupt:
            say("")


@contextmanager
def served(
    app: ASGIApp,
    settings: ListenerSettings,
    address: Address,
    *,
    insecure: bool,
    guard: Mapping[str, Any] | None = None,
) -> Iterator[Thread]:
    """Serve the application in a thread within the block. Raises ``ConfigError`` as ``serve``."""
    settings = settings.model_copy(update={"listen": address})
    refuse_open(settings, insecure=insecure)
    server = uvicorn.Server(guarded(app, settings, guard=guard))
    with _bound(address) as listening:
        thread = Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            yield thread
        finally:
            server.should_exit = True
            thread.join(_STOP_SECONDS)


def _bound(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise fault("port-taken", address=address) from error
        raise


class HeadsInTime(AutoHTTPProtocol):  # type: ignore[misc,valid-type]
    """Protocol that closes connections whose request does not start in time, to save descriptors.

    Between requests uvicorn closes by itself who says nothing, until there is a first byte.
    """

    head_seconds = 10.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the time limit for the first request."""
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Start the time limit for the next request."""
        super().data_received(data)
        self._wait_for_head()

    def _wait_for_head(self) -> None:
        has_begun = self.cycle is not None and not self.cycle.response_complete
        if has_begun and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        elif not has_begun and self._timer is None:
            self._timer = self.loop.call_later(self.head_seconds, self._close)

    def _close(self) -> None:
        if self.transport.get_protocol() is self:  # else it is a WebSocket's by now
            self.transport.close()


# Flight SQL beside HTTP, in one process and over one service, with the same tokens and certificate.


_STOP_SECONDS = 1.0


@contextmanager
def flight_beside(
    service: QueryService, settings: ServeSettings, say: Callable[[str], None], *, insecure: bool
) -> Iterator[None]:
    """Serve Flight SQL at its configured address, if any; an unset address may move to a free port.

    Raises ``ConfigError`` as ``serve`` does.
    """
    address = settings.flight
    if address is None:
        yield
        return
    own = settings.model_copy(update={"listen": address})
    refuse_open(own, insecure=insecure)
    if "flight" in settings.model_fields_set:
        refuse_taken(address)
        api = _listening(service, own, address)
    else:
        api = _listening_at_or_anywhere(service, own, address)
    say(f"{'grpc+tls' if own.tls else 'grpc'}://{Address(address.from_here.host, api.port)}")
    try:
        yield
    finally:
        _stop(api)


def _listening(service: QueryService, own: ServeSettings, address: Address) -> FlightApi:
    from serving.flight_api import FlightApi  # noqa: PLC0415  (a library for this alone)

    files = [Path(each).read_bytes() for each in tls_of(own).values()]
    certificates = [(files[0], files[1])] if files else []
    return FlightApi(service, address, tokens=guard_of(own)["tokens"], certificates=certificates)


def _listening_at_or_anywhere(service: QueryService, own: ServeSettings, usual: Address) -> FlightApi:
    """Return the Flight server at the usual address, or at a free port if another process has it."""
    from pyarrow import ArrowException  # noqa: PLC0415

    try:
        return _listening(service, own, usual)
    except ArrowException:
        if not is_listening(usual.port, usual.from_here.host):
            raise
        return _listening(service, own, Address(usual.host, 0))


def _stop(api: FlightApi) -> None:
    """Stop the server, without waiting forever for clients that read nothing."""
    stopping = Thread(target=api.shutdown, daemon=True)
    stopping.start()
    stopping.join(_STOP_SECONDS)
    for each in list(weakref.finalize._registry):  # type: ignore[attr-defined]  # noqa: SLF001
        if (of := each.peek()) is not None and of[0] is api:
            each.detach()

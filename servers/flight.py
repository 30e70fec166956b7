"""Flight SQL beside HTTP, in one process and over one service, with the same tokens and certificate."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from servers.listener import guard_of, refuse_open, refuse_taken, tls_of
from servers.process import is_listening
from spark_jobs.config.listener import Address, ServeSettings

if TYPE_CHECKING:
    from serving.flight_api import FlightApi
    from serving.service import QueryService

_STOP_SECONDS = 1.0


@contextmanager
def flight_beside(
    service: QueryService, settings: ServeSettings, say: Callable[[str], None], *, insecure: bool
) -> Iterator[None]:
    """Listen where the settings say, or nowhere; who wrote no address gets a free port when it is taken.

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
        api = _listening_there_or_anywhere(service, own, address)
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


def _listening_there_or_anywhere(service: QueryService, own: ServeSettings, usual: Address) -> FlightApi:
    """Only binding tells whether an address is free: another Sluice may be starting as well."""
    from pyarrow import ArrowException  # noqa: PLC0415

    try:
        return _listening(service, own, usual)
    except ArrowException:
        if not is_listening(usual.port, usual.from_here.host):
            raise
        return _listening(service, own, Address(usual.host, 0))


def _stop(api: FlightApi) -> None:
    """Stop it, which waits for clients; for one that takes nothing not even the end of the process does."""
    stopping = Thread(target=api.shutdown, daemon=True)
    stopping.start()
    stopping.join(_STOP_SECONDS)
    for each in list(weakref.finalize._registry):  # type: ignore[attr-defined]  # noqa: SLF001
        if (of := each.peek()) is not None and of[0] is api:
            each.detach()

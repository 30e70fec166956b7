"""Whether a client may come in, and how much it may send: by its token, its connection and its address."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spark_jobs.gateway.limits import Bucket, Buckets, take_all
from spark_jobs.gateway.tokens import Token

if TYPE_CHECKING:
    from starlette.datastructures import Headers

# A browser's WebSocket has no header of one's own: its token is the name of a protocol that it offers.
PROTOCOL = "sluice.v1"
_TOKEN_PREFIX = "bearer."  # noqa: S105


class Admission:
    """One connection, or one request."""

    def __init__(self, token: Token, connection: float | None, address: Bucket) -> None:
        self._token = token
        self._connection = Bucket(connection)
        self._address = address

    def wait_ms(self, events: int, size_bytes: int) -> int:
        """Take what a batch costs; return in how many milliseconds to try again, 0 if it was taken."""
        token = self._token
        costs = (
            (token.events, events),
            (token.bytes, size_bytes),
            (self._connection, events),
            (self._address, events),
        )
        return take_all(tuple((bucket, float(amount)) for bucket, amount in costs if bucket.rate is not None))

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Count the connection as one of the token's."""
        self._token.connections += 1
        try:
            yield
        finally:
            self._token.connections -= 1


def admission(token: Token, connection: float | None, addresses: Buckets, address: str) -> Admission:
    """Return what a client at this address is held to."""
    return Admission(token, connection, addresses.of(address))


def secret_of(headers: Headers) -> str | None:
    """Return the token that a request brings: as bearer, as a password, or among protocols."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).partition(b":")[2].decode("latin-1")
        except ValueError:
            return None
    offered = (each.strip() for each in headers.get("sec-websocket-protocol", "").split(","))
    return next((each[len(_TOKEN_PREFIX) :] for each in offered if each.startswith(_TOKEN_PREFIX)), None)

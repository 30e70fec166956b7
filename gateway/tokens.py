"""Tokens of clients, stored as hashes, so that reading the configuration does not grant access."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from http import HTTPStatus
from typing import TYPE_CHECKING

from gateway.messages import Reason, RefusedError
from spark_jobs.config.quantities import parse_size_bytes
from spark_jobs.protocol.errors import RetryableError, fault

if TYPE_CHECKING:
    from starlette.datastructures import Headers


# Rate limits of clients: buckets that refill every second.


WINDOW_BYTES = 16 << 20  # of batches in one transaction
_LEAST_BYTES = 64 << 10
_SOON_SECONDS = 1.0


class Bucket:
    """A rate limit: accepts while its level is positive and may go below zero, so a large batch waits once.

    ``rate`` is the refill per second, and the maximum level; None means no limit.
    """

    __slots__ = ("_at", "_clock", "_level", "rate")

    def __init__(self, rate: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self._clock = clock
        self._level = rate or 0.0
        self._at = clock()

    def wait_ms(self) -> int:
        """Return the milliseconds until the level is positive; 0 if it is."""
        if self.rate is None:
            return 0
        now = self._clock()
        self._level = min(self.rate, self._level + (now - self._at) * self.rate)
        self._at = now
        return 0 if self._level > 0 else round(-self._level / self.rate * 1000) + 1

    def take(self, amount: float) -> None:
        """Reduce the level by ``amount``."""
        self._level -= amount


@dataclass(slots=True)
class Pace:
    """The size limit of a transaction: halved after a failure, doubled after a fast success."""

    most_bytes: int = WINDOW_BYTES
    clock: Callable[[], float] = time.monotonic

    @contextmanager
    def measure(self, size_bytes: int) -> Iterator[None]:
        """Adapt the limit to the outcome of a transaction of that size."""
        began = self.clock()
        try:
            yield
        except RetryableError:
            self.most_bytes = max(_LEAST_BYTES, min(size_bytes, self.most_bytes) // 2)
            raise
        if self.clock() - began < _SOON_SECONDS:
            self.most_bytes = min(WINDOW_BYTES, 2 * self.most_bytes)


# A browser's WebSocket cannot set headers: its token is the name of an offered subprotocol.
PROTOCOLS = ("sluice.v2", "sluice.v1")
_TOKEN_PREFIX = "bearer."  # noqa: S105
_COLUMNS = 5
_WORDS = {"look", "name", "sources"}
_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(slots=True, eq=False)
class Token:
    """The rights of a token and their use; None means all streams, or no limit of connections.

    ``sources`` are patterns of allowed source ids; ``may_look`` allows listing the connected sources.
    """

    streams: frozenset[str] | None
    events: Bucket
    bytes: Bucket
    most_connections: int | None
    name: str = ""
    sources: tuple[str, ...] = ("*",)
    may_look: bool = False
    connections: int = 0

    def may_send(self, stream: str) -> bool:
        """True if the token allows the stream."""
        return self.streams is None or stream in self.streams

    def wait_ms(self, events: int, size_bytes: int) -> int:
        """Charge a batch to both limits and return 0, or return the milliseconds until a retry."""
        if wait_ms := max(self.events.wait_ms(), self.bytes.wait_ms()):
            return wait_ms
        self.events.take(events)
        self.bytes.take(size_bytes)
        return 0

    def refuse_other(self, source: str) -> None:
        """Raise ``RefusedError`` if the token does not allow the source."""
        if not any(fnmatchcase(source, each) for each in self.sources):
            raise RefusedError("the token does not allow this source", "sourceId", HTTPStatus.FORBIDDEN)

    def connect(self) -> None:
        """Count a new connection. Raises ``RefusedError`` if the token has its maximum number of them."""
        if self.most_connections is not None and self.connections >= self.most_connections:
            status = HTTPStatus.TOO_MANY_REQUESTS
            message = "the token has its maximum number of connections"
            raise RefusedError(message, None, status, Reason.RATE_LIMITED)
        self.connections += 1


class Tokens:
    """The configured tokens. If there are none, authentication is disabled."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Read lines of tokens. Raises ``ConfigError`` (``gateway-tokens-unreadable``), quoting none."""
        given = list(texts)
        self._by_hash = dict(_tokens(given))
        self._anybody = None if given else Token(None, Bucket(None), Bucket(None), None)
        if given and not self._by_hash:  # removing all tokens must not disable authentication
            raise fault("gateway-tokens-unreadable", why="gateway.tokens contains no token")

    def find(self, secret: str | None) -> Token | None:
        """Return the token of a secret, None if it is unknown."""
        if self._anybody is not None:
            return self._anybody
        return None if secret is None else self._by_hash.get(hashlib.sha256(secret.encode()).hexdigest())


def secret_of(headers: Headers) -> str | None:
    """Return the token of a request: a bearer token, or one among the offered subprotocols."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    offered = (each.strip() for each in headers.get("sec-websocket-protocol", "").split(","))
    return next((each[len(_TOKEN_PREFIX) :] for each in offered if each.startswith(_TOKEN_PREFIX)), None)


def _tokens(texts: Iterable[str]) -> Iterator[tuple[str, Token]]:
    """Yield the tokens by their hashes. Raises ``ConfigError`` with the number of the line."""
    for at, text in enumerate(texts):
        for number, line in enumerate(text.splitlines(), 1):
            if columns := line.split("#")[0].split():
                try:
                    yield _token(columns)
                except ValueError as error:
                    why = f"line {number} of gateway.tokens.{at}: {error}"
                    raise fault("gateway-tokens-unreadable", why=why) from None


def _token(columns: list[str]) -> tuple[str, Token]:
    """Return the hash and the rights of a line. Raises ``ValueError``, which does not quote the hash."""
    if not _HASH.fullmatch(columns[0]):
        raise ValueError("HASH is not 64 hexadecimal digits in lower case")
    if len(columns) < _COLUMNS:
        raise ValueError(f"it has {len(columns)} of {_COLUMNS} columns")
    digest, streams, events, size, connections, *words = columns
    options = dict(word.partition("=")[::2] for word in words)
    if options.keys() - _WORDS:
        raise ValueError(f"it has other words than {', '.join(sorted(_WORDS))} after its columns")
    return digest, Token(
        None if streams == "*" else frozenset(streams.split(",")),
        Bucket(_limit("EVENTS/S", events, int)),
        Bucket(_limit("BYTES/S", size, parse_size_bytes)),
        _limit("CONNECTIONS", connections, int),
        options.get("name") or digest[:8],
        tuple(options.get("sources", "*").split(",")),
        "look" in options,
    )


def _limit(column: str, text: str, read: Callable[[str], int]) -> int | None:
    if text == "-":
        return None
    try:
        limit = read(text)
    except ValueError:
        limit = 0
    if limit < 1:
        form = "number from 1" if read is int else "size such as 1MiB"
        raise ValueError(f"{column} is {text!r}, which is neither a {form} nor -")
    return limit

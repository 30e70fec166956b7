"""Who may send what: tokens by their hashes, so that who reads them can send nothing."""

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


# How much a client may send: buckets that fill by the second.


WINDOW_BYTES = 16 << 20  # of batches in one transaction
_LEAST_BYTES = 64 << 10
_SOON_SECONDS = 1.0


class Bucket:
    """Takes what comes while there is anything in it, and owes the rest: a large batch waits once.

    ``rate`` is what flows in a second, and the most that is in it; None is no limit.
    """

    __slots__ = ("_at", "_clock", "_level", "rate")

    def __init__(self, rate: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self._clock = clock
        self._level = rate or 0.0
        self._at = clock()

    def wait_ms(self) -> int:
        """Return in how many milliseconds something is in it, 0 for now."""
        if self.rate is None:
            return 0
        now = self._clock()
        self._level = min(self.rate, self._level + (now - self._at) * self.rate)
        self._at = now
        return 0 if self._level > 0 else round(-self._level / self.rate * 1000) + 1

    def take(self, amount: float) -> None:
        """Take it out."""
        self._level -= amount


@dataclass(slots=True)
class Pace:
    """How many bytes of batches go into one transaction: half of what did not arrive, twice what did soon."""

    most_bytes: int = WINDOW_BYTES
    clock: Callable[[], float] = time.monotonic

    @contextmanager
    def kept(self, size_bytes: int) -> Iterator[None]:
        """Learn from a transaction of that size."""
        began = self.clock()
        try:
            yield
        except RetryableError:
            self.most_bytes = max(_LEAST_BYTES, min(size_bytes, self.most_bytes) // 2)
            raise
        if self.clock() - began < _SOON_SECONDS:
            self.most_bytes = min(WINDOW_BYTES, 2 * self.most_bytes)


# A browser's WebSocket has no header of one's own: its token is the name of a protocol that it offers.
PROTOCOLS = ("sluice.v2", "sluice.v1")
_TOKEN_PREFIX = "bearer."  # noqa: S105
_COLUMNS = 5
_WORDS = {"look", "name", "sources"}
_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(slots=True, eq=False)
class Token:
    """What one token allows, and how much of it is used; ``streams`` None are all, so are connections.

    ``sources`` are patterns of those it may send as, ``may_look`` lets it see who sends.
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
        """True if the stream is one of its own."""
        return self.streams is None or stream in self.streams

    def wait_ms(self, events: int, size_bytes: int) -> int:
        """Take what a batch costs of both, or of none; return when to try again, 0 if it was taken."""
        if wait_ms := max(self.events.wait_ms(), self.bytes.wait_ms()):
            return wait_ms
        self.events.take(events)
        self.bytes.take(size_bytes)
        return 0

    def refuse_other(self, source: str) -> None:
        """Raise ``RefusedError`` for a source that is none of its own."""
        if not any(fnmatchcase(source, each) for each in self.sources):
            raise RefusedError("the token does not allow this source", "sourceId", HTTPStatus.FORBIDDEN)

    def connect(self) -> None:
        """Count one more connection. Raises ``RefusedError`` where it has as many as it may have."""
        if self.most_connections is not None and self.connections >= self.most_connections:
            status = HTTPStatus.TOO_MANY_REQUESTS
            message = "the token has its maximum number of connections"
            raise RefusedError(message, None, status, Reason.RATE_LIMITED)
        self.connections += 1


class Tokens:
    """All tokens there are; without any whoever comes may send."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Read lines. Raises ``ConfigError``: ``gateway-tokens-unreadable``, which quotes none."""
        given = list(texts)
        lines = [line.split("#")[0].split() for text in given for line in text.splitlines()]
        self._by_hash = dict(_token(line) for line in lines if line)
        self._anybody = None if given else Token(None, Bucket(None), Bucket(None), None)
        if given and not self._by_hash:  # else who has them all taken out lets everybody in
            raise fault("gateway-tokens-unreadable", why="there is no token in it")

    def find(self, secret: str | None) -> Token | None:
        """Return what a secret allows, None where it is none of these."""
        if self._anybody is not None:
            return self._anybody
        return None if secret is None else self._by_hash.get(hashlib.sha256(secret.encode()).hexdigest())


def secret_of(headers: Headers) -> str | None:
    """Return the token that a request brings: as bearer, or among protocols."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    offered = (each.strip() for each in headers.get("sec-websocket-protocol", "").split(","))
    return next((each[len(_TOKEN_PREFIX) :] for each in offered if each.startswith(_TOKEN_PREFIX)), None)


def _token(columns: list[str]) -> tuple[str, Token]:
    if len(columns) < _COLUMNS or not _HASH.fullmatch(columns[0]):
        raise fault("gateway-tokens-unreadable", why="a line has too few columns or no valid hash")
    digest, streams, events, size, connections, *words = columns
    told = dict(word.partition("=")[::2] for word in words)
    if told.keys() - _WORDS:
        raise fault("gateway-tokens-unreadable", why="a line has unknown words after its columns")
    try:
        return digest, Token(
            None if streams == "*" else frozenset(streams.split(",")),
            Bucket(_limit(events, int)),
            Bucket(_limit(size, parse_size_bytes)),
            _limit(connections, int),
            told.get("name") or digest[:8],
            tuple(told.get("sources", "*").split(",")),
            "look" in told,
        )
    except ValueError as error:
        raise fault("gateway-tokens-unreadable", why=str(error)) from None


def _limit(text: str, read: Callable[[str], int]) -> int | None:
    if text == "-":
        return None
    if (limit := read(text)) < 1:
        raise ValueError(f"{text} is not a limit")
    return limit

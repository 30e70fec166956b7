"""Who may send what: tokens by their hashes, so that who reads them can send nothing."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from spark_jobs.config.problems import UnreadableValueError
from spark_jobs.config.quantities import parse_size_bytes
from spark_jobs.gateway.limits import Bucket
from spark_jobs.protocol.errors import ConfigError

_COLUMNS = 5
_HASH = re.compile(r"[0-9a-f]{64}")


class Token:
    """What one token allows, and how much of it is used."""

    def __init__(
        self, streams: frozenset[str] | None, events: Bucket, size: Bucket, most: int | None
    ) -> None:
        self._streams = streams
        self.events = events
        self.bytes = size
        self.most_connections = most
        self.connections = 0

    def may_send(self, stream: str) -> bool:
        """True if the stream is one of its own."""
        return self._streams is None or stream in self._streams

    @property
    def is_full(self) -> bool:
        """True if it has as many connections as it may have."""
        return self.most_connections is not None and self.connections >= self.most_connections


class Tokens:
    """All tokens there are; without any whoever comes may send."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Read lines. Raises ``ConfigError``: ``gateway-tokens-unreadable``, which quotes none."""
        lines = [line.split("#")[0].split() for text in texts for line in text.splitlines()]
        self._by_hash = dict(_token(line) for line in lines if line)
        self._anybody = None if self._by_hash else Token(None, Bucket(None), Bucket(None), None)

    def find(self, secret: str | None) -> Token | None:
        """Return what a secret allows, None where it is none of these."""
        if self._anybody is not None:
            return self._anybody
        return None if secret is None else self._by_hash.get(hashlib.sha256(secret.encode()).hexdigest())


def _token(columns: list[str]) -> tuple[str, Token]:
    if len(columns) != _COLUMNS or not _HASH.fullmatch(columns[0]):
        raise _unreadable("it has other columns")
    digest, streams, events, size, connections = columns
    of = None if streams == "*" else frozenset(streams.split(","))
    try:
        limits = Bucket(_count(events)), Bucket(None if size == "-" else parse_size_bytes(size))
        return digest, Token(of, *limits, _count(connections))
    except UnreadableValueError as error:
        raise _unreadable(error.message) from None
    except ValueError as error:
        raise _unreadable(str(error)) from None


def _unreadable(why: str) -> ConfigError:
    return ConfigError(
        f"a line of the gateway's tokens cannot be read: {why}",
        code="gateway-tokens-unreadable",
        hint="A line is HASH STREAMS EVENTS/S BYTES/S CONNECTIONS, as HASH clicks,orders 1000 1MiB 20;"
        " - is no limit, * is every stream, HASH is what printf %s TOKEN | sha256sum says.",
    )


def _count(text: str) -> int | None:
    return None if text == "-" else int(text)

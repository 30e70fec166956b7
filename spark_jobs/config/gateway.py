"""Setting ``gateway``: streams and limits for clients without Kafka. Pure."""

from __future__ import annotations

import re
from enum import StrEnum
from ipaddress import ip_network
from typing import Annotated

from pydantic import Field, WithJsonSchema

from spark_jobs.config import values
from spark_jobs.config.listener import DEFAULT_GATEWAY, AddressOrOff, ListenerSettings
from spark_jobs.config.problems import wrong_value
from spark_jobs.config.quantities import parse_duration_seconds
from spark_jobs.config.values import Frozen, choice, key, parsed

# Of the hash of a source; fixed, since transactional ids and the partitions of states are made of it.
SLOTS = 8
# What a batch takes in a spool beside its events, in the file and in the memory of its slot.
SPOOLED_BYTES = 1_000
_SOURCES = re.compile(r"(\d)-(\d)/(\d)")


def _slots(text: str) -> tuple[int, ...]:
    match = _SOURCES.fullmatch(text)
    first, last, of = map(int, match.groups()) if match else (0, 0, 0)
    if of != SLOTS or not first <= last < SLOTS:
        raise wrong_value("not-slots", text=text, slots=SLOTS)
    return tuple(range(first, last + 1))


def _duration_or_none(text: str) -> int:
    return 0 if text == "0" else parse_duration_seconds(text)


def _network(text: str) -> str:
    try:
        return str(ip_network(text))
    except ValueError as error:
        raise wrong_value("not-a-network", text=text, why=error) from error


class StreamEnvelope(StrEnum):
    """Form of a stream's records, if they are not the events' values."""

    SLUICE = "sluice"


class StreamSettings(Frozen):
    """A stream of the gateway and the topic of its events."""

    topic: values.Topic = Field(description="The topic. It must exist.")
    envelope: Annotated[StreamEnvelope, choice(StreamEnvelope)] | None = key(
        None,
        "`sluice`: a record is the whole event with its operation and key, for a pipeline with"
        " `cdc: {envelope: sluice}`. If unset, a record is the event's value.",
    )
    # The last one: it takes the name of what makes a key.
    key: str | None = key(
        None, "Field of an event's value that becomes the record's key. If unset, the event's `key`."
    )


class SpoolSettings(Frozen):
    """Disk storage of batches while Kafka is unavailable."""

    path: str = key("spool.db", "SQLite file on a local disk, relative to the state folder.")
    max_bytes: values.Size = key(
        "1GiB",
        "Maximum size of its batches; each counts its events and 1,000 bytes. Above it, clients wait.",
        alias="max",
    )


class MemorySettings(Frozen):
    """Limits of a gateway's memory per stream."""

    sources: values.Count = key(
        100_000,
        "Maximum number of sources whose positions are kept; others are read from Kafka when needed.",
    )
    event_ids: values.Count = key(
        1_000_000, "Maximum number of ids within `event_ids`. Above it, batches with ids get `buffer_full`."
    )
    persisted: values.Count = key(
        10_000, "Maximum number of batches that wait for `persisted`; a tenth of it per source."
    )


class GatewaySettings(ListenerSettings):
    """Gateway for clients without Kafka, over WebSocket and HTTP (docs/reference/gateway.md)."""

    section = "gateway"
    listen: AddressOrOff = key(
        str(DEFAULT_GATEWAY),
        "Address to listen on, as in `ui`. `./sluice gateway` uses it, and `./sluice up` if there are"
        " `streams`. `off`: `up` starts no gateway. If unset and the port is in use, `up` takes a free one.",
    )
    # References in them are unresolved.
    tokens: values.OneOrMany[values.Secret] = key(
        (),
        "Tokens and limits, for example from `${file:…}`, one per line: the SHA-256 of a token in hex, its"
        " streams (`a,b` or `*`), events per second, bytes per second (`1MiB`), connections; `-` means"
        " unlimited. Without tokens, every client may send.",
    )
    streams: dict[str, StreamSettings] = Field(default_factory=dict, description="Streams by name.")
    spool: SpoolSettings = key(SpoolSettings(), "Disk storage for times without Kafka: `path`, `max`.")
    event_ids_seconds: Annotated[
        int,
        parsed(_duration_or_none, int),
        WithJsonSchema({"type": "string", "pattern": r"^(0|\d+\s*[smhd])$"}),
    ] = key(
        "5m",
        "Time for which ids of events and batches are kept to detect duplicates. `0` disables it.",
        alias="event_ids",
    )
    max_batch_bytes: values.Size = key("1MiB", "Maximum size of one batch as sent.")
    memory: MemorySettings = key(MemorySettings(), "Limits of the gateway's memory per stream.")
    sources: Annotated[
        tuple[int, ...],
        parsed(_slots, tuple),
        WithJsonSchema({"type": "string", "pattern": r"^\d-\d/8$"}),
    ] = key("0-7/8", "Source slots (of eight) that this gateway serves. Other gateways serve the rest.")
    trusted_proxies: values.OneOrMany[Annotated[str, parsed(_network)]] = key(
        (), "Networks of proxies whose `X-Forwarded-Proto` is trusted to show that a client used TLS."
    )
    idle_seconds: values.Duration = key("10m", "Idle time after which a connection is closed.", alias="idle")

    def stream_of(self, topic: str) -> str | None:
        """Return the name of the stream that writes a topic, or None."""
        return next((name for name, stream in self.streams.items() if stream.topic == topic), None)

    @property
    def sources_text(self) -> str:
        """Return the slots in the form of the configuration."""
        return f"{self.sources[0]}-{self.sources[-1]}/{SLOTS}"

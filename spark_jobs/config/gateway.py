"""``gateway``: streams for clients that cannot speak Kafka, and what they are held to. Pure."""

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
    """What a stream's records are, where they are not the events' values."""

    SLUICE = "sluice"


class StreamSettings(Frozen):
    """A stream: what clients name, and the topic that its events go to."""

    topic: values.Topic = Field(description="The topic, which is there already.")
    envelope: Annotated[StreamEnvelope, choice(StreamEnvelope)] | None = key(
        None,
        "`sluice`: a record is the whole event, with its operation and key, for a pipeline with"
        " `cdc: {envelope: sluice}`.",
        shown="a record is the event's value",
    )
    # The last one: it takes the name of what makes a key.
    key: str | None = key(
        None, "The field of an event's value that is the record's key.", shown="the event's own `key`"
    )


class SpoolSettings(Frozen):
    """Where batches lie while Kafka is away."""

    path: str = key("spool.db", "An SQLite file on a disk of the gateway's own, from the state folder on.")
    max_bytes: values.Size = key(
        "1GiB",
        "Most bytes of batches in it, 1,000 of each beside its events; beyond them clients wait.",
        alias="max",
    )


class MemorySettings(Frozen):
    """What a gateway keeps in memory of a stream; beyond these it reads Kafka, or says so."""

    sources: values.Count = key(
        100_000,
        "Most sources whose last numbers are kept; others' are read from Kafka when they come.",
    )
    event_ids: values.Count = key(
        1_000_000, "Most ids within `event_ids`; beyond them batches with ids are `buffer_full` for a while."
    )
    persisted: values.Count = key(
        10_000, "Most batches that wait to be told `persisted`, a tenth of these of one source."
    )


class GatewaySettings(ListenerSettings):
    """Streams for clients that cannot speak Kafka, over WebSocket and HTTP. See docs/reference/gateway.md."""

    section = "gateway"
    listen: AddressOrOff = key(
        str(DEFAULT_GATEWAY),
        "Where it listens, as of `ui`: by `./sluice gateway`, and by `./sluice up` where there are `streams`;"
        " with `off` `up` does not. Not written, `up` takes a free port when this one is taken.",
    )
    # References in them are unresolved.
    tokens: values.OneOrMany[values.Secret] = key(
        (),
        "Who may send what, a line each: the SHA-256 of a token in hex, its streams (`a,b`, or `*`), events a"
        " second, bytes a second (`1MiB`), connections; `-` is no limit. Best as `${file:…}`.",
        shown="none: whoever reaches it may send",
    )
    streams: dict[str, StreamSettings] = Field(default_factory=dict, description="Streams by name.")
    spool: SpoolSettings = key(SpoolSettings(), "Where batches lie while Kafka is away: `path`, `max`.")
    event_ids_seconds: Annotated[
        int,
        parsed(_duration_or_none, int),
        WithJsonSchema({"type": "string", "pattern": r"^(0|\d+\s*[smhd])$"}),
    ] = key(
        "5m",
        "How long ids of events and batches are remembered, so that they count once; `0` is not at all.",
        alias="event_ids",
    )
    max_batch_bytes: values.Size = key("1MiB", "Most bytes of one batch as it is sent.")
    memory: MemorySettings = key(
        MemorySettings(), "What it remembers of a stream: `sources`, `event_ids`, `persisted`."
    )
    sources: Annotated[
        tuple[int, ...],
        parsed(_slots, tuple),
        WithJsonSchema({"type": "string", "pattern": r"^\d-\d/8$"}),
    ] = key("0-7/8", "Which of eight slots of sources this gateway serves; others have the rest.")
    trusted_proxies: values.OneOrMany[Annotated[str, parsed(_network)]] = key(
        (), "Networks of proxies whose `X-Forwarded-Proto` says that a client came by TLS.", shown="none"
    )
    idle_seconds: values.Duration = key(
        "10m", "A connection that says nothing for so long is closed.", alias="idle"
    )

    def stream_of(self, topic: str) -> str | None:
        """Return the name of the stream that writes a topic, None where none does."""
        return next((name for name, stream in self.streams.items() if stream.topic == topic), None)

    @property
    def sources_text(self) -> str:
        """Return the slots as they are written."""
        return f"{self.sources[0]}-{self.sources[-1]}/{SLOTS}"

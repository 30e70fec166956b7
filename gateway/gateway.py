"""The gateway: its streams, their slots, and their common state. It is independent of protocols."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyio.to_thread import run_sync
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from gateway.intake import QUEUE_BATCHES, QUEUE_BYTES, Intake, Listener
from gateway.lane import Lane
from gateway.messages import Ack, Answer, Batch, Nack, Reason, State, Status, slot_of
from gateway.spool import Spool, SpoolSize
from gateway.tokens import Token
from gateway.topics import Owner, StreamTopics
from gateway.writer import Writer
from spark_jobs.config.gateway import GatewaySettings, StreamSettings
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.monitoring.metric_families import COUNTER, GAUGE, HISTOGRAM, Family
from spark_jobs.protocol.errors import SluiceError, fault

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections


# The gateway's metrics: batches received, their outcomes and their durations.


_BATCHES = Family(
    "sluice_gateway_batches_total", COUNTER, "Acknowledged batches by the ack's status.", ("status",)
)
_EVENTS = Family("sluice_gateway_events_total", COUNTER, "Events written to Kafka.")
_BYTES = Family("sluice_gateway_bytes_total", COUNTER, "Bytes of batches as sent by clients.")
_DUPLICATES = Family("sluice_gateway_duplicates_total", COUNTER, "Events skipped as duplicates.")
_NACKS = Family("sluice_gateway_nacks_total", COUNTER, "Rejected batches by reason.", ("reason",))
_SECONDS = Family("sluice_gateway_ack_seconds", HISTOGRAM, "Time from a batch's arrival to its first answer.")
_SOURCES = Family("sluice_gateway_connected_sources", GAUGE, "Open WebSocket connections.")
_SPOOLED = Family("sluice_gateway_spool_batches", GAUGE, "Batches on the gateway's disk, all streams.")
_SPOOLED_BYTES = Family("sluice_gateway_spool_bytes", GAUGE, "Bytes of the batches on the gateway's disk.")
_SPOOL_AGE = Family("sluice_gateway_spool_age_seconds", GAUGE, "Age of the oldest batch on the disk.")
KNOWN = Family("sluice_gateway_sources", GAUGE, "Sources whose last sequence numbers are in memory.")
IDS = Family("sluice_gateway_event_ids", GAUGE, "Event ids and batch ids in memory, to find duplicates.")
WAITING = Family("sluice_gateway_persisted_waiting", GAUGE, "Batches whose clients wait for `persisted`.")
_UNTOLD = Family(
    "sluice_gateway_persisted_untold_total",
    COUNTER,
    "Batches that get no `persisted` answer because too many waited.",
)
GATEWAY_FAMILIES = {
    each.name: each
    for each in (
        *(_BATCHES, _EVENTS, _BYTES, _DUPLICATES, _NACKS, _SECONDS, _SOURCES),
        *(_SPOOLED, _SPOOLED_BYTES, _SPOOL_AGE, KNOWN, IDS, WAITING, _UNTOLD),
    )
}
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class GatewayMetrics:
    """The gateway's metrics: totals by stream; gauges are read at the scrape."""

    def __init__(self, spooled: Callable[[], SpoolSize], connected: Callable[[], int]) -> None:
        registry = self._registry = CollectorRegistry()
        self._counters = {
            family.name: Counter(family.name, family.help, ("stream", *family.labels), registry=registry)
            for family in GATEWAY_FAMILIES.values()
            if family.kind == COUNTER
        }
        self._seconds = Histogram(
            _SECONDS.name, _SECONDS.help, ("stream",), buckets=_BUCKETS, registry=registry
        )
        gauges: dict[Family, Callable[[], float]] = {
            _SOURCES: connected,
            _SPOOLED: lambda: spooled().batches,
            _SPOOLED_BYTES: lambda: spooled().bytes,
            _SPOOL_AGE: lambda: (spooled().oldest_age_ms or 0) / 1000,
        }
        for family, read in gauges.items():
            self.watch(family, read)

    def watch(self, gauge: Family, read: Callable[[], float]) -> None:
        """Add a gauge that is read at each scrape."""
        Gauge(gauge.name, gauge.help, registry=self._registry).set_function(read)

    def count_unwatched(self, stream: str) -> None:
        """Count a batch that gets no ``persisted`` answer."""
        self._counters[_UNTOLD.name].labels(stream).inc()

    def count_received(self, stream: str, size_bytes: int) -> None:
        """Count the bytes of a received batch."""
        self._counters[_BYTES.name].labels(stream).inc(size_bytes)

    def count_answer(self, stream: str, answer: Answer, came: float | None = None) -> None:
        """Count an answer; ``came`` is the batch's arrival (``time.monotonic``), for its first answer."""
        if isinstance(answer, Ack):
            self._counters[_BATCHES.name].labels(stream, answer.status).inc()
            if answer.status in {Status.OK, Status.BUFFERED}:
                self._counters[_EVENTS.name].labels(stream).inc(answer.processed)
            self._counters[_DUPLICATES.name].labels(stream).inc(answer.skipped)
        else:
            self._counters[_NACKS.name].labels(stream, answer.reason).inc()
        if came is not None:
            self._seconds.labels(stream).observe(time.monotonic() - came)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)


# Streams, and their common state.


_OWNER_SECONDS = 5.0
_STATES = list(State)


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream; ``pipelines`` are those that drain its topic."""

    name: str
    settings: StreamSettings
    topics: StreamTopics
    lanes: Mapping[int, Lane]
    pipelines: tuple[PipelineConfig, ...]

    def intake_of(self, source: str) -> Intake:
        """Return the intake of a source, whose slot belongs to this gateway."""
        return self.lanes[slot_of(source)].intake


@dataclass(slots=True, eq=False)
class Sender:
    """The connection of a source; ``fence`` makes it reject batches, ``token`` is its token's name."""

    name: str | None
    token: str
    connected_at: str
    fence: Callable[[], None]
    persisted: int = 0


class Gateway:
    """The gateway; ``url`` is the address for its sources, ``on_end`` is called when it cannot continue."""

    def __init__(
        self,
        settings: GatewaySettings,
        pipelines: Sequence[PipelineConfig],
        connections: Connections,
        *,
        home: Path,
        url: str,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """Open the spool. Raises ``ConfigError`` and ``RetryableError``: ``gateway-spool``."""
        self.settings = settings
        self.connections = connections
        self.spool = Spool(home / settings.spool.path, settings.spool.max_bytes)
        self.connected = 0
        self.senders: dict[tuple[str, str], Sender] = {}  # the last of each stream and source
        self.metrics = GatewayMetrics(self.spool.size, lambda: self.connected)
        self.metrics.watch(KNOWN, lambda: sum(len(lane.intake.stands) for lane in self._lanes()))
        self.metrics.watch(IDS, lambda: sum(len(lane.intake.ids) for lane in self._lanes()))
        memory, slots = settings.memory, len(settings.sources)
        # Sources spread evenly over slots.
        self._memory = memory.model_copy(
            update={"sources": -(-memory.sources // slots), "event_ids": -(-memory.event_ids // slots)}
        )
        self._own = Owner(url, uuid.uuid4().hex)
        self._on_end = on_end
        self._is_closing = False
        self._owners: dict[tuple[str, int], tuple[float, asyncio.Future[Owner | None]]] = {}
        self.streams = {
            name: self._stream(name, stream, tuple(each for each in pipelines if each.topic == stream.topic))
            for name, stream in settings.streams.items()
        }

    def start(self) -> None:
        """Take over the slots.

        Raises ``ConfigError`` (``gateway-spool-foreign``) if the spool has batches of other slots.
        """
        own = {(each.settings.topic, slot) for each in self.streams.values() for slot in each.lanes}
        if foreign := sorted(self.spool.slots() - own):
            topic, slot = foreign[0]
            raise fault("gateway-spool-foreign", other=slot, topic=topic)
        for lane in self._lanes():
            lane.start()

    def stop(self) -> None:
        """Accept no more batches and finish the accepted ones; safe to repeat."""
        self._is_closing = True
        for lane in self._lanes():
            lane.intake.close()
        for lane in self._lanes():
            lane.join()

    def close(self) -> None:
        """Stop, and close the spool; safe to repeat."""
        self.stop()
        self.spool.close()

    @property
    def ended(self) -> SluiceError | None:
        """The error that stops the gateway; None while it can continue."""
        return next((lane.intake.ended for lane in self._lanes() if lane.intake.ended is not None), None)

    def offer(self, stream: Stream, batch: Batch, token: Token, listener: Listener) -> None:
        """Accept a batch of an own source; ``listener`` is called once or twice, on the caller's loop.

        See ``Intake.offer``.
        """
        loop, came = asyncio.get_running_loop(), iter((time.monotonic(),))
        self.metrics.count_received(stream.name, batch.size_bytes)

        def on_answer(answer: Answer) -> None:
            self.metrics.count_answer(stream.name, answer, next(came, None))
            listener(answer)

        def tell(answer: Answer) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(on_answer, answer)

        if (wait_ms := token.wait_ms(len(batch.events), batch.size_bytes)) > 0:
            message = "the token's rate limit is exceeded: send the batch again later"
            on_answer(Nack(Reason.RATE_LIMITED, message, batch.sequence, retry_after_ms=wait_ms))
        elif (answer := stream.intake_of(batch.source).offer(batch, tell)) is not None:
            on_answer(answer)

    async def elsewhere(self, stream: Stream, source: str, *, is_secure: bool) -> Nack | None:
        """Return the rejection of a source of another gateway, None for an own one. May read from Kafka.

        A client that used TLS, which a balancer may have terminated, is sent to a TLS address.
        """
        slot = slot_of(source)
        if slot in stream.lanes:
            return None
        asked = self._owners.get((stream.name, slot))
        if asked is None or time.monotonic() - asked[0] > _OWNER_SECONDS:
            # Once for all requests meanwhile, since it reads a partition.
            asked = time.monotonic(), asyncio.ensure_future(run_sync(stream.topics.owner, slot))
            self._owners[stream.name, slot] = asked
        gateway = None
        with suppress(SluiceError):
            if owner := await asyncio.shield(asked[1]):
                scheme, _, place = owner.url.partition("://")
                gateway = f"{'https' if is_secure else scheme}://{place}/v1/streams/{stream.name}"
        return Nack(
            Reason.INVALID_FORMAT,
            f"this gateway serves slots {self.settings.sources_text}; the source is in slot {slot}",
            field="sourceId",
            gateway=gateway,
        )

    def status(self) -> dict[str, Any]:
        """Return the status of all slots together, for clients."""
        lanes = self._lanes()
        batches, size, used = zip((0, 0, 0.0), *(lane.intake.size() for lane in lanes), strict=True)
        return {
            "state": max((lane.state for lane in lanes), key=_STATES.index, default=State.READY),
            "buffer": {
                "batches": sum(batches),
                "bytes": sum(size),
                "used": round(max(used), 3),
                "maxBatches": QUEUE_BATCHES,
                "maxBytes": QUEUE_BYTES,
            },
            "connectedSources": self.connected,
        }

    def sources(self) -> Iterator[dict[str, Any]]:
        """Yield each connected source with its time and progress: accepted, in Kafka, in tables."""
        for (stream, source), each in self.senders.items():
            yield {
                "stream": stream,
                "source": source,
                "name": each.name,
                "token": each.token,
                "connectedAt": each.connected_at,
                **self.streams[stream].intake_of(source).progress(source),
                "lastPersistedSequence": each.persisted or None,
            }

    @property
    def is_ready(self) -> bool:
        """True if this gateway owns all its slots."""
        return not self._is_closing and all(lane.intake.was_open for lane in self._lanes())

    def look(self) -> dict[str, Any]:
        """Return the state of the gateway for health checks."""
        size = self.spool.size()
        spool = {"batches": size.batches, "bytes": size.bytes, "oldestAgeMs": size.oldest_age_ms}
        own = {"isReady": self.is_ready, "sources": self.settings.sources_text, "spool": spool}
        return {**self.status(), **own}

    def _stream(self, name: str, settings: StreamSettings, pipelines: tuple[PipelineConfig, ...]) -> Stream:
        connections = self.connections
        kafka, ids_seconds = (connections.kafka, connections.admin), self.settings.event_ids_seconds
        topics = StreamTopics(*kafka, settings.topic, ids_seconds, connections.refresh)
        lanes = {slot: self._lane(topics, slot) for slot in self.settings.sources}
        return Stream(name, settings, topics, lanes, pipelines)

    def _lane(self, topics: StreamTopics, slot: int) -> Lane:
        def reach(place: str) -> None:
            self.connections.fail_points.reach(f"gateway.{place}")

        return Lane(
            Writer(topics, slot, self._own, reach, self.settings.max_batch_bytes),
            self.spool,
            (topics.topic, slot),
            ids_seconds=self.settings.event_ids_seconds,
            memory=self._memory,
            reach=reach,
            on_end=self._ended,
        )

    def _ended(self) -> None:
        if not self._is_closing:
            self._on_end()

    def _lanes(self) -> list[Lane]:
        return [lane for stream in self.streams.values() for lane in stream.lanes.values()]


def settings_of_spool(settings: GatewaySettings, slots: set[tuple[str, int]]) -> GatewaySettings:
    """Return the settings of a gateway that sends the spool's slots and then ends."""
    topics = sorted({topic for topic, _ in slots})
    streams = {topic: StreamSettings(topic=topic) for topic in topics}
    own = tuple(sorted({slot for _, slot in slots}))
    return settings.model_copy(update={"streams": streams, "sources": own})

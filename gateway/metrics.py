"""What Prometheus is told by a gateway: what came, what became of it, and how long that took."""

from __future__ import annotations

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from gateway.messages import Ack, Answer, Status
from gateway.spool import SpoolSize
from spark_jobs.monitoring.metric_families import COUNTER, GAUGE, HISTOGRAM, Family

_BATCHES = Family(
    "sluice_gateway_batches_total", COUNTER, "Batches by what was answered: an ack's status.", ("status",)
)
_EVENTS = Family("sluice_gateway_events_total", COUNTER, "Events that Kafka has.")
_BYTES = Family("sluice_gateway_bytes_total", COUNTER, "Bytes of batches as they were sent.")
_DUPLICATES = Family("sluice_gateway_duplicates_total", COUNTER, "Events that were known already.")
_NACKS = Family("sluice_gateway_nacks_total", COUNTER, "Batches that were turned away.", ("reason",))
_SECONDS = Family("sluice_gateway_ack_seconds", HISTOGRAM, "From a batch's coming to its first answer.")
_SOURCES = Family("sluice_gateway_connected_sources", GAUGE, "Connections by WebSocket.")
_SPOOLED = Family("sluice_gateway_spool_batches", GAUGE, "Batches on the gateway's disk, of all streams.")
_SPOOLED_BYTES = Family("sluice_gateway_spool_bytes", GAUGE, "Bytes of these.")
_SPOOL_AGE = Family("sluice_gateway_spool_age_seconds", GAUGE, "How long ago the oldest of these came.")
KNOWN = Family("sluice_gateway_sources", GAUGE, "Sources whose last numbers are kept in memory.")
IDS = Family("sluice_gateway_event_ids", GAUGE, "Ids of events and batches that are remembered.")
WAITING = Family("sluice_gateway_persisted_waiting", GAUGE, "Batches whose clients wait for `persisted`.")
_UNTOLD = Family(
    "sluice_gateway_persisted_untold_total",
    COUNTER,
    "Batches that get no `persisted`: too many waited.",
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
    """Counts by stream; gauges are as of the scrape."""

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
        """Tell what is read at each scrape."""
        Gauge(gauge.name, gauge.help, registry=self._registry).set_function(read)

    def left_untold(self, stream: str) -> None:
        """Count a batch of which no more can be told."""
        self._counters[_UNTOLD.name].labels(stream).inc()

    def came(self, stream: str, size_bytes: int) -> None:
        """Count what was sent."""
        self._counters[_BYTES.name].labels(stream).inc(size_bytes)

    def told(self, stream: str, answer: Answer, came: float | None = None) -> None:
        """Count an answer; ``came``: when its batch did (``time.monotonic``), of the first answer to one."""
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
        """Return all of it as a scrape reads it."""
        return generate_latest(self._registry)

"""What Prometheus is told by a process that answers: how far its pipelines are, and how its queries went."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from spark_jobs.hot.told import State
from spark_jobs.monitoring.metric_families import COUNTER, GAUGE, HISTOGRAM, Family
from spark_jobs.protocol.errors import SluiceError

if TYPE_CHECKING:
    from spark_jobs.hot.follower import Follower

_STATE = Family("sluice_hot_state", GAUGE, "1 for the state a followed pipeline is in, else 0.", ("state",))
_ROWS = Family("sluice_hot_rows", GAUGE, "Rows in memory that the table lacks.")
_BYTES = Family("sluice_hot_bytes", GAUGE, "Bytes of memory that a pipeline's rows take.")
_AGE = Family("sluice_hot_age_seconds", GAUGE, "How long ago Kafka had nothing beyond what is shown.")
_QUERIES = Family(
    "sluice_queries_total",
    COUNTER,
    "Queries by outcome: `answered`, `left`, or an error's code.",
    ("outcome",),
)
_SECONDS = Family("sluice_query_duration_seconds", HISTOGRAM, "From a query's coming to its last row taken.")
SERVE_FAMILIES = {each.name: each for each in (_STATE, _ROWS, _BYTES, _AGE, _QUERIES, _SECONDS)}
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class ServeMetrics(Collector):
    """Counts queries of all protocols; gauges are as of the scrape."""

    def __init__(self, tails: Follower) -> None:
        self._tails = tails
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._queries = Counter(*_counted(_QUERIES), registry=self._registry)
        self._seconds = Histogram(*_counted(_SECONDS), buckets=_BUCKETS, registry=self._registry)

    def describe(self) -> list[Metric]:
        """Return nothing: registering must not ask."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges; what is not known has no sample."""
        gauges = {
            each.name: GaugeMetricFamily(each.name, each.help, labels=("pipeline", *each.labels))
            for each in (_STATE, _ROWS, _BYTES, _AGE)
        }
        for status in self._tails.statuses():
            for state in State:
                gauges[_STATE.name].add_metric([status.pipeline, state.value], status.state is state)
            gauges[_ROWS.name].add_metric([status.pipeline], status.hot_rows)
            gauges[_BYTES.name].add_metric([status.pipeline], status.size_bytes)
            if status.age_ms is not None:
                gauges[_AGE.name].add_metric([status.pipeline], status.age_ms / 1000)
        yield from gauges.values()

    @contextmanager
    def counted(self, pipeline: str) -> Iterator[None]:
        """Count the query that the block is."""
        began, outcome = time.monotonic(), "answered"
        try:
            yield
        except SluiceError as error:
            outcome = error.code
            raise
        except GeneratorExit:
            outcome = "left"
            raise
        except BaseException:
            outcome = "unexpected"
            raise
        finally:
            self._queries.labels(pipeline, outcome).inc()
            self._seconds.labels(pipeline).observe(time.monotonic() - began)

    def text(self) -> bytes:
        """Return all of it as a scrape reads it."""
        return generate_latest(self._registry)


def _counted(family: Family) -> tuple[str, str, Any]:
    return family.name, family.help, ("pipeline", *family.labels)

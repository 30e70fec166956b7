"""The query service: answers queries over the records pinned at their arrival, some at once.

It is independent of protocols: HTTP and Flight SQL use it, so that its limits hold for both together.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from serving.workers import Workers
from spark_jobs.config.listener import ServeSettings
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import Connections
from spark_jobs.hot.follower import Follower
from spark_jobs.hot.prefix import Prefix
from spark_jobs.hot.tail_status import PATIENCE_SECONDS, State
from spark_jobs.hot.watermark import Watermark
from spark_jobs.monitoring.metric_families import COUNTER, GAUGE, HISTOGRAM, Family
from spark_jobs.protocol.errors import RetryableError, SluiceError, fault
from spark_jobs.query.lookup import newest_of_key
from spark_jobs.query.query import Answer, SqlQuery

# The metrics of a serving process: the state of its pipelines and the outcomes of its queries.


_STATE = Family("sluice_hot_state", GAUGE, "1 for the current state of a pipeline, else 0.", ("state",))
_ROWS = Family("sluice_hot_rows", GAUGE, "Rows in memory that are not in the table yet.")
_BYTES = Family("sluice_hot_bytes", GAUGE, "Memory used by a pipeline's rows.")
_AGE = Family("sluice_hot_age_seconds", GAUGE, "Time since answers last included everything in Kafka.")
_QUERIES = Family(
    "sluice_queries_total",
    COUNTER,
    "Queries by outcome: `answered`, `left` (the client disconnected), or an error code.",
    ("outcome",),
)
_SECONDS = Family("sluice_query_duration_seconds", HISTOGRAM, "Time from a query's arrival to its last row.")
SERVE_FAMILIES = {each.name: each for each in (_STATE, _ROWS, _BYTES, _AGE, _QUERIES, _SECONDS)}
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class ServeMetrics(Collector):
    """The metrics of queries of all protocols; gauges are read at the scrape."""

    def __init__(self, tails: Follower) -> None:
        self._tails = tails
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._queries = Counter(*_arguments_of(_QUERIES), registry=self._registry)
        self._seconds = Histogram(*_arguments_of(_SECONDS), buckets=_BUCKETS, registry=self._registry)

    def describe(self) -> list[Metric]:
        """Return nothing, so that registering sends no request."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges; an unknown value has no sample."""
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
    def count_query(self, pipeline: str) -> Iterator[None]:
        """Count the query that runs in the block."""
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
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)


def _arguments_of(family: Family) -> tuple[str, str, Any]:
    return family.name, family.help, ("pipeline", *family.labels)


# Answers, and the limits for all of them.


SLOT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class RecordKey:
    """A record key whose rows are requested, newest first."""

    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """A query of a pipeline, by SQL or a key; ``seconds`` lowers the limit of its time.

    ``after`` are offsets to wait for, ``at`` is an earlier answer's watermark: not both. ``parameters`` are
    the values of the SQL's question marks. With ``columns_only`` the answer has no rows. When ``is_left``
    returns True, the client has disconnected and the query ends.
    """

    asked: str | RecordKey
    after: Mapping[int, int] = field(default_factory=dict)
    at: Watermark | None = None
    seconds: float | None = None
    parameters: Sequence[object] = ()
    columns_only: bool = False
    is_left: Callable[[], bool] = bool


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer with its first rows, and the watermark of its records; valid until its block ends."""

    answer: Answer
    watermark: Watermark


class QueryService:
    """The service, thread-safe; ``pipelines`` are the served ones, by name."""

    def __init__(
        self,
        pipelines: Sequence[PipelineConfig],
        connections: Connections,
        tails: Follower,
        settings: ServeSettings,
    ) -> None:
        self.tails = tails
        self.metrics = ServeMetrics(tails)
        self.pipelines = {pipeline.name: pipeline for pipeline in pipelines}
        self._connections = connections
        self.query_seconds = float(settings.query_timeout_seconds)
        self._slots = threading.BoundedSemaphore(settings.max_queries)
        self._workers = Workers(settings.max_queries, settings.query_memory_bytes)
        self._share_bytes = settings.query_memory_bytes // settings.max_queries
        self._closed = threading.Event()

    def pipeline(self, name: str | None) -> PipelineConfig:
        """Return the pipeline of the name, or the only one.

        Raises ``ConfigError``: ``not-served``, ``which-pipeline``.
        """
        if name is None and len(self.pipelines) == 1:
            return next(iter(self.pipelines.values()))
        served = ", ".join(self.pipelines)
        if name is None:
            raise fault("which-pipeline", served=served)
        if name not in self.pipelines:
            raise fault("not-served", served=served, pipeline=name)
        return self.pipelines[name]

    @contextmanager
    def ask(self, pipeline: PipelineConfig, question: Question) -> Iterator[Answered]:
        """Answer a question as of now; an error before the first row is raised before the block.

        Raises as ``Follower.pin`` and ``query``, and ``RetryableError`` (``too-many-queries``).
        """
        until = time.monotonic() + min(question.seconds or self.query_seconds, self.query_seconds)
        with self.metrics.count_query(pipeline.name), ExitStack() as stack:
            prefix = self._pinned(pipeline, question, until)
            if not self._slots.acquire(timeout=SLOT_SECONDS):
                raise fault("too-many-queries", pipeline=pipeline.name)
            stack.callback(self._slots.release)
            try:
                answer = self._start(stack, pipeline, question, prefix, until)
            except RetryableError as error:
                if error.code != "table-unreadable":
                    raise
                # Its snapshot may have expired since.
                prefix = self._pinned(pipeline, question, until)
                answer = self._start(stack, pipeline, question, prefix, until)
            yield Answered(answer, prefix.watermark)

    def close(self) -> None:
        """End all queries, running and waiting ones, and stop following."""
        self._closed.set()
        self._workers.close()
        self.tails.close()

    def _pinned(self, pipeline: PipelineConfig, question: Question, until: float) -> Prefix:
        patience = max(0.0, min(PATIENCE_SECONDS, until - time.monotonic()))
        after = question.after or None
        return self.tails.pin(pipeline.name, after=after, at=question.at, patience_seconds=patience)

    def _start(
        self, stack: ExitStack, pipeline: PipelineConfig, question: Question, prefix: Prefix, until: float
    ) -> Answer:
        """Return the answer after reading its first rows; the stack closes it."""
        if isinstance(question.asked, RecordKey):
            return newest_of_key(
                pipeline,
                self._connections,
                question.asked.text,
                prefix=prefix,
                memory_bytes=self._share_bytes,
                is_over=lambda: self._closed.is_set() or question.is_left() or time.monotonic() > until,
            )
        asked = SqlQuery(pipeline, question.asked, question.parameters, question.columns_only)
        with ExitStack() as own:
            answer = own.enter_context(self._workers.answer(asked, prefix, until, question.is_left))
            first = next(answer.batches, None)
            stack.push(own.pop_all())
        return Answer(answer.schema, chain(() if first is None else (first,), answer.batches))

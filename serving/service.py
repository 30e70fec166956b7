"""Answers one query after the other, or some at once, each over what is pinned for it when it comes.

It knows no protocol: HTTP and whatever else comes by ask here, so that limits hold for all of them together.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain

from serving.metrics import ServeMetrics
from serving.workers import Workers
from spark_jobs.config.listener import ServeSettings
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import Connections
from spark_jobs.hot.follower import Follower
from spark_jobs.hot.fresh import PATIENCE_SECONDS
from spark_jobs.hot.prefix import Prefix
from spark_jobs.hot.watermark import Watermark
from spark_jobs.protocol.errors import RetryableError, fault
from spark_jobs.query.lookup import newest_of_key
from spark_jobs.query.query import Answer, Asked

SLOT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class RecordKey:
    """A key whose rows are asked for, the newest first."""

    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a pipeline, by SQL or a key; ``seconds`` is less than a query may take.

    ``after`` are offsets to wait for, ``at`` an earlier answer's watermark: not both. ``parameters`` stand
    for the SQL's question marks; with ``columns_only`` the answer has no rows. Once ``is_left`` says that
    nobody waits for the answer any more, the query is ended.
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
    """An answer whose first rows are there, and which records it is over; good until its block is left."""

    answer: Answer
    watermark: Watermark


class QueryService:
    """Asked from any thread."""

    def __init__(
        self,
        pipelines: Sequence[PipelineConfig],
        connections: Connections,
        tails: Follower,
        settings: ServeSettings,
    ) -> None:
        self.tails = tails
        self.metrics = ServeMetrics(tails)
        self._pipelines = {pipeline.name: pipeline for pipeline in pipelines}
        self._connections = connections
        self.query_seconds = float(settings.query_timeout_seconds)
        self._slots = threading.BoundedSemaphore(settings.max_queries)
        self._workers = Workers(settings.max_queries, settings.query_memory_bytes)
        self._share_bytes = settings.query_memory_bytes // settings.max_queries
        self._closed = threading.Event()

    @property
    def pipelines(self) -> Mapping[str, PipelineConfig]:
        """The pipelines that are served, by name."""
        return self._pipelines

    def pipeline(self, name: str | None) -> PipelineConfig:
        """Return that of the name, or the only one.

        Raises ``ConfigError``: ``not-served``, ``which-pipeline``.
        """
        if name is None and len(self._pipelines) == 1:
            return next(iter(self._pipelines.values()))
        served = ", ".join(self._pipelines)
        if name is None:
            raise fault("which-pipeline", served=served)
        if name not in self._pipelines:
            raise fault("not-served", served=served, pipeline=name)
        return self._pipelines[name]

    @contextmanager
    def ask(self, pipeline: PipelineConfig, question: Question) -> Iterator[Answered]:
        """Answer a question as of now; what fails before the first row is raised before the block.

        Raises as ``Follower.pin`` and ``query``, and ``RetryableError`` (``too-many-queries``).
        """
        until = time.monotonic() + min(question.seconds or self.query_seconds, self.query_seconds)
        with self.metrics.counted(pipeline.name), ExitStack() as stack:
            prefix = self._pinned(pipeline, question, until)
            stack.enter_context(self._slot(pipeline))
            try:
                answer = self._begun(stack, pipeline, question, prefix, until)
            except RetryableError as error:
                if error.code != "table-unreadable":
                    raise
                # Its snapshot may have expired since.
                prefix = self._pinned(pipeline, question, until)
                answer = self._begun(stack, pipeline, question, prefix, until)
            yield Answered(answer, prefix.watermark)

    def close(self) -> None:
        """End every query that is under way, and those that wait; nothing is followed any more."""
        self._closed.set()
        self._workers.close()
        self.tails.close()

    def _pinned(self, pipeline: PipelineConfig, question: Question, until: float) -> Prefix:
        patience = max(0.0, min(PATIENCE_SECONDS, until - time.monotonic()))
        after = question.after or None
        return self.tails.pin(pipeline.name, after=after, at=question.at, patience_seconds=patience)

    def _begun(
        self, stack: ExitStack, pipeline: PipelineConfig, question: Question, prefix: Prefix, until: float
    ) -> Answer:
        """Return the answer with its first rows taken; the stack closes it."""
        if isinstance(question.asked, RecordKey):
            return newest_of_key(
                pipeline,
                self._connections,
                question.asked.text,
                prefix=prefix,
                memory_bytes=self._share_bytes,
                is_over=lambda: self._closed.is_set() or question.is_left() or time.monotonic() > until,
            )
        asked = Asked(pipeline, question.asked, question.parameters, question.columns_only)
        with ExitStack() as own:
            answer = own.enter_context(self._workers.asked(asked, prefix, until, question.is_left))
            first = next(answer.batches, None)
            stack.push(own.pop_all())
        return Answer(answer.schema, chain(() if first is None else (first,), answer.batches))

    @contextmanager
    def _slot(self, pipeline: PipelineConfig) -> Iterator[None]:
        if not self._slots.acquire(timeout=SLOT_SECONDS):
            raise fault("too-many-queries", pipeline=pipeline.name)
        try:
            yield
        finally:
            self._slots.release()

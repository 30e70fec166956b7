"""Notifies clients when their batches are in tables, and starts runs on request."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from subprocess import Popen
from typing import TYPE_CHECKING

from anyio.to_thread import run_sync

from gateway.gateway import Stream
from spark_jobs.config.secrets import scrub
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import load_fresh
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.errors import SluiceError

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections


LOOK_SECONDS = 1.0
# A source may have at most this fraction of the waiting batches.
_SHARE = 10


@dataclass(slots=True, eq=False)
class _Request:
    """A batch that waits for ``persisted``; ``ends`` are the topic's after the batch, empty until read."""

    source: str
    tell: Callable[[], None]
    ends: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Waiting:
    """The waiting batches of one stream, separate since its pipelines may be paused for long."""

    requests: list[_Request] = field(default_factory=list)
    of_source: Counter[str] = field(default_factory=Counter)
    looking: asyncio.Task[None] | None = None

    def keep(self, kept: list[_Request]) -> None:
        self.requests = kept
        self.of_source = Counter(each.source for each in kept)


class Persisted:
    """Looks at tables while batches wait for them; used from the server's loop."""

    def __init__(self, connections: Connections, most: int) -> None:
        """Prepare; at most ``most`` batches of a stream wait."""
        self._connections = connections
        self._most = most
        self._waiting: defaultdict[str, _Waiting] = defaultdict(_Waiting)

    def __len__(self) -> int:
        """Return the number of waiting batches."""
        return sum(len(each.requests) for each in self._waiting.values())

    def watch(self, stream: Stream, source: str, tell: Callable[[], None]) -> bool:
        """Call ``tell`` when the tables of all pipelines have the records that are in the topic now.

        Returns False if too many batches wait; then a later batch's notification covers this one.
        """
        waiting = self._waiting[stream.name]
        if len(waiting.requests) >= self._most or waiting.of_source[source] * _SHARE >= self._most:
            return False
        waiting.requests.append(_Request(source, tell))
        waiting.of_source[source] += 1
        if waiting.looking is None or waiting.looking.done():
            waiting.looking = asyncio.create_task(self._look(stream, waiting))
        return True

    def leave(self, stream: Stream, source: str) -> None:
        """Remove the batches of a source that has disconnected."""
        waiting = self._waiting[stream.name]
        if waiting.of_source[source]:
            waiting.keep([each for each in waiting.requests if each.source != source])

    async def _look(self, stream: Stream, waiting: _Waiting) -> None:
        while waiting.requests:
            try:
                done = {*await run_sync(self._done, stream, [*waiting.requests], abandon_on_cancel=True)}
            except SluiceError as error:
                logging.getLogger(__name__).warning("%s", scrub(str(error)))
                done = set()
            if done:
                finished = [each for each in waiting.requests if each in done]
                waiting.keep([each for each in waiting.requests if each not in done])
                for each in finished:
                    each.tell()
            await asyncio.sleep(LOOK_SECONDS)

    def _done(self, stream: Stream, requests: list[_Request]) -> list[_Request]:
        self._connections.refresh()
        if new := [each for each in requests if not each.ends]:
            ends = self._connections.admin.source_state(stream.topics.topic).high
            for each in new:
                each.ends = ends
        tables = [load_fresh(self._connections, pipeline.table) for pipeline in stream.pipelines]
        # A table that does not exist yet has no offsets.
        reached = [{} if table is None else progress_of(table).next_offsets for table in tables]
        return [
            each
            for each in requests
            if all(offsets.get(p, 0) >= end for offsets in reached for p, end in each.ends.items())
        ]


# Runs that clients request: at most one within a pipeline's ``freshness``, and never two at once.


class Flush(StrEnum):
    """The outcome of a flush request; for several pipelines the first of these that applies."""

    STARTED = "started"
    UNDER_WAY = "under_way"
    TOO_SOON = "too_soon"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class Flushes:
    """Starts drains on request; ``start`` starts that of a pipeline by name. Not thread-safe."""

    start: Callable[[str], Popen[bytes]]
    clock: Callable[[], float] = time.monotonic
    _runs: dict[str, tuple[Popen[bytes], float]] = field(init=False, default_factory=dict)

    def __call__(self, stream: Stream) -> Flush:
        """Start runs of the stream's pipelines and return the outcome."""
        became = {self._flush(pipeline) for pipeline in stream.pipelines}
        return next(each for each in Flush if each in {*became, Flush.UNSUPPORTED})

    def _flush(self, pipeline: PipelineConfig) -> Flush:
        if (before := self._runs.get(pipeline.name)) is not None:
            run, at = before
            if run.poll() is None:
                return Flush.UNDER_WAY
            if self.clock() - at < pipeline.freshness_seconds:
                return Flush.TOO_SOON
        self._runs[pipeline.name] = self.start(pipeline.name), self.clock()
        return Flush.STARTED

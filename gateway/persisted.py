"""What clients ask of tables: to be told when their batches are in, and runs that bring them in."""

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
# One source may have so large a part of what waits.
_SHARE = 10


@dataclass(slots=True, eq=False)
class _Wanted:
    """``ends`` are the topic's, of a moment when it had the batch; empty until somebody has looked."""

    source: str
    tell: Callable[[], None]
    ends: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Waiting:
    """Those of one stream, whose pipelines may be paused for long: no other stream waits for them."""

    wanted: list[_Wanted] = field(default_factory=list)
    of_source: Counter[str] = field(default_factory=Counter)
    looking: asyncio.Task[None] | None = None

    def keep(self, kept: list[_Wanted]) -> None:
        self.wanted = kept
        self.of_source = Counter(each.source for each in kept)


class Persisted:
    """Looks at tables while anybody waits for one; asked from the server's loop."""

    def __init__(self, connections: Connections, most: int) -> None:
        """Begin; ``most`` batches of a stream wait."""
        self._connections = connections
        self._most = most
        self._waiting: defaultdict[str, _Waiting] = defaultdict(_Waiting)

    def __len__(self) -> int:
        """Return how many wait."""
        return sum(len(each.wanted) for each in self._waiting.values())

    def tell(self, stream: Stream, source: str, tell: Callable[[], None]) -> bool:
        """Call ``tell`` when the tables of all its pipelines have what is in the topic now.

        False: too many wait. Then a later batch of the source says that this one is there too.
        """
        waiting = self._waiting[stream.name]
        if len(waiting.wanted) >= self._most or waiting.of_source[source] * _SHARE >= self._most:
            return False
        waiting.wanted.append(_Wanted(source, tell))
        waiting.of_source[source] += 1
        if waiting.looking is None or waiting.looking.done():
            waiting.looking = asyncio.create_task(self._look(stream, waiting))
        return True

    def leave(self, stream: Stream, source: str) -> None:
        """Forget who has left."""
        waiting = self._waiting[stream.name]
        if waiting.of_source[source]:
            waiting.keep([each for each in waiting.wanted if each.source != source])

    async def _look(self, stream: Stream, waiting: _Waiting) -> None:
        while waiting.wanted:
            try:
                done = {*await run_sync(self._done, stream, [*waiting.wanted], abandon_on_cancel=True)}
            except SluiceError as error:
                logging.getLogger(__name__).warning("%s", scrub(str(error)))
                done = set()
            if done:
                told = [each for each in waiting.wanted if each in done]
                waiting.keep([each for each in waiting.wanted if each not in done])
                for each in told:
                    each.tell()
            await asyncio.sleep(LOOK_SECONDS)

    def _done(self, stream: Stream, wanted: list[_Wanted]) -> list[_Wanted]:
        self._connections.refresh()
        if new := [each for each in wanted if not each.ends]:
            ends = self._connections.admin.source_state(stream.topics.topic).high
            for each in new:
                each.ends = ends
        tables = [load_fresh(self._connections, pipeline.table) for pipeline in stream.pipelines]
        # One that is not there yet has reached nothing.
        reached = [{} if table is None else progress_of(table).next_offsets for table in tables]
        return [
            each
            for each in wanted
            if all(offsets.get(p, 0) >= end for offsets in reached for p, end in each.ends.items())
        ]


# Runs of pipelines that clients ask for: one in a pipeline's ``freshness``, and never two at once.


class Flush(StrEnum):
    """What became of a request; of several pipelines' the first of these is told."""

    STARTED = "started"
    UNDER_WAY = "under_way"
    TOO_SOON = "too_soon"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class Flushes:
    """``start`` starts a drain of the pipeline of that name. Asked from one thread."""

    start: Callable[[str], Popen[bytes]]
    clock: Callable[[], float] = time.monotonic
    _runs: dict[str, tuple[Popen[bytes], float]] = field(init=False, default_factory=dict)

    def __call__(self, stream: Stream) -> Flush:
        """Start runs of the stream's pipelines, or say why none was started."""
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

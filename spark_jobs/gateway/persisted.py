"""Who waits until batches are in their tables is told when all of those are past what the topic had then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anyio.to_thread import run_sync

from spark_jobs.config.secrets import scrub
from spark_jobs.connections.tables import load_fresh
from spark_jobs.gateway.gateway import Stream
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.errors import SluiceError

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections

LOOK_SECONDS = 1.0
# Tables may lag by hours; a batch of before is in the table all the same.
_MOST_WAITING = 100_000


@dataclass(slots=True, eq=False)
class _Wanted:
    """``ends`` are the topic's, of a moment when it had the batch; empty until somebody has looked."""

    stream: Stream
    tell: Callable[[], None]
    ends: dict[int, int] = field(default_factory=dict)


class Persisted:
    """Looks at tables while anybody waits for one; asked from the server's loop."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._wanted: list[_Wanted] = []
        self._looking: asyncio.Task[None] | None = None

    def tell(self, stream: Stream, tell: Callable[[], None]) -> None:
        """Call ``tell`` when the tables of all its pipelines have what is in the topic now."""
        if len(self._wanted) < _MOST_WAITING:
            self._wanted.append(_Wanted(stream, tell))
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while self._wanted:
            try:
                done = await run_sync(self._done, [*self._wanted], abandon_on_cancel=True)
            except SluiceError as error:
                logging.getLogger(__name__).warning("%s", scrub(str(error)))
                done = []
            gone = {*done}
            self._wanted = [each for each in self._wanted if each not in gone]
            for each in done:
                each.tell()
            await asyncio.sleep(LOOK_SECONDS)

    def _done(self, wanted: list[_Wanted]) -> list[_Wanted]:
        done = []
        for stream in {each.stream.name: each.stream for each in wanted}.values():
            own = [each for each in wanted if each.stream is stream]
            if new := [each for each in own if not each.ends]:
                ends = self._connections.admin.source_state(stream.topics.topic).high
                for each in new:
                    each.ends = ends
            reached = [self._reached(pipeline.table) for pipeline in stream.pipelines]
            done += [
                each
                for each in own
                if all(table.get(p, 0) >= end for table in reached for p, end in each.ends.items())
            ]
        return done

    def _reached(self, name: str) -> Mapping[int, int]:
        """Return a table's next offsets, none of one that is not there yet."""
        table = load_fresh(self._connections, name)
        return {} if table is None else progress_of(table).next_offsets

"""Follows pipelines: keeps their hot tails in memory, so that a query does not read Kafka.

Nothing is written and no progress is stored: several followers may run, and a killed one starts again from
the tables' offsets.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import psutil
import pyarrow as pa

from spark_jobs.commit.anchor import check_anchor
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.hot.decoding_notes import DecodingNotes
from spark_jobs.hot.pipeline_follower import PipelineFollower
from spark_jobs.hot.prefix import Look, Seam, load_seam
from spark_jobs.hot.tail_status import PATIENCE_SECONDS
from spark_jobs.lake.catalog import close_catalog
from spark_jobs.lake.tables import dead_letters_of, load_table
from spark_jobs.protocol.errors import RetryableError, SluiceError, fault

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections
    from spark_jobs.hot.prefix import Prefix
    from spark_jobs.hot.tail_status import TailStatus
    from spark_jobs.hot.watermark import Watermark

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 1.0
_CLOSE_SECONDS = 2.0  # `down` kills what has not stopped after four


class Follower:
    """Follows pipelines with a thread for each, and one that looks at all tables and topics.

    ``memory_bytes`` limits the whole process: above it nothing more is read until drains have committed some
    rows. ``folder`` has the notes of records being decoded.
    """

    def __init__(
        self,
        pipelines: Sequence[PipelineConfig],
        connections: Connections,
        *,
        folder: Path,
        memory_bytes: int,
    ) -> None:
        self._connections = connections
        self._memory_bytes = memory_bytes
        self._catalog: Catalog | None = None  # to open one costs as much as a look; one that failed is left
        self._closed = Event()
        self._followers = {
            each.name: PipelineFollower(each, connections, DecodingNotes(folder, each.name), self._is_tight)
            for each in pipelines
        }
        self._thread = Thread(target=self._run, name="look", daemon=True)

    def start(self) -> None:
        """Start the threads; return at once."""
        for each in self._followers.values():
            each.start()
        self._thread.start()

    def close(self) -> None:
        """Stop and wake all waiters; pinned results stay valid.

        A thread that still waits for Kafka or the lake after two seconds is abandoned: it ends by itself, or
        with the process.
        """
        if self._closed.is_set():
            return
        self._closed.set()
        for each in self._followers.values():
            each.stop()
        deadline = time.monotonic() + _CLOSE_SECONDS
        self._thread.join(_CLOSE_SECONDS)
        for each in self._followers.values():
            each.join(max(0.0, deadline - time.monotonic()))

    def pin(
        self,
        pipeline: str,
        *,
        after: Mapping[int, int] | None = None,
        at: Watermark | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> Prefix:
        """Return the records for an answer that starts now; takes microseconds, unless it has to wait.

        It waits for the offsets ``after``, by partition. ``at`` is an earlier answer's watermark: the result
        then has exactly its records. Within an epoch a later call never returns less. Raises ``KeyError`` for
        a pipeline that is not followed, ``SourceChanged`` (``other-epoch``), ``RetryableError``
        (``not-yet``), and the reason why a pipeline has no exact answer.
        """
        return self._followers[pipeline].pin(after=after, at=at, patience_seconds=patience_seconds)

    def statuses(self) -> list[TailStatus]:
        """Return the status of each pipeline."""
        return [each.status() for each in self._followers.values()]

    def _run(self) -> None:
        while not self._closed.wait(_LOOK_SECONDS):
            try:
                self._look()
            except Exception:  # noqa: BLE001  (a dead thread would never report again)
                if self._closed.is_set():
                    return  # the thread was abandoned, and its connections are closed
                _log.exception("looking at tables and topics failed and is retried")
        if self._catalog is not None:
            close_catalog(self._catalog)

    def _is_tight(self) -> bool:
        if _resident_bytes() <= self._memory_bytes:
            return False
        # Freed memory stays with the process until the allocating thread releases it.
        pa.default_memory_pool().release_unused()
        return _resident_bytes() > self._memory_bytes

    def _look(self) -> None:
        """Look at all topics in one round, and at each table."""
        at = time.monotonic()
        following = [each for each in self._followers.values() if each.held is not None]
        try:
            self._connections.refresh()
            sources = self._connections.admin.source_states(each.pipeline.topic for each in following)
        except SluiceError as error:
            sources = dict.fromkeys((each.pipeline.topic for each in following), error)
        for each in following:
            each.update(Look(at, self._newer(each), sources[each.pipeline.topic]))

    def _newer(self, follower: PipelineFollower) -> Seam | SluiceError | None:
        """Return the table's current state, its error, or None if it is unchanged."""
        held, pipeline = follower.held, follower.pipeline
        if held is None:
            return None
        try:
            table = self._load(pipeline.table)
            if table is None:
                raise fault("no-table-yet", **pipeline.where)
            letters = self._load(dead_letters_of(pipeline.table))
            is_same = _places(table, letters) == _places(held.seam.table, held.seam.dead_letters)
            seam = held.seam if is_same else load_seam(pipeline, self._connections)
            if follower.is_set_back(seam) or is_same:
                return None
            check_anchor(seam.table)
        except RetryableError as error:
            # Any state of the lake is exact: an old one only costs memory.
            _log.warning("the table of %s could not be read and is retried: %s", pipeline.name, error)
            return None
        except SluiceError as error:
            return error
        return seam

    def _load(self, identifier: str) -> Table | None:
        catalog, self._catalog = self._catalog or self._connections.open_catalog(), None
        try:
            table = load_table(catalog, identifier)
        except SluiceError:
            close_catalog(catalog)
            raise
        self._catalog = catalog
        return table


def _places(*tables: Table | None) -> list[str | None]:
    return [None if table is None else table.metadata_location for table in tables]


def _resident_bytes() -> int:
    """Return the resident memory of this process."""
    return int(psutil.Process().memory_info().rss)

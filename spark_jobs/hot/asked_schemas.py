"""Asks for the schemas that records name beside the reading: a registry that is slow or away holds nobody up.

Who needs one is told to come again; the others read on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from threading import Thread
from typing import TYPE_CHECKING

from spark_jobs.hot.told import stopped
from spark_jobs.protocol.errors import SluiceError

if TYPE_CHECKING:
    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.writer_schemas import RecordSchemas
    from spark_jobs.hot.prefix import Held
    from spark_jobs.kafka.tail_reader import TailReader, Taken
    from spark_jobs.protocol.progress import Progress
    from spark_jobs.protocol.schema_id import SchemaKey
    from spark_jobs.schema.column_source import KnownSchemas

_log = logging.getLogger(__name__)
_AGAIN_SECONDS = 1.0


class SchemasAsked(Exception):
    """Records name schemas that are being asked for."""


class AskedSchemas:
    """Those of one pipeline. ``error``: why the last question had no answer, while partitions wait for it."""

    def __init__(self, pipeline: PipelineConfig, schemas: RecordSchemas) -> None:
        self._pipeline, self._schemas = pipeline, schemas
        self._answered: set[SchemaKey] = set()
        self._thread: Thread | None = None
        self._again_at = 0.0
        self._waiting: set[int] = set()
        self._left: set[int] = set()  # of those the ones that are not read, until there is an answer
        self.error: SluiceError | None = None

    def planned(self, progress: Progress) -> Progress:
        """See ``RecordSchemas``."""
        return self._schemas.planned(progress)

    def known(self, progress: Progress | None = None) -> KnownSchemas:
        """See ``RecordSchemas``."""
        return self._schemas.known(progress)

    def learn(self, named: Collection[SchemaKey], progress: Progress | None = None) -> None:
        """Return if all of ``named`` were asked for; else see that they are, and raise ``SchemasAsked``."""
        if self._answered.issuperset(named):
            return
        if not self._is_asking:
            self._thread = Thread(target=self._ask, args=(named, progress), name="schemas", daemon=True)
            self._thread.start()
        raise SchemasAsked

    def leave_out(self, reader: TailReader, taken: Taken, late: set[int]) -> None:
        """Read ``late`` no further, which are the partitions of ``taken`` that were told to come again."""
        if late:
            reader.leave(late)
            self._left |= late
        self._waiting = (self._waiting - taken.partitions) | late
        if not self._waiting:
            self.error = None

    def try_again(self, reader: TailReader, held: Held) -> None:
        """Read those that were left out from where they end, if there is reason to hope."""
        if self._left and not self._is_asking:
            reader.follow({partition: held.tails[partition].end for partition in self._left})
            self._left = set()

    @property
    def _is_asking(self) -> bool:
        """True while there is no answer, nor time for another question."""
        is_under_way = self._thread is not None and self._thread.is_alive()
        return is_under_way or time.monotonic() < self._again_at

    def _ask(self, named: Collection[SchemaKey], progress: Progress | None) -> None:
        try:
            self._schemas.learn(named, progress)
        except SluiceError as error:
            self.error = error.with_traceback(None)
        except Exception as error:  # noqa: BLE001  (else partitions would wait without a reason)
            _log.exception("asking for schemas of %s failed, and is tried again", self._pipeline.name)
            self.error = stopped(self._pipeline, error)
        else:
            self._answered.update(named)
            return
        self._again_at = time.monotonic() + _AGAIN_SECONDS

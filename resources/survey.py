"""One look at every pipeline: what its topic holds and where its table stands.

All topics are asked about in one round, tables are read side by side; a pipeline that cannot be read is a
``Problem`` of its own and never hides the others.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from spark_jobs.core.errors import RetryableError, SluiceError
from spark_jobs.core.progress import progress_from_properties
from spark_jobs.io.connection_properties import resolve_kafka_properties
from spark_jobs.io.secrets import resolve, scrub

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyiceberg.table import Table

    from spark_jobs.core.config import PipelineConfig, SluiceConfig
    from spark_jobs.core.progress import Progress
    from spark_jobs.core.source import SourceState
    from spark_jobs.core.txlog import Attempt
    from spark_jobs.io.kafka_admin import KafkaAdmin

# Reading a table is mostly parsing; a few threads hide the waiting of remote catalogs.
CATALOG_READERS = 8

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TableState:
    """Where a table stands; ``committed_at_ms`` (since the epoch) is when its last drain landed."""

    uuid: str
    progress: Progress
    committed_at_ms: int
    summary: dict[str, str]


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A pipeline's topic and table; ``table`` is None while it does not exist."""

    pipeline: PipelineConfig
    source: SourceState
    table: TableState | None


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a pipeline could not be looked at."""

    pipeline: PipelineConfig
    error: SluiceError


@dataclass(frozen=True, slots=True)
class LogState:
    """A pipeline's transaction log: attempts a checkpoint may fold, those that recovery has to look at."""

    pipeline: PipelineConfig
    finished: int
    unfinished: tuple[Attempt, ...]


class Surveyor:
    """Looks again and again; keeps its Kafka connection between looks until its properties change."""

    def __init__(self, config: SluiceConfig) -> None:
        self.config = config
        self._lock = threading.Lock()
        self._admin: tuple[dict[str, str], KafkaAdmin] | None = None

    def survey(self) -> list[Surveyed | Problem]:
        """One ``Surveyed`` or ``Problem`` per pipeline, in the configuration's order."""
        # Tables first: a run may commit in between, and no table is beyond what its topic holds later.
        tables = self._for_each_table(
            lambda pipeline, table: None if table is None else table_state(table, pipeline.table)
        )
        sources = self._sources()
        return [_joined(p, sources[p.topic], tables[p.name]) for p in self.config.pipelines]

    def logs(self, now_us: int) -> list[LogState | Problem]:
        """One ``LogState`` or ``Problem`` per pipeline; ``now_us`` is microseconds since the epoch."""
        from spark_jobs.io.txlog_store import TxlogStore  # noqa: PLC0415  (pyarrow, never at import)

        store = TxlogStore(self.config.state, resolve(self.config.catalog.properties))

        def log_state(pipeline: PipelineConfig, table: Table | None) -> LogState:
            if table is None:
                return LogState(pipeline, 0, ())
            uuid = str(table.metadata.table_uuid)
            return LogState(pipeline, len(store.finished(uuid)), store.unfinished(uuid, now_us=now_us))

        states = self._for_each_table(log_state)
        return [
            Problem(pipeline, state) if isinstance(state := states[pipeline.name], SluiceError) else state
            for pipeline in self.config.pipelines
        ]

    def _sources(self) -> Mapping[str, SourceState | SluiceError]:
        topics = sorted({pipeline.topic for pipeline in self.config.pipelines})
        try:
            states: Mapping[str, SourceState | SluiceError] = self._kafka_admin().source_states(topics)
        except SluiceError as error:
            return dict.fromkeys(topics, error)
        return states

    def _kafka_admin(self) -> KafkaAdmin:
        from spark_jobs.io.kafka_admin import KafkaAdmin  # noqa: PLC0415  (librdkafka, never at import)

        properties = resolve_kafka_properties(self.config)
        with self._lock:
            if self._admin is None or self._admin[0] != properties:
                if self._admin is not None:
                    self._admin[1].close()
                self._admin = (properties, KafkaAdmin(properties))
            return self._admin[1]

    def _for_each_table(
        self, read: Callable[[PipelineConfig, Table | None], T]
    ) -> dict[str, T | SluiceError]:
        """``read`` of every pipeline and its table, or why it failed, by pipeline; a few at a time."""
        pipelines = self.config.pipelines
        slices = [pipelines[start::CATALOG_READERS] for start in range(min(CATALOG_READERS, len(pipelines)))]
        found: dict[str, T | SluiceError] = {}
        with ThreadPoolExecutor(CATALOG_READERS) as readers:
            for part in readers.map(lambda some: self._read_tables(some, read), slices):
                found.update(part)
        return found

    def _read_tables(
        self, pipelines: Sequence[PipelineConfig], read: Callable[[PipelineConfig, Table | None], T]
    ) -> dict[str, T | SluiceError]:
        from spark_jobs.io.catalog import close_catalog, open_catalog  # noqa: PLC0415  (pyiceberg, never at import)
        from spark_jobs.io.tables import load_table  # noqa: PLC0415

        try:
            catalog = open_catalog(self.config.catalog.name, resolve(self.config.catalog.properties))
        except SluiceError as error:
            return dict.fromkeys((pipeline.name for pipeline in pipelines), error)
        found: dict[str, T | SluiceError] = {}
        for pipeline in pipelines:
            try:
                found[pipeline.name] = read(pipeline, load_table(catalog, pipeline.table))
            except SluiceError as error:
                found[pipeline.name] = error
            except Exception as error:  # noqa: BLE001  (one table must not hide the others)
                found[pipeline.name] = _unreadable(pipeline, error)
        close_catalog(catalog)
        return found


def table_state(table: Table, identifier: str) -> TableState:
    """Read the progress and when it last moved: the anchor's time, as upkeep makes snapshots of its own."""
    progress = progress_from_properties(table.properties, table=identifier)
    anchor = table.snapshot_by_id(progress.anchor) if progress.anchor is not None else None
    snapshot = anchor or table.current_snapshot()
    return TableState(
        uuid=str(table.metadata.table_uuid),
        progress=progress,
        committed_at_ms=snapshot.timestamp_ms if snapshot else table.metadata.last_updated_ms,
        summary=dict(snapshot.summary.additional_properties) if snapshot and snapshot.summary else {},
    )


def _joined(
    pipeline: PipelineConfig, source: SourceState | SluiceError, table: TableState | SluiceError | None
) -> Surveyed | Problem:
    if isinstance(source, SluiceError):
        return Problem(pipeline, source)
    if isinstance(table, SluiceError):
        return Problem(pipeline, table)
    return Surveyed(pipeline, source, table)


def _unreadable(pipeline: PipelineConfig, error: Exception) -> RetryableError:
    return RetryableError(
        f"the table cannot be read: {type(error).__name__}: {scrub(str(error))[:300]}",
        code="table-unreadable",
        hint="Check that the catalog and the table's storage can be reached from here.",
        pipeline=pipeline.name,
        table=pipeline.table,
    )

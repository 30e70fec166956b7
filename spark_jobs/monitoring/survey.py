"""One look at every pipeline: the state of its topic and its table.

All topics are queried in one round, tables are read in parallel. A surveyor that looks again reads only the
tables that matter. A pipeline that cannot be read is a ``Problem`` and does not affect the others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from spark_jobs.config.secrets import scrub
from spark_jobs.config.settings import PipelineConfig, SluiceConfig
from spark_jobs.connections.endpoints import resolve_kafka_properties
from spark_jobs.monitoring.upkeep_survey import FigureCache, UpkeepState, upkeep_state
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.progress import ColumnMap, Progress, progress_from_properties
from spark_jobs.protocol.source import SourceState, drain_refusal
from spark_jobs.recovery.decide import HeldBatch, held_batch
from spark_jobs.txlog.entries import is_waiting

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from spark_jobs.kafka.admin import KafkaAdmin
    from spark_jobs.txlog.store import TxlogStore

# Reading a table is mostly parsing; a few threads hide the waiting of remote catalogs.
CATALOG_READERS = 8
# Each waits for one record of each partition that its table is behind on.
TOPIC_READERS = 8
# A known table is read again after this time: others may roll it back, drop it or compact it.
KNOWN_SECONDS = 60.0
# For all tables together: 1,000 are each read every five minutes.
KNOWN_SECONDS_EACH = 0.3
# The same for its log and the tables beside it, which hardly change while the table does not.
UPKEPT_SECONDS = 600.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TableState:
    """The state of a table; ``committed_at_ms`` is the time of its last drain's commit, since the epoch.

    ``summary`` is that of the main branch's snapshot, with Iceberg's counts. ``clash`` is the error of the
    table with which a drain would fail, independent of the topic.
    """

    uuid: str
    progress: Progress
    committed_at_ms: int
    summary: dict[str, str]
    clash: SluiceError | None = None


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A pipeline's topic and table; ``table`` is None while it does not exist."""

    pipeline: PipelineConfig
    source: SourceState
    table: TableState | None


@dataclass(frozen=True, slots=True)
class Problem:
    """The error that prevented a look at a pipeline; ``table`` is its state if that could be read."""

    pipeline: PipelineConfig
    error: SluiceError
    table: TableState | None = None

    @property
    def reason(self) -> str:
        """The error's text without secrets, since an error may quote a server's answer."""
        return scrub(str(self.error))


def waits(look: Surveyed) -> bool:
    """True if the pipeline has no table, or records that are not in it, or its topic is another one."""
    return look.table is None or bool(
        look.source.lag(look.table.progress.next_offsets) or _disagree(look.pipeline, look.source, look.table)
    )


class Surveyor:
    """Looks at all pipelines; keeps its Kafka connection between looks until its properties change.

    ``patience_seconds`` limits the wait for Kafka and for each table.
    """

    def __init__(self, config: SluiceConfig, *, patience_seconds: float | None = None) -> None:
        self.config = config
        self._patience_seconds = patience_seconds
        self._lock = threading.Lock()
        self._admin: tuple[dict[str, str], KafkaAdmin] | None = None
        self._figures = FigureCache()
        # By pipeline, when its table was read (``time.monotonic``) and as what.
        self._known: dict[str, tuple[float, TableState | None]] = {}
        # By pipeline, when its upkeep was looked at, the table that a survey had read before, and the result.
        self._upkept: dict[str, tuple[float, TableState | None, UpkeepState]] = {}

    def survey(self, concerns: Callable[[Surveyed], bool] = waits) -> list[Surveyed | Problem]:
        """Return one ``Surveyed`` or ``Problem`` per pipeline, in the configuration's order.

        A table that an earlier look read is read again if ``concerns`` is true for the topic as it is now and
        the table as it was, or the earlier look is some minutes old.
        """
        pipelines, sources = self.config.pipelines, self.sources()
        known, now = self._known.copy(), time.monotonic()
        newer_than = now - max(KNOWN_SECONDS, KNOWN_SECONDS_EACH * len(pipelines))

        def is_read_again(pipeline: PipelineConfig) -> bool:
            looked_at, table = known.get(pipeline.name, (float("-inf"), None))
            if looked_at <= newer_than:
                return True
            source = sources[pipeline.topic]
            return not isinstance(source, SluiceError) and concerns(Surveyed(pipeline, source, table))

        read_again = list(filter(is_read_again, pipelines))
        found = self.for_each_table(state_of, read_again)
        self._known |= {name: (now, t) for name, t in found.items() if not isinstance(t, SluiceError)}
        tables = {name: table for name, (_, table) in known.items()} | found
        # Topics that disagree with their table are asked again: a run may have committed in between.
        doubtful = {p.topic for p in read_again if _disagree(p, sources[p.topic], tables[p.name])}
        if doubtful:
            sources = {**sources, **self.sources(doubtful)}
        return [_combine(p, sources[p.topic], tables[p.name]) for p in pipelines]

    def upkeep(
        self, now_us: int, concerns: Callable[[UpkeepState], bool] = lambda _state: True
    ) -> list[UpkeepState | Problem]:
        """Return one ``UpkeepState`` or ``Problem`` per pipeline; ``now_us`` is since the epoch.

        After a look of the last minutes a pipeline is looked at again if ``concerns`` is true for its state
        then, or a survey has read another state of its table since.
        """
        log, seen, now = self.open_log(), self._known.copy(), time.monotonic()

        def is_read_again(pipeline: PipelineConfig) -> bool:
            looked_at, table, state = self._upkept.get(pipeline.name, (float("-inf"), None, None))
            is_same = pipeline.name in seen and seen[pipeline.name][1] == table
            return state is None or looked_at <= now - UPKEPT_SECONDS or not is_same or concerns(state)

        read_again = list(filter(is_read_again, self.config.pipelines))
        states = self.for_each_table(partial(upkeep_state, log, self._figures, now_us), read_again)
        self._upkept |= {
            name: (now, seen[name][1], state)
            for name, state in states.items()
            if name in seen and not isinstance(state, SluiceError)
        }
        known = {name: state for name, (_, _, state) in self._upkept.items()} | states
        return [
            Problem(pipeline, found) if isinstance(found := known[pipeline.name], SluiceError) else found
            for pipeline in self.config.pipelines
        ]

    def held(self, look: Surveyed, now_us: int) -> tuple[HeldBatch, ...]:
        """Return the batches that failed a quality gate and wait for an operator; reads the log."""
        if look.table is None:
            return ()
        return held_batches(self.open_log(), look.table, now_us)

    def open_log(self) -> TxlogStore:
        """Return the store of the transaction log."""
        from spark_jobs.connections.connect import open_log  # noqa: PLC0415  (pyarrow, never at import)

        return open_log(self.config)

    def refusal(self, look: Surveyed) -> SluiceError | None:
        """Return the error with which a drain would be refused, or None; asks leaders that are new.

        Reads at most one record of each partition that waits.
        """
        from spark_jobs.kafka.reader import cut_below  # noqa: PLC0415  (librdkafka, never at import)

        if look.table is None:
            return None
        if look.table.clash is not None:
            return look.table.clash
        progress = look.table.progress
        ask_leader = partial(cut_below, resolve_kafka_properties(self.config), progress, look.source)
        refusal = drain_refusal(progress, look.source, table=look.pipeline.table, ask_leader=ask_leader)
        if refusal is not None:
            refusal.name_pipeline(look.pipeline.name)
        return refusal

    def refusals(self, looks: Sequence[Surveyed | Problem]) -> list[SluiceError | None]:
        """Return ``refusal`` of each look, in their order; for a problem its own error."""

        def judge(look: Surveyed | Problem) -> SluiceError | None:
            return look.error if isinstance(look, Problem) else self.refusal(look)

        with ThreadPoolExecutor(TOPIC_READERS) as readers:
            return list(readers.map(judge, looks))

    def sources(self, topics: Iterable[str] | None = None) -> Mapping[str, SourceState | SluiceError]:
        """Return the state of these topics, of all by default, or the error of reading it, by topic."""
        topics = sorted(topics or {pipeline.topic for pipeline in self.config.pipelines})
        try:
            states: Mapping[str, SourceState | SluiceError] = self.kafka_admin().source_states(topics)
        except SluiceError as error:
            return dict.fromkeys(topics, error)
        return states

    def kafka_admin(self) -> KafkaAdmin:
        """Return the kept connection; a new one if the properties changed."""
        # librdkafka, never at import
        from spark_jobs.kafka.admin import TIMEOUT_SECONDS, KafkaAdmin  # noqa: PLC0415

        properties = resolve_kafka_properties(self.config)
        with self._lock:
            if self._admin is None or self._admin[0] != properties:
                if self._admin is not None:
                    self._admin[1].close()
                limit = self._patience_seconds or TIMEOUT_SECONDS
                self._admin = (properties, KafkaAdmin(properties, timeout_seconds=limit))
            return self._admin[1]

    def for_each_table(
        self,
        read: Callable[[PipelineConfig, Table | None], T],
        pipelines: Sequence[PipelineConfig] | None = None,
    ) -> dict[str, T | SluiceError]:
        """Return the result of ``read`` for these pipelines, all by default, or its error, by pipeline."""
        pipelines = self.config.pipelines if pipelines is None else pipelines
        slices = [pipelines[start::CATALOG_READERS] for start in range(min(CATALOG_READERS, len(pipelines)))]
        with ThreadPoolExecutor(CATALOG_READERS) as readers:
            parts = readers.map(lambda some: self._read_tables(some, read), slices)
            return {name: found for part in parts for name, found in part.items()}

    def _read_tables(
        self, pipelines: Sequence[PipelineConfig], read: Callable[[PipelineConfig, Table | None], T]
    ) -> dict[str, T | SluiceError]:
        from spark_jobs.connections.connect import open_catalog  # noqa: PLC0415  (pyiceberg, never at import)
        from spark_jobs.lake.catalog import close_catalog  # noqa: PLC0415
        from spark_jobs.lake.tables import load_table  # noqa: PLC0415

        try:
            catalog = self._in_time(partial(open_catalog, self.config))
        except TimeoutError as error:
            return {pipeline.name: _unreadable(pipeline, error) for pipeline in pipelines}
        except SluiceError as error:
            return dict.fromkeys((pipeline.name for pipeline in pipelines), error)

        def look(pipeline: PipelineConfig) -> T:
            return read(pipeline, load_table(catalog, pipeline.table))

        found: dict[str, T | SluiceError] = {}
        for pipeline in pipelines:
            try:
                found[pipeline.name] = self._in_time(partial(look, pipeline))
            except TimeoutError as error:  # a catalog that is silent for one table is asked for no other
                return {each.name: _unreadable(each, error) for each in pipelines} | found
            except SluiceError as error:
                found[pipeline.name] = error
            except Exception as error:  # noqa: BLE001  (one table must not hide the others)
                found[pipeline.name] = _unreadable(pipeline, error)
        close_catalog(catalog)
        return found

    def _in_time(self, ask: Callable[[], T]) -> T:
        """Return the answer, or raise ``TimeoutError`` after ``patience_seconds``."""
        if self._patience_seconds is None:
            return ask()
        answer: Future[T] = Future()

        def wait() -> None:
            try:
                answer.set_result(ask())
            except BaseException as error:  # noqa: BLE001  (raised in the waiting thread)
                answer.set_exception(error)

        threading.Thread(target=wait, daemon=True).start()
        return answer.result(self._patience_seconds)


def state_of(pipeline: PipelineConfig, table: Table | None) -> TableState | None:
    """Return a table's progress and the time of its last drain, else of its last change; None without one."""
    if table is None:
        return None
    progress = progress_from_properties(table.properties, table=pipeline.table)
    last, snapshot = progress.last_drain, table.current_snapshot()
    return TableState(
        uuid=str(table.metadata.table_uuid),
        progress=progress,
        committed_at_ms=last.committed_at_ms if last else table.metadata.last_updated_ms,
        summary=dict(snapshot.summary.additional_properties) if snapshot and snapshot.summary else {},
        clash=_clash(pipeline, table, progress),
    )


def _clash(pipeline: PipelineConfig, table: Table, progress: Progress) -> SluiceError | None:
    # pyiceberg, never at import
    from spark_jobs.commit.anchor import check_anchor  # noqa: PLC0415
    from spark_jobs.mirror.keys import refuse_other_spellings  # noqa: PLC0415
    from spark_jobs.records.layouts.changes import spelling_of  # noqa: PLC0415
    from spark_jobs.schema.declared import check_declared  # noqa: PLC0415

    try:
        check_anchor(table)
        check_declared(pipeline, table)
        if progress.cdc is not None:
            refuse_other_spellings(table, spelling_of(pipeline, progress.cdc), pipeline.name)
        _refuse_misfits(pipeline, table.schema(), progress.columns)
    except SluiceError as error:
        return error
    return None


def _refuse_misfits(pipeline: PipelineConfig, schema: Schema, bound: ColumnMap) -> None:
    """Raise ``ConfigError`` if an expression does not fit the table's columns any more.

    An expression that names further columns is not checked: these may be added with the next records.
    """
    from spark_jobs.records.decoder import shaping_of  # noqa: PLC0415  (pyarrow, never at import)
    from spark_jobs.schema.arrow_schema import arrow_schema  # noqa: PLC0415
    from spark_jobs.schema.column_source import field_names  # noqa: PLC0415

    shaping, columns = shaping_of(pipeline), {field.name.lower() for field in schema.fields}
    expressions = [*shaping.expressions.values(), *shaping.of_rows.values()]
    named = {name.lower() for each in expressions for name in (*each.names, *shaping.expressions)}
    if expressions and named <= columns:
        from spark_jobs.records.shaped_rows import checked_shaping  # noqa: PLC0415  (DuckDB)

        checked_shaping(pipeline, arrow_schema(schema), field_names(schema, bound))


def held_batches(store: TxlogStore, table: TableState, now_us: int) -> tuple[HeldBatch, ...]:
    """Return the batches that failed a quality gate and wait for a decision, by the log."""
    unfinished = store.unfinished(table.uuid, now_us=now_us)
    waiting = [attempt for attempt in unfinished if is_waiting(attempt, table.progress)]
    return tuple(held_batch(attempt, attempt.batch) for attempt in waiting if attempt.batch)


def _combine(
    pipeline: PipelineConfig, source: SourceState | SluiceError, table: TableState | SluiceError | None
) -> Surveyed | Problem:
    if isinstance(source, SluiceError):
        return Problem(pipeline, source, None if isinstance(table, SluiceError) else table)
    if isinstance(table, SluiceError):
        return Problem(pipeline, table)
    return Surveyed(pipeline, source, table)


def _disagree(
    pipeline: PipelineConfig, source: SourceState | SluiceError, table: TableState | SluiceError | None
) -> bool:
    if not isinstance(source, SourceState) or not isinstance(table, TableState):
        return False
    return drain_refusal(table.progress, source, table=pipeline.table, ask_leader=None) is not None


def _unreadable(pipeline: PipelineConfig, error: Exception) -> SluiceError:
    return fault("table-unreadable", type=type(error).__name__, why=scrub(str(error))[:300], **pipeline.where)

"""One look at every pipeline for the built-in checks: facts from topic, table and log, and their results.

A look is cheap enough for every few minutes: it loads the tables' metadata, requests the topics' ends and
settings, and reads one record of each partition that waits. Only ``spark_jobs.monitoring.audit_notes``
compares records.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.checks.check import LATELY_SECONDS
from spark_jobs.checks.facts import AuditNote, HealthFacts, SpoolFacts, TableFacts
from spark_jobs.config.gateway import SPOOLED_BYTES
from spark_jobs.config.settings import PipelineConfig, SluiceConfig
from spark_jobs.connections.endpoints import read_endpoints, resolve_kafka_properties
from spark_jobs.drain.planning import bytes_per_record
from spark_jobs.health.judge import CheckResult, judge
from spark_jobs.health.retention import Waiting, headroom_ms, retention_of
from spark_jobs.monitoring.audit_notes import read_note
from spark_jobs.monitoring.survey import TOPIC_READERS, Surveyed, Surveyor, TableState, held_batches, state_of
from spark_jobs.protocol.errors import SluiceError
from spark_jobs.protocol.source import SourceState

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass(frozen=True, slots=True)
class Health:
    """A pipeline's facts and the results of its checks; ``table`` is None if it cannot be read."""

    pipeline: PipelineConfig
    facts: HealthFacts
    results: tuple[CheckResult, ...]
    table: TableState | None


@dataclass(frozen=True, slots=True)
class _TableLook:
    """The result of one load of a table; ``audit`` is the note of its last audit."""

    state: TableState
    facts: TableFacts
    held: tuple[str, ...]
    audit: AuditNote | None


def check_up(surveyor: Surveyor) -> list[Health]:
    """Return one ``Health`` per pipeline, in the configuration's order; errors do not affect the others."""
    now_ms = int(time.time() * 1000)
    tables = _tables(surveyor, now_ms)
    sources = surveyor.sources()
    settings = _settings(surveyor, sources)

    def look(pipeline: PipelineConfig) -> Health:
        table, source = tables[pipeline.name], sources[pipeline.topic]
        state = table.state if isinstance(table, _TableLook) else None
        if isinstance(source, SluiceError):
            facts = HealthFacts(now_ms=now_ms, is_known=False, error=source)
        elif isinstance(table, SluiceError):
            facts = HealthFacts(now_ms=now_ms, is_known=False, error=table)
        else:
            of_topic = settings.get(pipeline.topic, {})
            facts = _facts(surveyor, pipeline, source, table, settings=of_topic, now_ms=now_ms)
        if pipeline.is_of_stream:
            facts = replace(facts, spool=spool_facts(surveyor.config, pipeline.topic))
        return Health(pipeline, facts, judge(pipeline, facts), state)

    with ThreadPoolExecutor(TOPIC_READERS) as readers:
        return list(readers.map(look, surveyor.config.pipelines))


def _tables(surveyor: Surveyor, now_ms: int) -> Mapping[str, _TableLook | SluiceError | None]:
    from spark_jobs.health.table_facts import table_facts  # noqa: PLC0415  (pyiceberg, never at import)
    from spark_jobs.lake.tables import load_table, summary_of  # noqa: PLC0415

    store = surveyor.open_log()

    def look(pipeline: PipelineConfig, table: Table | None) -> _TableLook | None:
        state = state_of(pipeline, table)
        if table is None or state is None:
            return None
        facts = table_facts(table, schema_since_ms=now_ms - LATELY_SECONDS * 1000)
        if pipeline.layout.own_checks and (letters := load_table(table.catalog, pipeline.dead_letter_table)):
            facts = replace(facts, dead_letters=summary_of(letters.current_snapshot()).live_rows)
        held = tuple(each.batch.attempt for each in held_batches(store, state, now_ms * 1000))
        return _TableLook(state, facts, held, read_note(store.store, state.uuid))

    return surveyor.for_each_table(look)


def _settings(
    surveyor: Surveyor, sources: Mapping[str, SourceState | SluiceError]
) -> dict[str, dict[str, str]]:
    """Return the settings of the topics that answered; empty without the right to read them."""
    topics = [topic for topic, source in sources.items() if not isinstance(source, SluiceError)]
    try:
        answers = surveyor.kafka_admin().topic_configs(topics)
    except SluiceError:
        return {}
    return {topic: config for topic, config in answers.items() if not isinstance(config, SluiceError)}


def _facts(
    surveyor: Surveyor,
    pipeline: PipelineConfig,
    source: SourceState,
    table: _TableLook | None,
    *,
    settings: Mapping[str, str],
    now_ms: int,
) -> HealthFacts:
    from spark_jobs.notices.failures import last_failures  # noqa: PLC0415  (requests, never at import)
    from spark_jobs.notices.notice import DRAIN  # noqa: PLC0415

    positions = source.positions(table.state.progress.next_offsets if table else {})
    lag = {p: max(0, source.end[p] - start) for p, start in positions.items()}
    committed_at_ms = table.state.committed_at_ms if table else None
    failed = last_failures(surveyor.config.home, pipeline.name, committed_at_ms).get(DRAIN)
    failure = SluiceError(failed.sentence(DRAIN), code=failed.code, hint=failed.hint) if failed else None
    failing = read_endpoints(surveyor.config.home).trouble
    facts = HealthFacts(
        now_ms=now_ms,
        error=failing,
        lag=lag,
        undecided=sum(source.undecided.values()),
        failure=failure if failed and failed.is_standing and any(lag.values()) else None,
    )
    if table is None:
        return facts
    retention = retention_of(settings)
    facts = replace(
        facts,
        table=table.facts,
        retention_ms=retention.keeps_ms,
        is_retention_known=bool(settings),
        held=table.held,
        audit=table.audit,
    )
    if (error := surveyor.refusal(Surveyed(pipeline, source, table.state))) is not None:
        return replace(facts, error=error)
    waiting = _waiting(surveyor, source, positions)
    weight = bytes_per_record(table.state.progress.last_drain)
    left = headroom_ms(retention, waiting, bytes_per_record=weight, now_ms=now_ms) if settings else None
    return replace(
        facts,
        waiting_since_ms=_first_ms(waiting, [p for p, records in lag.items() if records]),
        headroom_ms=left,
        undecided_since_ms=_first_ms(waiting, source.undecided),
    )


def waits_since_ms(surveyor: Surveyor, look: Surveyed) -> int | None:
    """Return the time of the first record that waits, in ms since the epoch; reads one per partition."""
    positions = look.source.positions(look.table.progress.next_offsets if look.table else {})
    behind = [p for p, start in positions.items() if look.source.end[p] > start]
    return _first_ms(_waiting(surveyor, look.source, positions), behind)


def _first_ms(waiting: Sequence[Waiting], partitions: Collection[int]) -> int | None:
    """Return the oldest time in these partitions; None if none is known."""
    times = (each.first_at_ms for each in waiting if each.partition in partitions)
    return min((time_ms for time_ms in times if time_ms is not None), default=None)


def _waiting(surveyor: Surveyor, source: SourceState, positions: Mapping[int, int]) -> list[Waiting]:
    """Return the records that Kafka may delete before they are drained, also behind open transactions."""
    from spark_jobs.kafka.times import first_record_times  # noqa: PLC0415  (librdkafka, never at import)

    ends = {**source.end, **source.high}
    behind = {p: start for p, start in positions.items() if start < ends[p]}
    times = first_record_times(resolve_kafka_properties(surveyor.config), source.topic, behind)
    return [Waiting(p, ends[p] - start, times.get(p)) for p, start in behind.items()]


# The gateway's spool on this machine, read while its gateway runs or not.


_BYTES = f"coalesce(sum(length(events) + {SPOOLED_BYTES}), 0)"
_SIZES = f"""SELECT count(*), {_BYTES}, min(at_ms), (SELECT {_BYTES} FROM batches)
  FROM batches WHERE topic = ?"""  # noqa: S608


def spool_facts(config: SluiceConfig, topic: str) -> SpoolFacts | None:
    """Return the spool's batches of a topic; None without a spool."""
    spool = config.gateway.spool
    path = Path(config.home) / spool.path
    if not path.exists():
        return None
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as file:
            batches, size, oldest_ms, whole = file.execute(_SIZES, (topic,)).fetchone()
    except sqlite3.Error as error:
        return SpoolFacts(0, 0, None, 0.0, unreadable=str(error))
    return SpoolFacts(batches, size, oldest_ms, whole / spool.max_bytes)

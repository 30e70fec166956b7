"""Finds missing and duplicated events in a table by the gateway's event numbers of each source.

It looks at the newest rows, of batches whose snapshots are kept: events that became dead letters or
tombstones, or were filtered, are not gaps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.checks.facts import SourceEvents
from spark_jobs.connections.connect import load_drained
from spark_jobs.drain.planning import water_fill
from spark_jobs.expressions.quoting import quoted
from spark_jobs.health.table_facts import main_history
from spark_jobs.lake.tables import progress_of, summary_of
from spark_jobs.protocol.batch import total
from spark_jobs.query.query import query

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections

# Clocks of gateways differ, and a transaction may take as long until it is decided.
_UNSURE_MS = 60_000
_EXAMPLES = 3
# `edge` is the first time from which every partition has its rows, `sure` the last one.
_SQL = """
WITH told AS (
  SELECT decode(list_filter(_kafka_headers, lambda h: h.key = 'sluice-source')[1].value) AS source,
    CAST(decode(list_filter(_kafka_headers, lambda h: h.key = 'sluice-event')[1].value) AS BIGINT) AS event,
    epoch_ms(_kafka_timestamp) AS came_ms, _kafka_partition AS part
  FROM {table} WHERE _kafka_generation = {generation} AND ({window})),
edges AS (SELECT coalesce(max(first_ms), 0) AS edge FROM (
  SELECT min(came_ms) AS first_ms FROM told WHERE part IN ({cut}) GROUP BY part)),
ends AS (
  SELECT source, min(event) FILTER (WHERE came_ms >= edge) AS low,
    max(event) FILTER (WHERE came_ms <= {sure}) AS high
  FROM told, edges WHERE source IS NOT NULL GROUP BY source)
SELECT source, count(*) AS events,
  coalesce(any_value(high - low + 1)
    - count(DISTINCT event) FILTER (WHERE event BETWEEN low AND high), 0) AS gaps,
  count(*) - count(DISTINCT event) AS doubles
FROM told JOIN ends USING (source) GROUP BY source
"""


def source_events(pipeline: PipelineConfig, connections: Connections, newest_offsets: int) -> SourceEvents:
    """Return the event counts of at most ``newest_offsets``. Raises the errors of reading the table."""
    table = load_drained(pipeline, connections)
    progress = progress_of(table)
    sure = progress.last_drain.valid_through_ms if progress.last_drain else None
    starts, without_rows = _kept_drains(table, progress.generation)
    without_rows += sum(
        each.end - each.start for each in progress.skipped if each.generation == progress.generation
    )
    begun = progress.first_offsets
    kept = {p: end - starts.get(p, end) for p, end in progress.next_offsets.items()}
    wanted = water_fill(kept, newest_offsets)
    window = {p: end - wanted[p] for p, end in progress.next_offsets.items() if wanted[p]}
    if not window:
        return SourceEvents(0, 0, 0)
    cut = [p for p, start in window.items() if start > begun.get(p, 0)]
    sql = _SQL.format(
        table=quoted(pipeline.table),
        generation=progress.generation,
        window=" OR ".join(f"_kafka_partition = {p} AND _kafka_offset >= {at}" for p, at in window.items()),
        cut=", ".join(map(str, cut)) or "NULL",
        sure=-1 if sure is None else sure - _UNSURE_MS,
    )
    with query(pipeline, connections, sql) as answer:
        rows = [row for batch in answer.batches for row in batch.to_pylist()]
    gaps = sum(max(0, row["gaps"]) for row in rows)
    examples = [
        f"source {row['source']!r}: {row['gaps']:,} missing, {row['doubles']:,} duplicated"
        for row in rows
        if row["gaps"] > 0 or row["doubles"]
    ]
    return SourceEvents(
        events=sum(row["events"] for row in rows),
        gaps=max(0, gaps - without_rows),
        doubles=sum(row["doubles"] for row in rows),
        examples=tuple(examples[:_EXAMPLES]),
    )


def _kept_drains(table: Table, generation: int) -> tuple[dict[int, int], int]:
    """Return the start offsets of the oldest kept drain, and the number of records without a row since."""
    starts: dict[int, int] = {}
    without_rows = 0
    for snapshot in main_history(table):
        summary = summary_of(snapshot)
        if summary.balances is not None and summary.generation == generation:
            starts = {**summary.start_offsets, **starts}
            balance = total(summary.balances)
            without_rows += balance.records - balance.rows
    return starts, without_rows

"""Trace of one offset through tables, batch history, log and Kafka. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.audit.row_check import row_check
from spark_jobs.audit.row_place import RowPlace, Spot, find_row, removed_by, spots_of
from spark_jobs.audit.trace_answers import Judgement, KafkaSays, Where, judge_folded, judge_rowless
from spark_jobs.books.entries import BookEntry, books_of
from spark_jobs.books.history import HistoryLine, State, logged_lines
from spark_jobs.books.table import covering
from spark_jobs.checks.facts import Removal
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import PipelineTables, load_fresh, tables_as_one
from spark_jobs.kafka.reader import open_reader
from spark_jobs.lake.row_filters import equals, is_in_range
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol import mends
from spark_jobs.protocol.batch import Balance
from spark_jobs.protocol.errors import SourceChanged, fault
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.source import SourceState, check_identity
from spark_jobs.protocol.work import Effect
from spark_jobs.schema.iceberg_types import KEY

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections

_RECORD_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Trace:
    """One offset of one generation of the topic.

    ``entry`` is the attempt that decided about it, ``place`` its row or its dead letter's, ``snapshot_id``
    that table's snapshot, ``removed_by`` the other writer's commit after which it was gone.
    """

    topic: str
    spot: Spot
    where: Where
    why: str
    entry: BookEntry | None = None
    place: RowPlace | None = None
    snapshot_id: int | None = None
    removed_by: Removal | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts about an offset, as of the beginning of the trace."""

    pipeline: PipelineConfig
    connections: Connections
    source: SourceState
    tables: PipelineTables
    logged: list[HistoryLine]
    books: Table | None

    @property
    def table(self) -> Table:
        """The pipeline's own table."""
        return self.tables.data


def trace(
    pipeline: PipelineConfig, connections: Connections, partition: int, offset: int
) -> tuple[Trace, ...]:
    """Return the outcome of the offset: in the current generation, then in earlier ones that drained it.

    Raises ``ConfigError`` (``no-table-yet``, ``no-such-partition``), and ``RetryableError`` when a part
    cannot be asked.
    """
    facts = _gather(pipeline, connections)
    progress = progress_of(facts.table)
    if partition not in progress.next_offsets and partition not in facts.source.end:
        raise fault(
            "no-such-partition",
            source=progress.topic,
            number=partition,
            found=", ".join(map(str, sorted(facts.source.end))),
        )
    earlier = [g for g, ends in progress.earlier.items() if offset < ends.get(partition, 0)]
    generations = (progress.generation, *sorted(earlier, reverse=True))
    return tuple(_trace(facts, Spot(generation, partition, offset)) for generation in generations)


def trace_key(
    pipeline: PipelineConfig, connections: Connections, key: str, *, limit: int
) -> tuple[Trace, ...]:
    """Return the newest ``limit`` rows and dead letters with this key, each traced. Raises as ``trace``.

    Only the tables are searched: tombstones, and records that are not drained yet, are found by offset.
    """
    facts = _gather(pipeline, connections)
    wanted = key.encode() if pipeline.key_is_binary else key
    spots = spots_of(facts.table, equals(KEY, wanted))
    for routed in facts.tables.routed.values():
        spots |= spots_of(routed, equals(KEY, wanted))
    if facts.tables.dead_letters is not None:
        spots |= spots_of(facts.tables.dead_letters, equals("key", key.encode()))
    newest = sorted(spots, key=lambda spot: (-spot.generation, -spot.offset, spot.partition))
    return tuple(_trace(facts, spot) for spot in newest[:limit])


def _gather(pipeline: PipelineConfig, connections: Connections) -> Facts:
    source = connections.admin.source_state(pipeline.topic)
    tables = tables_as_one(connections, pipeline.table)
    if tables is None:
        raise fault("no-table-yet", **pipeline.where)
    # The log before the books: what a fold moves meanwhile is then seen in one of the two.
    logged = logged_lines(tables.data, connections)
    books = load_fresh(connections, books_of(pipeline.table))
    return Facts(pipeline, connections, source, tables, logged, books)


def _trace(facts: Facts, spot: Spot) -> Trace:
    progress = progress_of(facts.table)
    unjudged = Trace(progress.topic, spot, Where.UNKNOWN, "")
    entries = _entries_of(facts, spot)
    if (found := _in_tables(facts, unjudged, entries)) is not None:
        return found
    is_current = spot.generation == progress.generation
    if is_current and spot.offset >= progress.next_offsets.get(spot.partition, 0):
        judged = _judge_undrained(facts, spot)
        return replace(unjudged, where=judged.where, why=judged.why)
    if is_current and spot.offset < progress.starts.get(spot.partition, 0):
        start = progress.starts[spot.partition]
        why = f"the pipeline began at offset {start} of the partition; a replay can bring what is before it"
        return replace(unjudged, where=Where.BEFORE_START, why=why)
    return _trace_rowless(facts, unjudged, entries)


def _in_tables(facts: Facts, unjudged: Trace, entries: list[BookEntry]) -> Trace | None:
    """Return the trace of a record that has a row or a dead letter."""
    writing = [entry for entry in entries if entry.work.effect is Effect.EACH]
    newest = next(iter(writing), None)

    def found(where: Where, why: str, place: RowPlace, table: Table) -> Trace:
        # Files are named after their attempt, until compaction rewrites them.
        entry = next((entry for entry in entries if entry.attempt in place.file), newest)
        at = table.metadata.current_snapshot_id
        return replace(unjudged, where=where, why=why, entry=entry, place=place, snapshot_id=at)

    for name, table in {facts.pipeline.table: facts.table, **facts.tables.routed}.items():
        if (place := find_row(table, unjudged.spot)) is not None:
            return found(Where.ROW, f"it is in {name}", place, table)
    letters = facts.tables.dead_letters
    dead = find_row(letters, unjudged.spot, ("phase", "field", "error")) if letters is not None else None
    if letters is None or dead is None:
        return None
    field = f" of the field {dead.row['field']}" if dead.row["field"] else ""
    why = f"it failed in the phase {dead.row['phase']}{field}: {dead.row['error']}"
    return found(Where.DEAD_LETTER, why, dead, letters)


def _judge_undrained(facts: Facts, spot: Spot) -> Judgement:
    low, end = facts.source.low.get(spot.partition, 0), facts.source.end.get(spot.partition, 0)
    position = facts.source.positions(progress_of(facts.table).next_offsets).get(spot.partition, 0)
    open_lines = [line for line in facts.logged if _covers(line.entry, spot) and not line.entry.is_landed]
    held = next((line.entry for line in open_lines if line.state is State.HELD), None)
    if held is not None:
        why = f"batch {held.batch_id}, attempt {held.attempt}, failed a quality gate and waits for a decision"
        return Judgement(Where.HELD, f"{why}: {mends.command('held list', facts.pipeline.name)}")
    if spot.offset < low:
        why = f"Kafka holds the partition from offset {low} on; the next offset to drain is {position}"
        return Judgement(Where.GONE, why)
    if spot.offset >= end:
        why = f"the partition's last stable offset is {end}, the next offset to drain is {position}"
        return Judgement(Where.NOT_WRITTEN, why)
    running = next((line.entry for line in open_lines if line.state is State.UNFINISHED), None)
    doing = f"; attempt {running.attempt} is under way or was cut short" if running else ""
    return Judgement(
        Where.WAITING, f"the next offset to drain is {position}, the partition's lag {end - position}{doing}"
    )


def _trace_rowless(facts: Facts, unjudged: Trace, entries: list[BookEntry]) -> Trace:
    """Return the trace of a drained offset without a row or dead letter."""
    # A redrive's ranges hold what was none of its letters.
    redrives = [each for each in entries if each.work.effect is Effect.SOME]
    spot, entry = unjudged.spot, next((each for each in entries if each not in redrives), None)
    passed_over = _passed_over(facts, spot, entry)
    if passed_over is not None:
        return replace(unjudged, where=Where.SKIPPED, why=passed_over, entry=entry)
    traced: Trace = facts.pipeline.layout.traced(facts, unjudged, entry, redrives)
    return traced


def traced_key(
    facts: Facts, unjudged: Trace, entry: BookEntry | None, _redrives: Sequence[BookEntry]
) -> Trace:
    """Return the trace of an event; the row of its key may be another event's."""
    spot = unjudged.spot
    booked = entry.counts.balances.get(spot.partition) if entry else None
    kafka, passed = _ask_kafka(facts, spot)
    judged = judge_folded(kafka, booked, passed)
    return replace(unjudged, where=judged.where, why=judged.why, entry=entry)


def traced_record(
    facts: Facts, unjudged: Trace, entry: BookEntry | None, redrives: Sequence[BookEntry]
) -> Trace:
    """Return the trace of a record that could have had its own row."""
    spot = unjudged.spot
    drained = next((r for r in entry.ranges if r.partition == spot.partition), None) if entry else None
    inside = is_in_range(drained, spot.generation) if drained else None
    there = sum(table.scan(inside).count() for table in facts.tables.every) if inside is not None else 0
    booked = entry.counts.balances.get(spot.partition) if entry else None
    if booked is not None:
        sent = [each.counts.balances.get(spot.partition, Balance()).get("filtered", 0) for each in redrives]
        booked += Balance(dead_letters=-sum(sent), **({"filtered": sum(sent)} if any(sent) else {}))
    kafka, left_out = _ask_kafka(facts, spot)
    judged = judge_rowless(kafka, booked, there, left_out)
    could_be_removed = judged.where in {Where.REMOVED, Where.UNKNOWN}
    by = removed_by(facts.table, spot) if could_be_removed else None
    return replace(unjudged, where=judged.where, why=judged.why, entry=entry, removed_by=by)


def _passed_over(facts: Facts, spot: Spot, entry: BookEntry | None) -> str | None:
    """Return who skipped the offset and why; the table records it without batch history and log too."""
    if entry is not None and entry.work.effect is Effect.PASSED_OVER:
        return f"{entry.actor} skipped it ({entry.kind}): {entry.reason}"
    for skip in progress_of(facts.table).skipped:
        is_it = (skip.generation, skip.partition) == (spot.generation, spot.partition)
        if is_it and skip.start <= spot.offset < skip.end:
            return f"an operator skipped it: {skip.reason}"
    return None


def _ask_kafka(facts: Facts, spot: Spot) -> tuple[KafkaSays, str | None]:
    """Read the offset again if the topic is unchanged, and return why it has no row."""
    progress = progress_of(facts.table)
    try:
        check_identity(progress, facts.source)
    except SourceChanged:
        return KafkaSays.NOT_HELD, None
    is_held = spot.offset >= facts.source.low.get(spot.partition, spot.offset + 1)
    if spot.generation != progress.generation or not is_held:
        return KafkaSays.NOT_HELD, None
    connections = facts.connections
    with open_reader(connections.kafka, progress.topic, chunk_bytes=_RECORD_BYTES) as reader:
        chunks = list(reader.read(OffsetRange(spot.partition, spot.offset, spot.offset + 1)))
    values = [value for chunk in chunks for value in chunk.values]
    if not values or values[0] is None:
        return KafkaSays.TOMBSTONE if values else KafkaSays.NOTHING, None
    check = row_check(facts.pipeline, connections, facts.table)
    left_out = check.left_out(chunks[0], np.asarray(chunks[0].offsets))
    return KafkaSays.RECORD, next(iter(left_out), None)


def _entries_of(facts: Facts, spot: Spot) -> list[BookEntry]:
    """Return the landed attempts with the offset, newest first."""
    uuid = str(facts.table.metadata.table_uuid)
    booked = covering(facts.books, uuid, spot.partition, spot.offset) if facts.books is not None else ()
    logged = (line.entry for line in facts.logged if _covers(line.entry, spot))
    landed = {
        entry.attempt: entry
        for entry in chain(logged, booked)
        if entry.is_landed and entry.generation == spot.generation
    }
    return sorted(landed.values(), key=lambda entry: entry.finished_at_us or 0, reverse=True)


def _covers(entry: BookEntry, spot: Spot) -> bool:
    return entry.generation == spot.generation and any(
        r.partition == spot.partition and spot.offset in r for r in entry.ranges
    )

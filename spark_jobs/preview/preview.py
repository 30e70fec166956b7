"""Previews a pipeline: reads some records, chooses columns, finds dead letters; writes nothing.

In this process, without Spark: what a first batch decides from all of its records is decided here from few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.config.quantities import StartKind
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import load_fresh
from spark_jobs.drain.first_batch import is_unreadable
from spark_jobs.drain.planning import resolve_start, water_fill
from spark_jobs.lake.data_files import different_values
from spark_jobs.lake.tables import progress_of
from spark_jobs.mirror.fold import FILE, FOLDED_COLUMNS, ROW, fold
from spark_jobs.preview.recognition import Recognized, Sample, recognize
from spark_jobs.preview.sample import is_compacted, look_at, read_sample
from spark_jobs.protocol.batch import Balance, add_ignored, total
from spark_jobs.protocol.cdc import Cdc
from spark_jobs.protocol.source import SourceState
from spark_jobs.protocol.work import Layout
from spark_jobs.records.appearance import unreadable_chunks
from spark_jobs.records.reading_plan import ReadingPlan
from spark_jobs.records.row_maker import ChunkRows
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.declared import (
    check_declared,
    dead_letter_evolution,
    declared_evolution,
    partition_spec,
    sort_note,
    table_notes,
)
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.evolution import evolved
from spark_jobs.schema.iceberg_types import (
    KEY,
    METADATA_COLUMNS,
    OFFSET,
    PARTITION,
    dead_letter_schema,
    known_fields,
)
from spark_jobs.schema.inference import Field

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections
    from spark_jobs.kafka.chunks import Chunk

_MOST_CHARACTERS = 60  # of a value
KEY_ADVICE = " (key: {format: raw} keeps it as it is)"


@dataclass(frozen=True, slots=True)
class DeadLetterExample:
    """A record that would be a dead letter; ``field`` is None for the whole record."""

    partition: int
    offset: int
    field: str | None
    error: str


@dataclass(frozen=True, slots=True)
class PartitionUse:
    """A partition field; ``values`` is its number of distinct values, or None if not counted."""

    term: str
    values: int | None


@dataclass(frozen=True, slots=True)
class Preview:
    """The outcome for the records read.

    ``is_new``: there is no table yet. ``columns`` are the JSON's, with those that an existing table lacks;
    these are named in ``added``, dotted. ``ignored`` counts values without a column by the name of their
    field; ``notes`` say where few values decided a column's type, or lost to it, and what values look like
    of which none can be read. ``found`` is what is worth declaring while there is no table. ``sources``
    say where a column's values come from when it is not a field as it is, ``made`` the first of these values,
    ``filtered_reasons`` which records the filter leaves out, ``routed_tables`` how many rows go to others.
    """

    topic: str
    table: str
    is_new: bool
    balance: Balance
    evidence: Evidence
    columns: tuple[Field, ...]
    added: tuple[str, ...]
    dead_letters: tuple[DeadLetterExample, ...]
    partitioning: tuple[PartitionUse, ...]
    ignored: dict[str, int]
    notes: tuple[str, ...]
    found: tuple[Recognized, ...]
    layout: Layout = field(default_factory=Layout)
    sources: Mapping[str, str] = field(default_factory=dict)
    made: Mapping[str, str] = field(default_factory=dict)
    filtered_reasons: Mapping[str, int] = field(default_factory=dict)
    routed_tables: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_unreadable(self) -> bool:
        """True if a first batch of these records would be refused: none becomes a row."""
        rows = self.balance.kept - self.balance.dead_letters
        return self.is_new and bool(self.dead_letters) and not rows


def preview(pipeline: PipelineConfig, connections: Connections, *, max_records: int) -> Preview:
    """Read up to ``max_records`` from the next batch's start and decode them.

    With ``start: latest`` and no table yet, the last records there are. Raises ``SluiceError`` as a drain
    does, ``ConfigError`` also for a partitioning that the table could not be made with.
    """
    source, table = topic_and_table(pipeline, connections)
    starts = _starts(pipeline, connections, source, table, max_records)
    chunks = read_sample(connections.kafka, source, starts, max_records=max_records)
    return preview_of(pipeline, connections, table, chunks)[0]


def topic_and_table(pipeline: PipelineConfig, connections: Connections) -> tuple[SourceState, Table | None]:
    """Return the topic's state, and the table if there is one; raises ``SluiceError`` as a drain does."""
    source = connections.admin.source_state(pipeline.topic)
    table = load_fresh(connections, pipeline.table)
    if table is not None:
        check_declared(pipeline, table)
    return source, table


def preview_of(
    pipeline: PipelineConfig, connections: Connections, table: Table | None, chunks: Sequence[Chunk]
) -> tuple[Preview, pa.Table, ReadingPlan]:
    """Return the outcome for these records, their rows, and the plan for the table after a batch of them."""
    schemas = connections.schemas(pipeline)
    progress = None if table is None else schemas.planned(progress_of(table))
    plan, evidence = look_at(ReadingPlan.to_observe(pipeline, schemas, progress), chunks)
    plan, added, notes = _as_it_would_be(plan, table, evidence)
    if table is None and is_unreadable(evidence):
        refused = unreadable_chunks(pipeline, plan.format.decoder, chunks)
        notes = (f"{refused.message}. {refused.hint}", *notes)
    # What was seen has its columns by now: whatever has none gets none.
    maker, schema = plan.ended().rows(letters=_letters(pipeline)), plan.schema
    chunks_of_rows = [maker.make(chunk) for chunk in chunks]
    balances: list[Mapping[int, Balance]] = [each.balances for each in chunks_of_rows]
    if pipeline.layout.keeps_newest and chunks_of_rows:
        balances = [_folded(chunks_of_rows, plan.progress.cdc or Cdc())]
    sources = {name: column.source for name, column in pipeline.columns.items() if column.source}
    compacted = table is None and is_compacted(connections.admin, pipeline.topic)
    sample = Sample(chunks, evidence, known_fields(schema), is_compacted=compacted)
    spec = partition_spec(schema, pipeline.table_partition_by) if table is None else table.spec()
    rows = pa.concat_tables([plan.columns.empty_table(), *(each.rows for each in chunks_of_rows)])
    seen = Preview(
        topic=pipeline.topic,
        table=pipeline.table,
        is_new=table is None,
        balance=total(balance for each in balances for balance in each.values()),
        evidence=evidence,
        columns=known_fields(schema),
        added=added,
        dead_letters=tuple(letter for each in chunks_of_rows for letter in _dead_letters(each.dead_letters)),
        partitioning=tuple(_partition_uses(schema, spec, [each.rows for each in chunks_of_rows])),
        ignored=reduce(add_ignored, (each.ignored for each in chunks_of_rows), {}),
        notes=notes,
        found=() if table is not None else recognize(sample, pipeline),
        layout=pipeline.layout,
        sources=sources,
        made={name: _first_value(name, [each.rows for each in chunks_of_rows]) for name in sources},
        filtered_reasons=sum((Counter(each.filtered_reasons) for each in chunks_of_rows), Counter()),
        routed_tables=sum((Counter(each.routed_rows) for each in chunks_of_rows), Counter()),
    )
    return seen, rows, plan


def _starts(
    pipeline: PipelineConfig,
    connections: Connections,
    source: SourceState,
    table: Table | None,
    max_records: int,
) -> dict[int, int]:
    if table is not None:
        return progress_of(table).next_offsets
    if pipeline.start.kind is StartKind.LATEST:
        return newest(source, max_records)
    return resolve_start(
        pipeline.start, source, lambda time_ms: connections.admin.offsets_for_times(pipeline.topic, time_ms)
    )


def newest(source: SourceState, max_records: int) -> dict[int, int]:
    """Return the starts of the newest records, evenly over the partitions."""
    back = water_fill({p: end - source.low[p] for p, end in source.end.items()}, max_records)
    return {p: end - back[p] for p, end in source.end.items()}


def _as_it_would_be(
    plan: ReadingPlan, table: Table | None, evidence: Evidence
) -> tuple[ReadingPlan, tuple[str, ...], tuple[str, ...]]:
    """Return the plan for the table after a batch, the columns it would add, and notes."""
    if table is None:
        plan, notes = new_table(plan, evidence)
        return plan, (), notes
    declared = declared_evolution(plan.pipeline, table.schema())
    plan = plan.on(table.schema(), plan.progress).with_columns(declared)
    lacks, sentences = plan.lacks(table.specs().values(), evidence)
    notes = table_notes(plan.pipeline, table, plan.progress)
    return plan.with_columns(lacks), (*declared.descriptions, *lacks.descriptions), (*sentences, *notes)


def new_table(plan: ReadingPlan, evidence: Evidence) -> tuple[ReadingPlan, tuple[str, ...]]:
    """Return the plan for a table created from these records, and notes."""
    lacks, notes = plan.first(evidence)
    plan = plan.with_columns(lacks)
    note = sort_note(plan.pipeline, plan.schema)
    return plan, (*notes, note) if note else notes


def _letters(pipeline: PipelineConfig) -> pa.Schema:
    """Return the dead-letter table's columns after a batch."""
    own = dead_letter_schema()
    return arrow_schema(evolved(own, dead_letter_evolution(pipeline, own)))


def _folded(made: Sequence[ChunkRows], cdc: Cdc) -> dict[int, Balance]:
    """Return a mirror's rows after these changes: the newest of each key."""
    counted: dict[int, Balance] = {}
    for partition, balance in (item for each in made for item in each.balances.items()):
        counted[partition] = counted.get(partition, Balance()) + balance
    columns = [name for name in FOLDED_COLUMNS if name in made[0].rows.column_names]
    rows = pa.concat_tables([each.rows.select(columns) for each in made])
    placed = rows.append_column(FILE, pa.array(np.zeros(len(rows), np.int32)))
    return fold(placed.append_column(ROW, pa.array(np.arange(len(rows)))), cdc).balances(counted)


def _first_value(column: str, tables: Sequence[pa.Table]) -> str:
    """Return a column's first computed value with its coordinates; empty if all are null."""
    for rows in (each.select([column, PARTITION, OFFSET]) for each in tables):
        for value, partition, offset in zip(*(each.to_pylist() for each in rows.columns), strict=True):
            if value is not None:
                return f"{str(value)[:_MOST_CHARACTERS]} ({partition}:{offset})"
    return ""


def _dead_letters(rows: pa.Table) -> Iterator[DeadLetterExample]:
    for letter in rows.select([PARTITION, OFFSET, "field", "error"]).to_pylist():
        advice = KEY_ADVICE if letter["field"] == KEY else ""
        yield DeadLetterExample(letter[PARTITION], letter[OFFSET], letter["field"], letter["error"] + advice)


def _partition_uses(schema: Schema, spec: PartitionSpec, tables: Sequence[pa.Table]) -> list[PartitionUse]:
    uses = []
    rows = pa.concat_tables(tables) if tables else None
    for each in spec.fields:
        name = schema.find_column_name(each.source_id) or "?"
        values = None
        if rows is not None and name.split(".")[0] not in METADATA_COLUMNS:
            values = different_values(rows, each, schema)
        kind = str(each.transform).partition("[")[0]
        called = "" if each.name in {name, f"{name}_{kind}"} else f" as {each.name}"
        uses.append(PartitionUse(f"{each.transform}({name}){called}", values))
    return uses

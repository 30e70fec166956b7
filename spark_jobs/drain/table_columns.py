"""A pipeline's tables: created from the whole first batch, extended when records need columns."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import islice
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema

from spark_jobs.commit.batch_commit import ChangeCommit, batch_of_change
from spark_jobs.commit.columns_commit import PlannedColumns, commit_columns
from spark_jobs.commit.swap import land
from spark_jobs.commit.table_creation import create_dead_letter_table, create_routed_table, create_table
from spark_jobs.config.columns import Growth
from spark_jobs.config.quantities import StartKind
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import load_fresh
from spark_jobs.drain.batch_run import BatchRun, Tables
from spark_jobs.drain.first_batch import has_no_row, refuse_rowless, refuse_unreadable
from spark_jobs.drain.planning import (
    FIRST_GUESS_BYTES_PER_RECORD,
    MAX_SPLIT_BYTES,
    plan_ranges,
    plan_splits,
    resolve_start,
)
from spark_jobs.drain.split_task import SplitSource, observe_split
from spark_jobs.lake.catalog import released
from spark_jobs.lake.tables import evolve_table, load_table, progress_of, set_partitioning, set_sort_order
from spark_jobs.protocol.batch import SplitOutcome
from spark_jobs.protocol.commit_summary import actor_summary
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.source import SourceState
from spark_jobs.protocol.work import Work
from spark_jobs.protocol.works.changes import REANCHOR
from spark_jobs.protocol.works.drain import DRAIN
from spark_jobs.records.reading_plan import ReadingPlan, types_of_newest
from spark_jobs.schema.column_source import lacking
from spark_jobs.schema.declared import (
    check_beside,
    check_declared,
    dead_letter_evolution,
    declared_evolution,
    table_notes,
    unlike_declared,
)
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.evolution import Evolution, evolved
from spark_jobs.schema.iceberg_types import type_text
from spark_jobs.spark.tasks import run_on_spark

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections
    from spark_jobs.records.decoder import Decoder

_log = logging.getLogger(__name__)
_MOST_TOLD = 20
_NO_LIMIT = 1 << 62

# Where nothing is to be drained yet, types come from the last records before the start.
SAMPLED_RECORDS_PER_PARTITION = 10_000


def ensure_tables(
    pipeline: PipelineConfig,
    connections: Connections,
    source: SourceState,
    work: Work = DRAIN,
) -> Tables | None:
    """Return the pipeline's tables, created if missing and needed.

    None while a topic that is drained from its earliest offset is empty: its records decide the columns.
    Every other start is committed with the new table at once, before the first batch. Where versions of
    subjects read the records, those of now are asked for if a drain is to be planned.
    """
    with released(connections.open_catalog()) as catalog:
        table = load_table(catalog, pipeline.table)
        if table is not None and work.asks_anew:
            connections.schemas(pipeline).ask_for_versions(progress_of(table))
        if table is None and (table := _create_table(pipeline, connections, catalog, source)) is None:
            return None
        check_declared(pipeline, table, takes_types=work.kept(table) is None)
        _tell(pipeline, table_notes(pipeline, table, progress_of(table)))
        table = _with_declared_columns(pipeline, connections, table)
        if pipeline.has_schemas:
            plan = _to_observe(pipeline, connections, progress_of(table))
            table = _Lacks(plan, connections).committed()
        table = set_sort_order(connections.open_catalog, table, pipeline.table_sort_by)
        dead_letters = create_dead_letter_table(
            catalog, pipeline.table, {}, progress_of(table), location=pipeline.location
        )
        table = remember_routes(connections, table, pipeline.routed_tables)
        create = partial(
            create_routed_table,
            catalog,
            own=table,
            properties=pipeline.table_properties,
            location=pipeline.location,
        )
        routed = {
            name: set_sort_order(connections.open_catalog, create(name), pipeline.table_sort_by)
            for name in pipeline.routed_tables
        }
        check_beside(table, dead_letters, routed.values(), pipeline.dead_letters.columns)
        return Tables(table, _with_declared_dead_letters(pipeline, connections, dead_letters), routed)


def _create_table(
    pipeline: PipelineConfig, connections: Connections, catalog: Catalog, source: SourceState
) -> Table | None:
    """Create the table for its first records; return None while it waits for them."""
    starts = resolve_start(
        pipeline.start, source, partial(connections.admin.offsets_for_times, pipeline.topic)
    )
    first = _first_ranges(pipeline, source, starts, pipeline.max_batch_bytes)
    if not first and pipeline.start.kind is StartKind.EARLIEST:
        return None
    plan = _to_observe(pipeline, connections)
    plan, evidence = _observe(plan, connections, first or _records_before(source, starts))
    if first and has_no_row(pipeline, evidence):
        # Its bytes may have cut it short: its records are what it may have at most.
        every = _first_ranges(pipeline, source, starts, _NO_LIMIT)
        plan, evidence = _observe(_to_observe(pipeline, connections), connections, every)
        refuse_unreadable(plan, connections, first, evidence)
    columns, sentences = plan.first(evidence)
    _tell(pipeline, sentences)
    if first:
        refuse_rowless(plan, connections, _first_ranges(pipeline, source, starts, _NO_LIMIT), columns)
    table = create_table(
        catalog,
        pipeline.table,
        evolved(Schema(), columns),
        partition_by=pipeline.table_partition_by,
        sort_by=pipeline.table_sort_by,
        properties=pipeline.table_properties,
        location=pipeline.location,
        progress=Progress(
            pipeline.topic,
            1,
            starts,
            cluster_id=source.cluster_id,
            topic_id=source.topic_id,
            starts=starts,
            layout=pipeline.layout.stored,
            routes=pipeline.routed_tables,
        ),
        dead_letters=True,
        key_is_binary=pipeline.key_is_binary,
        bindings=columns.bindings,
        identity=pipeline.layout.identity,
    )
    connections.fail_points.reach("drain.after-table-made")
    return table


def plan_columns(
    pipeline: PipelineConfig, connections: Connections, table: Table, source: SourceState
) -> PlannedColumns | None:
    """Return the planned type changes of a mirror's columns, or None.

    They are those that were declared, and those of its topic's last events. Nothing is committed: they come
    with the rows that are written for them.
    """
    progress = progress_of(table)
    plan = _to_observe(pipeline, connections, progress)
    plan, evidence = _observe(plan, connections, _records_before(source, source.end))
    types = types_of_newest(pipeline, table.schema(), progress.columns, evidence)
    types |= unlike_declared(pipeline, table.schema())
    if not types:
        return None
    _tell(pipeline, (f"{name} becomes {type_text(kind)}" for name, kind in types.items()))
    planned = PlannedColumns(table, types)
    planned.plan_more(_Lacks(replace(plan, takes_all_but=frozenset()), connections, evidence))
    return planned


def with_columns_for(run: BatchRun, plan: ReadingPlan, evidence: Evidence) -> Table:
    """Add the columns that splits need, and return the current table."""
    lacks = _Lacks(plan, run.connections, evidence)
    if run.columns is not None:
        return run.columns.plan_more(lacks)
    table = lacks.committed()
    run.connections.fail_points.reach("drain.after-columns")
    return table


@dataclass(slots=True)
class _Lacks:
    """The columns that a table lacks for observed records and known schemas."""

    plan: ReadingPlan
    connections: Connections
    evidence: Evidence = field(default_factory=Evidence)
    told: tuple[str, ...] = ()

    def __call__(self, table: Table) -> Evolution:
        """Return it for the current table."""
        plan = self.plan.on(table.schema(), progress_of(table))
        evolution, sentences = plan.lacks(table.specs().values(), self.evidence)
        self.told = self.told or sentences
        return evolution

    def committed(self) -> Table:
        """Add it to the table, and return the current table."""
        connections, pipeline = self.connections, self.plan.pipeline
        table = commit_columns(connections.open_catalog, pipeline.table, self, connections.fail_points)
        _tell(pipeline, self.told)
        return table


def _tell(pipeline: PipelineConfig, sentences: Iterable[str]) -> None:
    for sentence in islice(sentences, _MOST_TOLD):
        _log.warning("%s: %s", pipeline.table, sentence)


def _with_declared_columns(pipeline: PipelineConfig, connections: Connections, table: Table) -> Table:
    """Add columns declared since the table was created, before records decide their types."""
    if not declared_evolution(pipeline, table.schema()):
        return table
    return commit_columns(
        connections.open_catalog,
        pipeline.table,
        lambda table: declared_evolution(pipeline, table.schema()),
        connections.fail_points,
    )


def _with_declared_dead_letters(pipeline: PipelineConfig, connections: Connections, letters: Table) -> Table:
    """Return the dead-letter table with all declared columns and partition fields."""
    if lacks := dead_letter_evolution(pipeline, letters.schema()):
        additions = [(path, kind) for path, kind, _ in lacks.additions]
        letters = evolve_table(connections.open_catalog, pipeline.dead_letter_table, additions)
    return set_partitioning(connections.open_catalog, letters, pipeline.dead_letters.partition_by)


def _first_ranges(
    pipeline: PipelineConfig, source: SourceState, starts: dict[int, int], max_bytes: int
) -> OffsetRanges:
    return plan_ranges(
        starts,
        source,
        max_records=pipeline.max_batch_records,
        max_bytes=max_bytes,
        bytes_per_record=FIRST_GUESS_BYTES_PER_RECORD,
    )


def _records_before(source: SourceState, starts: dict[int, int]) -> OffsetRanges:
    return OffsetRanges.between(
        {p: max(source.low[p], start - SAMPLED_RECORDS_PER_PARTITION) for p, start in starts.items()}, starts
    )


def _to_observe(
    pipeline: PipelineConfig, connections: Connections, progress: Progress | None = None
) -> ReadingPlan:
    return ReadingPlan.to_observe(pipeline, connections.schemas(pipeline), progress)


def _observe(
    plan: ReadingPlan, connections: Connections, ranges: OffsetRanges
) -> tuple[ReadingPlan, Evidence]:
    if not ranges:
        return plan, Evidence()
    splits = plan_splits(
        ranges,
        bytes_per_record=FIRST_GUESS_BYTES_PER_RECORD,
        max_split_bytes=MAX_SPLIT_BYTES,
        parallelism=connections.parallelism,
    )
    source = SplitSource(connections.kafka, plan.pipeline.topic, connections.task_memory_bytes)

    def observe(decoder: Decoder) -> Evidence:
        work = partial(observe_split, source, decoder, plan.growth)
        outcomes = run_on_spark(connections.spark(), work, splits, tag=f"observe-{plan.pipeline.name}")
        return evidence_of(outcomes, plan.growth)

    return plan.observe(observe)


def evidence_of(observed: Sequence[SplitOutcome], growth: Growth) -> Evidence:
    """Return the combined evidence of splits."""
    evidence = Evidence()
    for outcome in observed:
        if outcome.evidence is not None:
            evidence = evidence.merge(Evidence.from_json(outcome.evidence)).within(growth.max_fields_seen)
    return evidence


# The tables that rows are routed to: remembered by the pipeline's own, and given the columns that rows need.


def remember_routes(connections: Connections, table: Table, routed: Sequence[str]) -> Table:
    """Record all routed tables in the table before any row is routed: recovery must know them.

    A version that knows of no routes reads its progress no more. Returns the table as it is then.
    """

    def with_routes(progress: Progress) -> Progress:
        return replace(progress, routes=tuple(sorted({*progress.routes, *routed})))

    if with_routes(progress_of(table)) == progress_of(table):
        return table
    identifier, now_us = ".".join(table.name()), connections.now_us()
    batch = batch_of_change(table, REANCHOR, pipeline="", attempt=uuid.uuid4().hex, now_us=now_us)
    who = actor_summary(connections.actor, connections.run_id)
    land(connections, ChangeCommit(batch, with_routes, who))
    named = load_fresh(connections, identifier)
    if named is None:
        raise fault("table-gone", table=identifier)
    return named


def add_routed_columns(
    connections: Connections, own: Table, routed: Mapping[str, Table], observed: Sequence[SplitOutcome]
) -> dict[str, Table]:
    """Add the columns that routed rows need; return all routed tables.

    Raises ``ConfigError`` (``route-column-clash``) where one has a column of the name that cannot hold them.
    """
    needed: dict[str, set[str]] = {}
    for outcome in observed:
        for name, columns in outcome.lacking.items():
            needed.setdefault(name, set()).update(columns)
    tables = {name: _with_columns(connections, own, name, columns) for name, columns in needed.items()}
    return {**routed, **tables}


def _with_columns(connections: Connections, own: Table, routed: str, names: set[str]) -> Table:
    def lacks(table: Table) -> Evolution:
        changes = lacking(own.schema(), table.schema())
        needed = (_change(own, table, changes, name) for name in sorted(names))
        return reduce(Evolution.then, needed, Evolution())

    return commit_columns(connections.open_catalog, routed, lacks, connections.fail_points)


def _change(own: Table, routed: Table, changes: Mapping[str, Evolution | None], name: str) -> Evolution:
    change = changes.get(name, Evolution())
    if change is not None:
        return change
    current, required = (type_text(each.schema().find_type(name)) for each in (routed, own))
    table = ".".join(routed.name())
    raise fault("route-column-clash", wanted=required, found=current, table=table, column=name)

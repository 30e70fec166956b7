"""A batch's splits read and written by tasks, round by round until none of them meets anything new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.drain.batch_run import BatchRun, Tables
from spark_jobs.drain.routed_tables import add_routed_columns
from spark_jobs.drain.split_task import SplitSource, SplitTask, run_split, table_target
from spark_jobs.drain.table_columns import evidence_of, with_columns_for
from spark_jobs.drain.written import add_up
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.errors import fault
from spark_jobs.records.reading_plan import MAX_ROUNDS, ReadingPlan
from spark_jobs.records.shape import Origin
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.evidence import MOST_SCHEMAS, Evidence
from spark_jobs.spark.outcomes import OutcomeKind, SplitOutcome, Written
from spark_jobs.spark.tasks import run_on_spark

if TYPE_CHECKING:
    from pyiceberg.table import Table

Rejected = Mapping[int, Mapping[int, str]]


def read_and_write(run: BatchRun, rejected: Rejected | None = None) -> Written:
    """Run the splits; those that met new fields are done again once the table has columns for them.

    With ``rejected`` they are run a second time, and what the first time wrote is stray.
    """
    tables, plan = run.tables, _plan(run, run.tables.data)
    waiting = {split.split_id: split for split in run.splits}
    done: list[SplitOutcome] = []
    has_strays = rejected is not None
    for _ in range(MAX_ROUNDS):
        work = partial(run_split, _task(run, plan, tables, rejected or {}))
        outcomes = run_on_spark(run.connections.spark(), work, list(waiting.values()), tag=run.batch.attempt)
        observed = [outcome for outcome in outcomes if outcome.kind is OutcomeKind.OBSERVED]
        done += [outcome for outcome in outcomes if outcome.kind is OutcomeKind.WRITTEN]
        has_strays = has_strays or bool(observed) or any(outcome.failed_tries for outcome in outcomes)
        if not observed:
            return add_up(done, has_strays=has_strays)
        waiting = {outcome.split_id: waiting[outcome.split_id] for outcome in observed}
        plan, tables = _learned(run, plan, tables, observed)
    raise fault(
        "endless-fields", rounds=MAX_ROUNDS, most=MAX_ROUNDS * MOST_SCHEMAS, pipeline=run.pipeline.name
    )


def _plan(run: BatchRun, table: Table) -> ReadingPlan:
    progress = progress_of(table)
    # As the batch was planned: another run may have drained more by now.
    spans = progress_of(run.tables.data).spans_with(run.batch)
    progress = replace(progress, generation=run.batch.generation, schema_spans=spans)
    schemas = run.connections.schemas(run.pipeline)
    return ReadingPlan(run.pipeline, schemas, table.schema(), progress, run.takes_all_but)


def _learned(
    run: BatchRun, plan: ReadingPlan, tables: Tables, observed: list[SplitOutcome]
) -> tuple[ReadingPlan, Tables]:
    """Return the plan and the tables once they have columns for what splits met."""
    own = tables.data

    def evolve(known: ReadingPlan, evidence: Evidence) -> ReadingPlan:
        nonlocal own
        own = with_columns_for(run, known, evidence)
        return _plan(run, own)

    if seen := [outcome for outcome in observed if outcome.evidence is not None]:
        plan = plan.learn(evidence_of(seen, plan.growth), evolve)
    routed = add_routed_columns(run.connections, own, tables.routed, observed)
    return plan, replace(tables, data=own, routed=routed)


def _task(run: BatchRun, plan: ReadingPlan, tables: Tables, rejected: Rejected) -> SplitTask:
    batch, connections = run.batch, run.connections
    origin = Origin(batch.topic, batch.generation, batch.ingested_at_us)
    return SplitTask(
        source=run.letters or SplitSource(connections.kafka, batch.topic, connections.task_memory_bytes),
        rows=plan.rows(origin, batch.batch_id, arrow_schema(tables.dead_letters.schema()), rejected),
        file_prefix=batch.attempt,
        data=table_target(tables.data),
        dead_letters=table_target(tables.dead_letters),
        fail_points=connections.fail_points,
        routed={name: table_target(each) for name, each in tables.routed.items()},
    )

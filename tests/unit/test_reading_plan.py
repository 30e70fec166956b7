"""How a pipeline's records are read, and what of them that is new is learned, chunk by chunk."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol.progress import Progress
from spark_jobs.records.reading_plan import ReadingPlan
from spark_jobs.schema.column_source import KnownSchemas
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.iceberg_types import with_metadata_columns
from tests.support.shaped import chunk_of, column, letters

ID = with_metadata_columns(Schema(NestedField(1, "id", LongType(), required=False)))


def plan_of(**columns: Any) -> ReadingPlan:
    """Return the plan for a table with one column; what it keeps of others is ``columns``."""
    pipeline = PipelineConfig(name="a", topic="t", table="l.a")
    schemas: Any = SimpleNamespace(known=lambda _progress: KnownSchemas(), learn=None)
    return ReadingPlan(pipeline, schemas, ID, Progress("t", 1, {0: 0}, columns=columns))


def grown(plan: ReadingPlan, evidence: Evidence) -> ReadingPlan:
    """Give the table the columns that it lacks."""
    return plan.with_columns(plan.lacks((), evidence)[0])


def test_a_chunk_that_gets_no_column_leaves_the_next_to_get_its_own() -> None:
    """What one had too much of are its own dead letters."""
    made, plan = plan_of().make(chunk_of([b'{"id": 1, "a": 2}', b'{"id": 3}']), ReadingPlan.rows)
    assert (column(made, "id"), [letter[2] for letter in letters(made)]) == ([3], ["a"])
    made, plan = plan.make(chunk_of([b'{"id": 4, "b": 5}']), ReadingPlan.rows, grown)
    assert (column(made, "b"), letters(made)) == ([5], [])
    assert column(plan.make(chunk_of([b'{"b": 6}']), ReadingPlan.rows)[0], "b") == [6]


def test_a_new_column_has_the_id_of_none_that_was_dropped() -> None:
    """Its files still have values under that."""
    dropped = ID.highest_field_id + 7
    _, plan = plan_of(gone={"long": (dropped,)}).make(chunk_of([b'{"new": 1}']), ReadingPlan.rows, grown)
    assert plan.schema.find_field("new").field_id > dropped

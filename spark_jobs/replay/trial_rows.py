"""Makes rows by today's configuration in this process, without writing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_jobs.connections.connect import tables_as_one
from spark_jobs.drain.dead_letter_source import CHUNK_DEAD_LETTERS, chunk_of_dead_letters
from spark_jobs.lake.coordinates import Coordinates
from spark_jobs.lake.dead_letter_files import whole_dead_letters
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.errors import fault
from spark_jobs.records.reading_plan import ReadingPlan
from spark_jobs.replay.redrive_plan import Selection, plan_redrive
from spark_jobs.schema.declared import check_declared, declared_evolution
from spark_jobs.schema.iceberg_types import OFFSET, PARTITION

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections
    from spark_jobs.kafka.reader import Chunk
    from spark_jobs.records.row_maker import ChunkRows
    from spark_jobs.schema.evidence import Evidence
    from spark_jobs.schema.evolution import Evolution


class TrialRows:
    """Makes rows of the table's columns and of ``columns_added``, as ``name: type``."""

    def __init__(self, pipeline: PipelineConfig, connections: Connections, table: Table) -> None:
        self.columns_added: list[str] = []
        self._specs = table.specs().values()
        plan = ReadingPlan(pipeline, connections.schemas(pipeline), table.schema(), progress_of(table))
        self._plan = self._with(plan, declared_evolution(pipeline, table.schema()))

    def make(self, chunk: Chunk) -> ChunkRows:
        """Return the chunk as rows of the schema, after adding columns for new fields."""
        rows, self._plan = self._plan.make(chunk, ReadingPlan.rows, self._evolved)
        return rows

    def _evolved(self, plan: ReadingPlan, evidence: Evidence) -> ReadingPlan:
        lacks, _ = plan.lacks(self._specs, evidence)
        return self._with(plan, lacks)

    def _with(self, plan: ReadingPlan, lacks: Evolution) -> ReadingPlan:
        self.columns_added += [f"{'.'.join(path)}: {kind}" for path, kind, _ in lacks.additions]
        return plan.with_columns(lacks) if lacks else plan


# What a redrive would come to, without it: nothing is written, and gates are not asked.


MAX_EXAMPLES = 20


@dataclass(slots=True)
class RedriveTrial:
    """Counts of a redrive's dry run: new rows by table, ``filtered`` by reason, failures by phase.

    ``examples`` say of some that would fail where they stand and why; ``left`` counts by reason the letters
    that cannot be sent. ``columns_added`` are columns the table would get, as ``name: type``.
    """

    rows: int = 0
    filtered: Counter[str] = field(default_factory=Counter)
    failing: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    left: dict[str, int] = field(default_factory=dict)
    columns_added: list[str] = field(default_factory=list)

    def add(self, made_rows: int, dead_letters: pa.Table) -> None:
        """Add a chunk's results."""
        self.rows += made_rows
        columns = [PARTITION, OFFSET, "phase", "error"]
        for letter in dead_letters.select(columns).slice(0, MAX_EXAMPLES - len(self.examples)).to_pylist():
            partition, offset, phase, error = (letter[name] for name in columns)
            self.examples.append(f"{partition}:{offset} ({phase}) {error}")


def try_redrive(pipeline: PipelineConfig, connections: Connections, wanted: Selection) -> RedriveTrial:
    """Process the selected dead letters in this process, by batch. Raises as ``plan_redrive``."""
    tables = tables_as_one(connections, pipeline.table)
    if tables is None:
        raise fault("no-table-yet", **pipeline.where)
    table, dead_letters = tables.data, tables.dead_letters
    check_declared(pipeline, table)
    if dead_letters is None:
        return RedriveTrial()
    plan = plan_redrive(pipeline, table, dead_letters, wanted)
    rows = TrialRows(pipeline, connections, table)
    found = RedriveTrial(left=plan.left, columns_added=rows.columns_added)
    for part in plan.batches(pipeline.max_batch_records):
        letters = whole_dead_letters(dead_letters, Coordinates.of_rows(part), progress_of(table).generation)
        for first in range(0, len(letters), CHUNK_DEAD_LETTERS):
            chunk_rows = rows.make(chunk_of_dead_letters(letters.slice(first, CHUNK_DEAD_LETTERS)))
            routed = sum(rows.num_rows for rows in chunk_rows.routed.values())
            found.add(chunk_rows.rows.num_rows + routed, chunk_rows.dead_letters)
            found.filtered.update(chunk_rows.filtered_reasons)
            found.failing.update(chunk_rows.dead_letter_phases)
    return found

"""Rows as today's configuration would make them of records, in this process; nothing is written."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_jobs.connections.tables import no_table_yet, tables_as_one
from spark_jobs.drain.letter_source import CHUNK_LETTERS, chunk_of_letters
from spark_jobs.lake.coordinates import Coordinates
from spark_jobs.lake.kept_letters import letters_of
from spark_jobs.lake.tables import progress_of
from spark_jobs.records.formats import format_of
from spark_jobs.records.row_maker import NewFieldsSeen, RowMaker
from spark_jobs.records.shape import Origin
from spark_jobs.records.shaped_rows import checked_shaping
from spark_jobs.replay.redrive_plan import Wanted, plan_redrive
from spark_jobs.schema.additions import check_declared, declared_evolution
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.evolution import Evolution, bind, evolved
from spark_jobs.schema.metadata_columns import OFFSET, PARTITION, dead_letter_schema
from spark_jobs.schema.partitioning import field_names, free_evolution

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

    from spark_jobs.config.columns import Growth
    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections
    from spark_jobs.kafka.reader import Chunk
    from spark_jobs.records.decoder import Decoder
    from spark_jobs.records.row_maker import ChunkRows


class TrialRows:
    """Makes rows of the table's columns and of those that it would get: ``columns_added``, ``name: type``."""

    def __init__(self, pipeline: PipelineConfig, connections: Connections, table: Table) -> None:
        self.columns_added: list[str] = []
        self._table = table
        self._schema = table.schema()
        self._pipeline = pipeline
        self._schemas = connections.schemas(pipeline)
        self._bound = progress_of(table).columns
        self._add_columns(declared_evolution(pipeline, self._schema))
        self._decoder = self._decoder_of(pipeline.table_schema.growth)

    def make(self, chunk: Chunk) -> ChunkRows:
        """Return the chunk as rows of the schema, which gets a column for each new field first."""
        while True:
            try:
                made = self._maker().make(chunk)
            except NewFieldsSeen:
                self._add_columns_for(chunk)
            else:
                # What this chunk had too much of says nothing of the next.
                self._decoder = self._decoder.under(self._pipeline.table_schema.growth)
                return made

    def _add_columns_for(self, chunk: Chunk) -> None:
        evidence = self._decoder.observe(chunk)
        progress = progress_of(self._table)
        known = self._schemas.known(progress).names
        found = format_of(self._pipeline, self._schemas.learn(evidence.schemas, progress))
        specs = self._table.specs().values()
        lacks, _ = free_evolution(found.columns, self._schema, specs, self._bound, evidence)
        self._add_columns(lacks)
        is_new = lacks or self._schemas.known(progress).names != known
        self._decoder = self._decoder_of(self._decoder.growth if is_new else self._decoder.growth.ended())

    def _decoder_of(self, growth: Growth) -> Decoder:
        progress = progress_of(self._table)
        known = self._schemas.known(progress)
        decoder = format_of(self._pipeline, known, self._schema, self._bound).decoder
        return decoder.under(growth).keeping(progress.kept_columns, progress.generation)

    def _maker(self) -> RowMaker:
        progress = progress_of(self._table)
        origin = Origin(progress.topic, progress.generation, 0)
        schema = arrow_schema(self._schema)
        shaping = checked_shaping(self._pipeline, schema, field_names(self._schema, self._bound))
        letters = arrow_schema(dead_letter_schema())
        return RowMaker(self._decoder, origin, "", schema, letters, shaping=shaping)

    def _add_columns(self, lacks: Evolution) -> None:
        if lacks:
            self._schema = evolved(self._schema, lacks)
            self._bound = bind(self._bound, lacks.bindings, self._schema)
            self.columns_added += [f"{'.'.join(path)}: {kind}" for path, kind, _ in lacks.additions]


# What a redrive would come to, without it: nothing is written, and gates are not asked.


MAX_EXAMPLES = 20


@dataclass(slots=True)
class RedriveTrial:
    """How many letters would become rows of any table, be ``filtered`` by reason, or fail again, by phase.

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
        """Count what a chunk came to."""
        self.rows += made_rows
        columns = [PARTITION, OFFSET, "phase", "error"]
        for letter in dead_letters.select(columns).slice(0, MAX_EXAMPLES - len(self.examples)).to_pylist():
            partition, offset, phase, error = (letter[name] for name in columns)
            self.examples.append(f"{partition}:{offset} ({phase}) {error}")


def try_redrive(pipeline: PipelineConfig, connections: Connections, wanted: Wanted) -> RedriveTrial:
    """Make rows of the wanted letters in this process, batch by batch. Raises as ``plan_redrive``."""
    tables = tables_as_one(connections, pipeline.table)
    if tables is None:
        raise no_table_yet(pipeline)
    table, dead_letters = tables.data, tables.dead_letters
    check_declared(pipeline, table)
    if dead_letters is None:
        return RedriveTrial()
    plan = plan_redrive(pipeline, table, dead_letters, wanted)
    rows = TrialRows(pipeline, connections, table)
    found = RedriveTrial(left=plan.left, columns_added=rows.columns_added)
    for part in plan.batches(pipeline.max_batch_records):
        letters = letters_of(dead_letters, Coordinates.of_rows(part), progress_of(table).generation)
        for first in range(0, len(letters), CHUNK_LETTERS):
            made = rows.make(chunk_of_letters(letters.slice(first, CHUNK_LETTERS)))
            routed = sum(rows.num_rows for rows in made.routed.values())
            found.add(made.rows.num_rows + routed, made.dead_letters)
            found.filtered.update(made.filtered_reasons)
            found.failing.update(made.dead_letter_phases)
    return found

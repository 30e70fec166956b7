"""A pipeline's current decoding of records, and how new schemas and columns are learned.

Drain, hot tail, preview and rehearsals make rows by it alone, so that all make the same of a record.
A format stands behind ``schema.writer_schema``; what rows are of what it reads is a file of ``layouts``.
Nobody else imports the modules of one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, count
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
from pyiceberg.schema import Schema

from spark_jobs.config.columns import GROWTH, Growth
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.config.value_format import ValueFormat
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.progress_parts import old_column_names
from spark_jobs.records.decoder import Decoder, Format, Shaping, configured_forms, shaping_of
from spark_jobs.records.layouts.change_columns import ChangeColumns
from spark_jobs.records.layouts.changes import takes_all_types
from spark_jobs.records.layouts.flat import FlatDecoder, JsonDecoder, PlainFlatDecoder, PlainJsonDecoder
from spark_jobs.records.projection import refit_by_schema
from spark_jobs.records.row_maker import ChunkRows, NewFieldsSeen, RowMaker
from spark_jobs.records.shape import Origin
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.column_source import KnownSchemas, SeenColumns, field_names, free_evolution
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.evolution import Evolution, bind, evolved
from spark_jobs.schema.iceberg_types import dead_letter_schema, declared_fields, with_metadata_columns
from spark_jobs.schema.placing import Rules
from spark_jobs.values.exact import formed, refit

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.types import IcebergType

    from spark_jobs.kafka.chunks import Chunk
    from spark_jobs.protocol.cdc import Cdc
    from spark_jobs.protocol.offsets import SchemaKey
    from spark_jobs.protocol.progress import ColumnMap


JSON = Format(FlatDecoder(JsonDecoder()), PlainFlatDecoder(PlainJsonDecoder()), SeenColumns(GROWTH))


def format_of(
    pipeline: PipelineConfig,
    schemas: KnownSchemas,
    table: Schema | None = None,
    bound: ColumnMap | None = None,
    *,
    takes_all_but: frozenset[str] | None = None,
    cdc: Cdc | None = None,
    retyped: frozenset[str] = frozenset(),
) -> Format:
    """Return the format of the pipeline's records, given the known schemas.

    Rows of a ``table`` can be decoded only by the format for it and for what it keeps of its columns'
    fields, ``bound``. ``takes_all_but`` is of a mirror that is made anew: see ``Rules``. ``cdc`` is how far
    one is. ``retyped`` columns were given another type.
    """
    shaping = shaping_of(pipeline)
    rules = Rules(
        pipeline.table_schema.growth.room,
        pipeline.table_schema.incompatible,
        frozenset(pipeline.declared),
        shaping.computed,
        shaping.converted,
        pipeline.layout,
        takes_all_but if takes_all_but is not None and takes_all_types(pipeline) else None,
        configured_forms(pipeline),
        retyped,
    )
    if cdc is not None and takes_all_but is not None:  # made anew it may be of another source
        cdc = replace(cdc, source=None)
    record_format: Format = pipeline.layout.rows(pipeline, schemas, rules, table, bound=bound or {}, cdc=cdc)
    return record_format


def types_of_newest(
    pipeline: PipelineConfig, table: Schema, bound: ColumnMap, evidence: Evidence
) -> dict[str, IcebergType]:
    """Return, by column of a mirror, the source's current type where it differs from the column's."""
    columns = format_of(pipeline, KnownSchemas(), table, bound).columns
    if not takes_all_types(pipeline) or not isinstance(columns, ChangeColumns):
        return {}
    return columns.types_of_newest(table, bound, evidence)


def refit_of(pipeline: PipelineConfig, column: str) -> Callable[[pa.ChunkedArray, pa.DataType], pa.Array]:
    """Return the converter of a column's values to another type, as in a replay; null if one misfits."""
    by_type = refit if pipeline.value.format is ValueFormat.JSON else refit_by_schema
    shaping = shaping_of(pipeline)
    if column in shaping.computed or column not in shaping.converted:
        return by_type

    def refit_formed(values: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
        written = by_type(values, shaping.decoded_field(pa.field(column, kind)).type)
        return formed(written, shaping.columns[column], kind)[0]

    return refit_formed


# Each round learns columns or schemas, so this many mean values whose fields, or ids, never end.
MAX_ROUNDS = 8
_NO_REASONS: Mapping[int, Mapping[int, str]] = {}
Evolve = Callable[["ReadingPlan", Evidence], "ReadingPlan"]


class Schemas(Protocol):
    """The known schemas of a pipeline's records, and the source of unknown ones."""

    def known(self, progress: Progress | None = None) -> KnownSchemas:
        """Return the known schemas, with those that a table of this progress keeps."""

    def learn(self, keys: Collection[SchemaKey], progress: Progress | None = None) -> object:
        """Request the unknown schemas among ``keys``."""


def _as_it_is(plan: ReadingPlan, _evidence: Evidence) -> ReadingPlan:
    return plan


@dataclass
class ReadingPlan:
    """Decodes a pipeline's records to rows of ``schema``; without columns yet, it can observe them.

    ``progress`` has what the table keeps of its columns and of schemas. ``takes_all_but`` is of a mirror that
    is made anew: see ``Rules``.
    """

    pipeline: PipelineConfig
    schemas: Schemas
    schema: Schema
    progress: Progress
    takes_all_but: frozenset[str] | None = None
    growth: Growth = field(init=False)
    known: KnownSchemas = field(init=False)

    @classmethod
    def to_observe(
        cls, pipeline: PipelineConfig, schemas: Schemas, progress: Progress | None = None
    ) -> ReadingPlan:
        """Return the plan for records without a table, or with one of this progress and any columns."""
        return cls(pipeline, schemas, Schema(), progress or Progress(pipeline.topic, 1, {}))

    def __post_init__(self) -> None:
        """Set up decoding by the schemas known now."""
        self.growth = self.pipeline.table_schema.growth
        self.known = self.schemas.known(self.progress)

    def on(self, schema: Schema, progress: Progress) -> ReadingPlan:
        """Return the plan for a table of this schema and progress, by the schemas known now."""
        return replace(self, schema=schema, progress=progress).under(self.growth)

    def with_columns(self, lacks: Evolution) -> ReadingPlan:
        """Return the plan for the table with these changes; a new table gets Sluice's own columns too."""
        bound = self.progress.columns
        # Of columns that were dropped something is kept: new ones are not these.
        kept = chain(*(ids for kinds in bound.values() for ids in kinds.values()))
        schema = evolved(self.schema, lacks, count(max([self.schema.highest_field_id, *kept]) + 1))
        if not self.schema.fields:
            schema = with_metadata_columns(schema, key_is_binary=self.pipeline.key_is_binary)
        return self.on(schema, replace(self.progress, columns=bind(bound, lacks.bindings, schema)))

    def under(self, growth: Growth) -> ReadingPlan:
        """Return the plan for a table with this policy for new fields."""
        other = copy(self)  # with what was made for it
        other.growth = growth
        return other

    def ended(self) -> ReadingPlan:
        """Return the plan for a table that gets no further columns or schemas."""
        return self.under(self.growth.ended())

    @cached_property
    def format(self) -> Format:
        """The records' format: decoders and the source of columns."""
        build = partial(format_of, self.pipeline, self.known, takes_all_but=self.takes_all_but)
        if not self.schema.fields:
            return build()
        retyped = frozenset(each.column for each in self.progress.kept_columns)
        return build(self.schema, self.progress.columns, cdc=self.progress.cdc, retyped=retyped)

    @cached_property
    def columns(self) -> pa.Schema:
        """The table's columns."""
        return arrow_schema(self.schema)

    @cached_property
    def shaping(self) -> Shaping:
        """Processing of decoded records; raises as ``checked_shaping``."""
        if (shaping := shaping_of(self.pipeline)).is_nothing:
            return shaping
        # DuckDB, which not all need.
        from spark_jobs.records.shaped_rows import checked_shaping  # noqa: PLC0415

        return checked_shaping(self.pipeline, self.columns, field_names(self.schema, self.progress.columns))

    @property
    def origin(self) -> Origin:
        """The origin of records that are not ingested."""
        return Origin(self.progress.topic, self.progress.generation, 0)

    def rows(
        self,
        origin: Origin | None = None,
        batch_id: str | None = None,
        letters: pa.Schema | None = None,
        rejected: Mapping[int, Mapping[int, str]] = _NO_REASONS,
    ) -> RowMaker:
        """Return the maker of rows, given a dead-letter table with these columns."""
        letters = arrow_schema(dead_letter_schema()) if letters is None else letters
        own = self.pipeline.dead_letters.columns
        return RowMaker(
            self.format.decoder,
            self.origin if origin is None else origin,
            batch_id,
            self.columns,
            letters,
            rejected,
            self.shaping,
            {name: column for name, column in own.items() if name in letters.names},
            self.growth,
            self.format.takes_tombstones,
            old_column_names(self.progress.kept_columns),
        )

    def first(self, evidence: Evidence) -> tuple[Evolution, tuple[str, ...]]:
        """Return the columns of a new table for the observed records, and notes on them."""
        return self.format.columns.first(evidence, declared_fields(self.pipeline.declared))

    def lacks(self, specs: Iterable[PartitionSpec], evidence: Evidence) -> tuple[Evolution, tuple[str, ...]]:
        """Return what the table, with these current or earlier partition specs, lacks for the records."""
        return free_evolution(self.format.columns, self.schema, specs, self.progress.columns, evidence)

    def learn(self, evidence: Evidence, evolve: Evolve = _as_it_is) -> ReadingPlan:
        """Return the plan with the named schemas, after ``evolve`` has added what the table lacks.

        Where nothing is new by then it takes no more: evidence has its limit, records may say, or name, more.
        """
        plan = self
        if evidence.schemas:
            self.schemas.learn(evidence.schemas, self.progress)
            plan = self.on(self.schema, self.progress)
        plan = evolve(plan, evidence).under(self.growth)
        is_new = self.extent != plan.extent
        return plan if is_new else plan.ended()

    @property
    def extent(self) -> tuple[int, set[SchemaKey | None]]:
        """Identity of the plan's columns and schemas, which changes when one is added."""
        return self.schema.highest_field_id, self.known.names

    def observe(self, observe: Callable[[Decoder], Evidence]) -> tuple[ReadingPlan, Evidence]:
        """Return the plan with all schemas that records name, and what it observed of the records."""
        plan = self
        for _ in range(MAX_ROUNDS):
            evidence = observe(plan.format.decoder)
            plan = plan.learn(evidence)
            if plan.growth.has_ended:
                break
        return plan, evidence

    def make(
        self, chunk: Chunk, rows: Callable[[ReadingPlan], RowMaker], evolve: Evolve = _as_it_is
    ) -> tuple[ChunkRows, ReadingPlan]:
        """Return the chunk's rows, after learning its schemas and fields, and the plan for the next chunk."""
        plan = self
        while True:
            try:
                # What one chunk had too much of says nothing of the next.
                return rows(plan).make(chunk), plan.under(self.growth)
            except NewFieldsSeen:
                plan = plan.learn(plan.format.decoder.observe(chunk, plan.growth), evolve)

"""Selects the dead letters that a redrive can process; changes nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And, BooleanExpression

from spark_jobs.commit.anchor import check_anchor
from spark_jobs.commit.pending_commit import rows_at
from spark_jobs.commit.replace import ReplacedOffsets
from spark_jobs.lake.coordinates import Coordinates, of_generation
from spark_jobs.lake.dead_letter_files import first_of_each
from spark_jobs.lake.file_rows import ALWAYS_TRUE, rows_of_file
from spark_jobs.lake.row_filters import is_among, is_in_any
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.schema.iceberg_types import GENERATION, OFFSET, PARTITION, TIMESTAMP
from spark_jobs.storage.errors import storage_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table

    from spark_jobs.config.settings import PipelineConfig

BYTES = "bytes"
# Why a letter is left where it is.
EARLIER_GENERATION = "of an earlier generation"
NO_TIME = "without a time"
AHEAD = "past the table's offsets"
HAS_ROW = "of a record that has a row"
# What a batch of a redrive holds in memory at most, a larger letter alone.
BATCH_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Selection:
    """Selection by phases, fields and ranges; the first ``limit`` of them."""

    phases: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    ranges: tuple[OffsetRange, ...] = ()
    limit: int | None = None

    def condition(self, generation: int) -> BooleanExpression:
        """Return the filter for the selected dead letters, whether or not they can be processed."""
        parts: list[BooleanExpression] = [ALWAYS_TRUE]
        if self.phases:
            parts.append(is_among("phase", self.phases))
        if self.fields:
            parts.append(is_among("field", self.fields))
        if self.ranges:
            parts.append(is_in_any(self.ranges, generation))
        return reduce(And, parts)


@dataclass(frozen=True, slots=True)
class RedrivePlan:
    """Sorted ``letters`` with partition, offset and bytes; ``left`` counts the others by reason."""

    letters: pa.Table
    left: dict[str, int]

    def batches(self, max_letters: int) -> Iterator[pa.Table]:
        """Yield the dead letters in batches within both bounds."""
        first = 0
        while first < len(self.letters):
            weights = np.cumsum(self.letters.column(BYTES).slice(first, max_letters).to_numpy())
            count = max(1, int(np.searchsorted(weights, BATCH_BYTES, side="right")))
            yield self.letters.slice(first, count)
            first += count


def plan_redrive(
    pipeline: PipelineConfig, table: Table, dead_letters: Table | None, wanted: Selection
) -> RedrivePlan:
    """Look up the dead letters in their table, which is at least as new as the data table.

    Letters stay that are of an earlier generation or whose time was none that a table can hold, since the row
    would lack it; those at or past the table's offsets, whose records are drained again; and those whose
    record has a row. Raises ``ConfigError`` for an archive and a mirror, ``SourceChanged`` as a drain does
    for either table, and what reading raises.
    """
    pipeline.layout.refuse("redrive", pipeline=pipeline.name)
    check_anchor(table)
    if dead_letters is None:
        return RedrivePlan(_NO_LETTERS, {})
    check_anchor(dead_letters)
    progress = progress_of(table)
    found = _select(dead_letters, wanted.condition(progress.generation))
    is_current = of_generation(found, progress.generation)
    current = first_of_each(found.filter(pa.array(is_current)))
    has_time = current.column(TIMESTAMP).is_valid().to_numpy()
    below = (OffsetRange(p, 0, end) for p, end in progress.next_offsets.items())
    is_drained = Coordinates.of(below).holds(current)
    places = Coordinates.of_rows(current.filter(pa.array(has_time & is_drained)))
    rows = rows_at(table, ReplacedOffsets(progress.generation, places))
    has_row = Coordinates.of_rows(rows).holds(current)
    left = Counter(
        {
            EARLIER_GENERATION: int((~is_current).sum()),
            NO_TIME: int((~has_time).sum()),
            AHEAD: int((has_time & ~is_drained).sum()),
            HAS_ROW: int((has_time & is_drained & has_row).sum()),
        }
    )
    chosen = current.filter(pa.array(has_time & is_drained & ~has_row)).select([PARTITION, OFFSET, BYTES])
    return RedrivePlan(chosen.slice(0, wanted.limit), dict(+left))


def _select(dead_letters: Table, condition: BooleanExpression) -> pa.Table:
    """Return coordinates, time and size of each selected dead letter."""
    schema = dead_letters.schema().select(
        PARTITION, OFFSET, GENERATION, TIMESTAMP, "key", "value", "phase", "field"
    )
    found = [_FOUND.empty_table()]
    try:
        for task in dead_letters.scan(condition).plan_files():
            found += map(_sized, rows_of_file(dead_letters.io, task, schema, condition))
    except OSError as error:
        name = ".".join(dead_letters.name())
        raise storage_error(error, "reading dead letters", table=name) from error
    return pa.concat_tables(found)


def _sized(letters: pa.Table) -> pa.Table:
    sizes = [pc.fill_null(pc.binary_length(letters.column(name)), 0) for name in ("key", "value")]
    columns = [letters.column(name) for name in _FOUND.names[:-1]]
    return pa.Table.from_arrays([*columns, pc.cast(pc.add(*sizes), pa.int64())], names=_FOUND.names).cast(
        _FOUND
    )


_FOUND = pa.schema(
    [
        (PARTITION, pa.int32()),
        (OFFSET, pa.int64()),
        (GENERATION, pa.int32()),
        (TIMESTAMP, pa.timestamp("us", "UTC")),
        (BYTES, pa.int64()),
    ]
)
_NO_LETTERS = _FOUND.empty_table().select([PARTITION, OFFSET, BYTES])

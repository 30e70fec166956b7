"""Previews a replay without writing: added, removed and changed rows and columns.

Works through the ranges in windows of offsets in this process, so memory does not grow with them. Reads only.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from spark_jobs.audit.row_check import equal_values
from spark_jobs.connections.connect import PipelineTables, load_fresh, load_routed
from spark_jobs.kafka.reader import RangeReader, open_reader
from spark_jobs.lake.record_offsets import routed_rows
from spark_jobs.lake.row_filters import offsets_in, rows_in
from spark_jobs.lake.tables import dead_letters_of, progress_of
from spark_jobs.protocol.progress_parts import old_column_names
from spark_jobs.records.row_maker import placed_rows
from spark_jobs.replay.trial_rows import TrialRows
from spark_jobs.schema.declared import check_declared
from spark_jobs.schema.iceberg_types import GENERATION, INGESTED_AT, OFFSET, PARTITION

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections
    from spark_jobs.protocol.offsets import OffsetRange
    from spark_jobs.replay.plan import ReplayPlan

    Offsets: TypeAlias = NDArray[np.int64]

WINDOW_OFFSETS = 100_000
MAX_EXAMPLES = 20
SHOWN_CHARACTERS = 60
_NOT_COMPARED = {GENERATION, INGESTED_AT}
_NO_OFFSETS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Change:
    """One value that would change; ``at`` is ``partition:offset``, both values are shortened."""

    at: str
    column: str
    before: str
    after: str


@dataclass(slots=True)
class ReplayDiff:
    """Counts over the ranges; ``changed_by_column`` counts values, ``rows_changed`` rows.

    ``records_gone`` are rows and dead letters whose records Kafka no longer holds.
    ``filtered`` are records that the filter leaves out. ``columns_added`` are columns the table would get, as
    ``name: type``. Dead letters are compared by offset. A row that would be in another table has changed in
    ``(table)``.
    """

    rows_same: int = 0
    rows_added: int = 0
    rows_removed: int = 0
    rows_changed: int = 0
    dead_letters_added: int = 0
    dead_letters_removed: int = 0
    records_gone: int = 0
    filtered: int = 0
    columns_added: list[str] = field(default_factory=list)
    changed_by_column: Counter[str] = field(default_factory=Counter)
    examples: list[Change] = field(default_factory=list)


def diff_replay(
    pipeline: PipelineConfig,
    connections: Connections,
    plan: ReplayPlan,
    *,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> ReplayDiff:
    """Compare the table's rows with those that the planned replay would write.

    ``on_progress`` gets offsets done and in all. Raises ``RetryableError`` and ``ConfigError`` when the table
    or the topic cannot be read.
    """
    check_declared(pipeline, plan.table)
    dead_letters = load_fresh(connections, dead_letters_of(pipeline.table))
    routed = load_routed(partial(load_fresh, connections), plan.table)
    differ = _Differ(pipeline, connections, PipelineTables(plan.table, dead_letters, routed))
    done = 0
    with open_reader(connections.kafka, pipeline.topic) as reader:
        for window in (window for r in plan.ranges for window in r.cut(WINDOW_OFFSETS)):
            differ.compare(reader, window)
            done += len(window)
            on_progress(done, plan.records)
    return differ.found


class _Differ:
    """A comparison in progress; its schema gets the columns that the replay would add."""

    def __init__(self, pipeline: PipelineConfig, connections: Connections, tables: PipelineTables) -> None:
        self._tables, self._table = tables, (table := tables.data)
        self._rows = TrialRows(pipeline, connections, table)
        self.found = ReplayDiff(columns_added=self._rows.columns_added)
        self._not_compared = _NOT_COMPARED | old_column_names(progress_of(table).kept_columns)
        self._not_compared |= pipeline.layout.not_compared

    def compare(self, reader: RangeReader, window: OffsetRange) -> None:
        """Compare one window of one partition."""
        rows, dead = self._current_rows(window)
        new_rows, new_dead, left_out = [_NO_OFFSETS], [_NO_OFFSETS], [_NO_OFFSETS]
        for chunk in reader.read(window):
            made = self._rows.make(chunk)
            made_rows = placed_rows(made.rows, made.routed)
            new_rows.append(_offsets(made_rows))
            new_dead.append(_offsets(made.dead_letters))
            left_out += [
                np.asarray(offsets, np.int64) for offsets in (*made.left_out.values(), *made.passed.values())
            ]
            self.found.filtered += sum(made.filtered_reasons.values())
            self._compare_rows(rows, made_rows)
        before, after = _offsets(rows), np.concatenate(new_rows)
        dead_after = np.concatenate(new_dead)
        self.found.rows_added += len(np.setdiff1d(after, before))
        self.found.rows_removed += len(np.setdiff1d(before, after))
        self.found.dead_letters_added += len(np.setdiff1d(dead_after, dead))
        self.found.dead_letters_removed += len(np.setdiff1d(dead, dead_after))
        read = np.concatenate([after, dead_after, *left_out])
        self.found.records_gone += len(np.setdiff1d(np.union1d(before, dead), read))

    def _current_rows(self, window: OffsetRange) -> tuple[pa.Table, Offsets]:
        """Return the table's rows of the window by offset, and the offsets of its dead letters."""
        generation = progress_of(self._table).generation
        routed = routed_rows(self._table, self._tables.routed, window)
        rows = placed_rows(rows_in(self._table, window, generation), routed)
        if self._tables.dead_letters is None:
            return rows, _NO_OFFSETS
        return rows, offsets_in(self._tables.dead_letters, window, generation)

    def _compare_rows(self, held: pa.Table, made: pa.Table) -> None:
        before, after = _offsets(held), _offsets(made)
        both = np.intersect1d(before, after)
        old_rows = held.take(np.searchsorted(before, both))
        new_rows = made.take(np.searchsorted(after, both))
        is_changed = np.zeros(len(both), dtype=bool)
        for name in (name for name in new_rows.column_names if name not in self._not_compared):
            new = new_rows.column(name)
            old = (
                old_rows.column(name)
                if name in old_rows.column_names
                else pa.chunked_array([pa.nulls(len(both), new.type)])
            )
            differs = ~equal_values(old, new)
            is_changed |= differs
            if differs.any():
                self._note(name, new_rows, old, np.flatnonzero(differs))
        self.found.rows_changed += int(is_changed.sum())
        self.found.rows_same += int((~is_changed).sum())

    def _note(self, name: str, rows: pa.Table, old: pa.ChunkedArray, changed: Offsets) -> None:
        self.found.changed_by_column[name] += len(changed)
        for index in changed[: max(0, MAX_EXAMPLES - len(self.found.examples))].tolist():
            at = f"{rows.column(PARTITION)[index]}:{rows.column(OFFSET)[index]}"
            before, after = old[index].as_py(), rows.column(name)[index].as_py()
            self.found.examples.append(Change(at, name, _shown(before), _shown(after)))


def _shown(value: object) -> str:
    text = "null" if value is None else str(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"


def _offsets(rows: pa.Table) -> Offsets:
    found: Offsets = np.sort(rows.column(OFFSET).to_numpy())
    return found

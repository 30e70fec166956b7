"""Finds rows that a replay replaced: they arrived later than the earlier ones."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from datetime import datetime

from prove.lab.pipeline_lab import by_offset, progress
from prove.workload import Workload
from spark_jobs.protocol.source import still_pending, still_pending_to
from spark_jobs.replay.ranges import parse_range
from spark_jobs.schema.iceberg_types import INGESTED_AT

ArrivalTimes = dict[tuple[int, int], datetime]


def arrival_times(workload: Workload) -> ArrivalTimes:
    """Return the arrival time of each row and dead letter, by partition and offset."""
    tables = [by_offset(workload.lab, table) for table in (*workload.lab.tables, *workload.lab.routed)]
    every = {place: row for rows in tables for place, row in rows.items()}
    assert len(every) == sum(map(len, tables)), "a record is in two tables"
    return {place: row[INGESTED_AT] for place, row in every.items()}


def pending_places(workload: Workload) -> set[tuple[int, int]]:
    """Return coordinates in other tables that a recent commit has yet to replace; the next run does."""
    lab = workload.lab
    table, dead_letters = (progress(lab, name) for name in lab.tables)
    pending = [] if still_pending(table, dead_letters) is None else [lab.tables[1]]
    pending += [name for name in lab.routed if still_pending_to(table, name, progress(lab, name))]
    return {place for name in pending for place in by_offset(lab, name)}


def is_replaced(
    before: ArrivalTimes, after: ArrivalTimes, ranges: str, left: AbstractSet[tuple[int, int]]
) -> bool:
    """True if the range's rows are replaced, except for those still pending, or empty."""
    assert before.keys() == after.keys(), "a replay brought or took records"
    changed = {place for place, arrived in after.items() if arrived != before[place]}
    assert all(after[place] > before[place] for place in changed), "older rows came back"
    wanted = parse_range(ranges)
    inside = {
        place for place in after if place[0] == wanted.partition and wanted.start <= place[1] < wanted.end
    }
    assert inside, "the range holds nothing"
    assert changed in (set(), inside, inside - left), (
        f"replaced {len(changed)} rows of {len(inside)} in {ranges}"
    )
    return bool(changed)

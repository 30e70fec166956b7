"""Which rows a replay put in the place of others: they came in later than what was there."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from datetime import datetime

from prove.lab.pipeline_lab import by_offset, progress
from prove.workload import Workload
from spark_jobs.protocol.fences import still_owed
from spark_jobs.replay.ranges import parse_range
from spark_jobs.schema.metadata_columns import INGESTED_AT

ArrivalTimes = dict[tuple[int, int], datetime]


def arrival_times(workload: Workload) -> ArrivalTimes:
    """When each row and dead letter came in, by partition and offset."""
    rows, dead_letters = (by_offset(workload.lab, table) for table in workload.lab.tables)
    assert not rows.keys() & dead_letters.keys(), "a record is both a row and a dead letter"
    return {place: row[INGESTED_AT] for place, row in (rows | dead_letters).items()}


def places_owed(workload: Workload) -> set[tuple[int, int]]:
    """Dead letters that a commit which landed a moment ago has yet to replace; the next run does."""
    table, dead_letters = (progress(workload.lab, name) for name in workload.lab.tables)
    if still_owed(table, dead_letters) is None:
        return set()
    return set(by_offset(workload.lab, workload.lab.tables[1]))


def is_replaced(
    before: ArrivalTimes, after: ArrivalTimes, ranges: str, left: AbstractSet[tuple[int, int]]
) -> bool:
    """True if what the range holds is another's now: all but what is left to do, or nothing."""
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

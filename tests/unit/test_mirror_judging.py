"""Which keys an audit of a mirror compares where Kafka no longer holds the whole topic."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from prove.lab.generated_changes import RandomSource
from spark_jobs.audit.mirror import _Judging, behind_recorded
from spark_jobs.audit.plain_fold import OLD_KEY, fold
from spark_jobs.protocol.cdc import Cdc, Position

PARTITIONS = 3
COLUMNS = (
    *("_kafka_partition", "_kafka_offset", "_cdc_row_id", "_cdc_sequence", "_cdc_commit_sequence"),
    *("score", "note"),
)


def changes(seed: int) -> list[dict[str, Any]]:
    """Return a topic's changes, the last ones perhaps in the middle of what is told again."""
    told = list(RandomSource(seed).changes(60))
    offsets: Counter[int] = Counter()
    events = []
    for each in told[: random.Random(seed).randint(20, len(told))]:
        partition = each.partition(PARTITIONS)
        old_key = {} if each.old_key is None else {OLD_KEY: str(each.old_key)}
        events.append(
            {
                "_kafka_partition": partition,
                "_kafka_offset": offsets[partition],
                "_cdc_operation": each.operation,
                "_cdc_row_id": "" if each.key is None else str(each.key),
                "_cdc_sequence": each.sequence,
                "_cdc_commit_sequence": each.commit,
                "score": each.score,
                "note": each.note,
                **old_key,
            }
        )
        offsets[partition] += 1
    return sorted(events, key=lambda event: event["_kafka_partition"])


def rows_as_table(rows: Iterable[dict[str, Any]]) -> pa.Table:
    """Return rows as the table's files have them."""
    kinds = [(name, pa.string() if name in {"_cdc_row_id", "note"} else pa.int64()) for name in COLUMNS]
    return pa.Table.from_pylist([*rows], schema=pa.schema(kinds))


def furthest(events: list[dict[str, Any]]) -> dict[int, tuple[int, int, int]]:
    """Return by partition the furthest place that is told."""
    places: dict[int, tuple[int, int, int]] = {}
    for event in events:
        place = 0, event["_cdc_commit_sequence"], event["_cdc_sequence"]
        partition = event["_kafka_partition"]
        places[partition] = max(place, places.get(partition, place))
    return places


@pytest.mark.parametrize("seed", range(100))
def test_of_a_topic_that_was_cut_nothing_right_is_named(seed: int) -> None:
    """Wherever its partitions begin, a mirror that is exact is found so."""
    events, cuts = changes(seed), random.Random(seed)
    table, truncated_below = fold(map(dict, events))
    positions = {p: Position(*place[1:]) for p, place in furthest(events).items()}
    for _ in range(5):
        first = {p: cuts.randint(0, len(events) // PARTITIONS) for p in range(PARTITIONS)}
        left = [event for event in events if event["_kafka_offset"] >= first[event["_kafka_partition"]]]
        rows, cut_below = fold(map(dict, left), truncated_below, is_whole=False)
        again = behind_recorded(furthest(left), Cdc(positions=positions))
        check = SimpleNamespace(
            schema=SimpleNamespace(names=["_kafka_offset", "score", "note"]), kept=frozenset()
        )
        reading: Any = SimpleNamespace(check=check, is_whole=False, outdated=[], first=first, restarts=())
        known = {key: row for key, row in rows.items() if row["_kafka_partition"] not in again}
        judging, compared = _Judging(reading, known, cut_below), len(known)
        for row in judging.judgeable(rows_as_table(table.values())).to_pylist():
            judging.judge(row)
        found = judging.finished()
        assert found.is_clean, found
        assert found.rows == compared

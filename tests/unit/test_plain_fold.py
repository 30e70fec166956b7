"""The fold that audits of mirrors compare with: each rule by an example that is wrong without it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest

from prove.lab.generated_changes import RandomSource
from spark_jobs.audit.plain_fold import OLD_KEY, fold, is_untold

UNTOLD = "__debezium_unavailable_value"


def event(
    op: str,
    key: str,
    sequence: int,
    commit: int | None = 0,
    partition: int = 0,
    *,
    offset: int = 0,
    **row: Any,
) -> dict[str, Any]:
    """Return one event as the plain decoder's columns have it."""
    return {
        "_kafka_partition": partition,
        "_kafka_offset": offset,
        "_cdc_operation": op,
        "_cdc_row_id": key,
        "_cdc_sequence": sequence,
        "_cdc_commit_sequence": commit,
        **row,
    }


def values(
    *events: dict[str, Any],
    cut_below: tuple[int, int] | None = None,
    restarts: Sequence[dict[int, int]] = (),
) -> dict[str, Any]:
    """Return the one value of each row that is left."""
    rows, _ = fold(events, cut_below, restarts)
    return {key: row.get("v") for key, row in rows.items()}


def test_the_last_change_of_a_key_wins_by_its_offset() -> None:
    """Snapshots, inserts and updates alike; a delete takes it away until it comes again."""
    told = [event("r", "a", 5, None, v=1), event("u", "a", 3, None, v=2), event("c", "b", 6, v=3)]
    assert values(*told) == {"a": 2, "b": 3}
    assert values(*told, event("d", "a", 7)) == {"b": 3}
    assert values(*told, event("d", "a", 7), event("c", "a", 8, v=4)) == {"a": 4, "b": 3}


def test_what_is_told_again_says_nothing() -> None:
    """Strictly below the pair of its partition; the pair is compared, never the second half alone."""
    first, row = event("c", "a", 19, 10, v=0), event("u", "a", 20, 10, v=1)
    assert values(first, row, first) == {"a": 1}
    assert values(first, row, first, event("d", "a", 20, 10)) == {}
    assert values(row, event("u", "a", 15, 11, v=2)) == {"a": 2}
    assert values(row, event("u", "b", 19, 10, partition=1, v=2)) == {"a": 1, "b": 2}
    assert values(row, event("u", "a", 5, None, v=2)) == {"a": 2}


def test_what_lies_below_and_was_not_told_before_is_new() -> None:
    """A log that began anew: its insert, update and delete count, twice told or not."""
    known = [event("c", "a", 20, 10, v=1), event("c", "b", 30, 20, v=2)]
    new = [event("c", "c", 11, 5, v=3), event("u", "a", 12, 6, v=4), event("d", "b", 13, 7)]
    assert values(*known, *new) == {"a": 4, "c": 3}
    assert values(*known, *new, *new) == {"a": 4, "c": 3}
    assert values(*known, *known, *new) == {"a": 4, "c": 3}


def test_what_comes_before_an_event_that_was_told_was_told_too() -> None:
    """Of a topic whose beginning is gone; at its end nobody knows, and nothing is said of it."""
    gone, known = event("c", "c", 11, 5, v=3), [event("c", "a", 20, 10, v=1), event("c", "b", 30, 20, v=2)]
    assert values(*known, gone, known[0]) == {"a": 1, "b": 2}
    rows, _ = fold([*known, gone], is_whole=False)
    assert rows.keys() == {"a", "b"}
    rows, _ = fold([*known, gone, event("c", "d", 40, 30)], is_whole=False)
    assert rows.keys() == {"a", "b", "c", "d"}


def test_a_truncate_cuts_by_position_in_all_partitions() -> None:
    """Rows below it go, also such as come later; rows at it or beyond stay."""
    truncate = event("t", "", 50)
    rows = [event("c", "old", 49, partition=1, v=1), event("c", "new", 51, partition=2, v=2)]
    assert values(rows[0], truncate, rows[1]) == {"new": 2}
    assert values(truncate, *rows) == {"new": 2}
    assert fold([truncate])[1] == (0, 50)
    assert values(*rows, cut_below=(0, 50)) == {"new": 2}
    assert values(event("t", "", 60, 5), event("t", "", 50, 4), event("c", "a", 55, 6, v=1)) == {}


def test_positions_count_within_one_identity_of_the_source() -> None:
    """After an accepted restart what lies lower comes later, and a truncate takes all of before."""
    before = [event("c", "a", 90, v="old", offset=0), event("c", "b", 95, partition=1, offset=3, v=1)]
    later = event("u", "a", 40, offset=1, v="new")
    assert values(*before, later, restarts=[{0: 1, 1: 4}]) == {"a": "new", "b": 1}
    emptied = event("t", "", 45, offset=2)
    assert values(*before, later, emptied, restarts=[{0: 1, 1: 4}]) == {}
    after = event("c", "c", 50, partition=1, offset=4, v=2)
    assert values(*before, emptied, after, restarts=[{0: 1, 1: 4}]) == {"c": 2}
    assert values(event("t", "", 99), after, restarts=[{0: 1, 1: 4}]) == {"c": 2}
    untold = event("u", "a", 41, offset=2, v=UNTOLD)
    assert values(*before, later, untold, restarts=[{0: 1, 1: 4}])["a"] == "new"


def test_a_value_that_is_not_told_is_what_the_row_had() -> None:
    """In earlier events of the key, however many; of a changed key in the old one's, read later or not."""
    first, second = event("c", "a", 1, v="long"), event("u", "a", 2, v=UNTOLD)
    assert values(first, second, event("u", "a", 3, v=UNTOLD)) == {"a": "long"}
    moved = event("c", "b", 4, partition=0, v=UNTOLD, **{OLD_KEY: "a"})
    of_old = [{**each, "_kafka_partition": 1} for each in (first, second, event("d", "a", 4))]
    assert values(moved, *of_old) == {"b": "long"}
    later = {**event("c", "a", 9, v="other"), "_kafka_partition": 1}
    assert values(moved, *of_old, later) == {"b": "long", "a": "other"}
    rows, _ = fold([second])
    assert is_untold(rows["a"]["v"])


def test_each_type_has_a_form_that_says_that_it_is_not_told() -> None:
    """As Debezium writes it into text, bytes and lists; nothing else is taken for it."""
    codes = [ord(letter) for letter in UNTOLD]
    days = [date(1970, 1, 1) + timedelta(code) for code in codes]
    for value in (
        UNTOLD,
        UNTOLD.encode(),
        [UNTOLD],
        codes,
        [*map(float, codes)],
        [*map(Decimal, codes)],
        days,
    ):
        assert is_untold(value), value
    for value in (None, "", [], [None], codes[:-1], [float("nan")], 1, {"a": UNTOLD}, [UNTOLD, UNTOLD]):
        assert not is_untold(value), value


@pytest.mark.parametrize("seed", range(30))
def test_what_is_left_is_what_the_source_has(seed: int) -> None:
    """Of a database that is changed at random and told by a connector that is killed."""
    source = RandomSource(seed)
    told = [
        event(
            each.operation,
            "" if each.key is None else str(each.key),
            each.sequence,
            each.commit,
            each.partition(3),
            score=each.score,
            note=each.note,
            **({} if each.old_key is None else {OLD_KEY: str(each.old_key)}),
        )
        for each in source.changes(150)
    ]
    rows, _ = fold(sorted(told, key=lambda each: each["_kafka_partition"]))
    assert {int(key): (row["score"], row["note"]) for key, row in rows.items()} == source.rows

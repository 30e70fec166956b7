"""Which records a change of type still has to read again, and what becomes of those that do not fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.formats.json.block import decode_chunk
from spark_jobs.protocol.kept import KeptColumn, Skip, fallbacks_at, unfinished
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges

KEPT = KeptColumn("id", "_id_was_double", 1, {0: 100, 1: 50}, {0: 0, 1: 20})


def _replayed(kept: KeptColumn, start: int, end: int, *, generation: int = 1) -> dict[int, int]:
    return kept.replayed(generation, OffsetRanges.of([OffsetRange(0, start, end)])).next_offsets


def test_what_kafka_holds_is_left_to_be_read() -> None:
    """From where it stands, or from Kafka's first offset, up to where the table stood; no empty ranges."""
    assert KEPT.left({0: 30, 1: 0}) == (OffsetRange(0, 30, 100), OffsetRange(1, 20, 50))
    assert KEPT.left({0: 100, 1: 60}) == ()
    assert KEPT.left({1: 0}) == (OffsetRange(1, 20, 50),)


@pytest.mark.parametrize(("start", "end", "stands_at"), [(0, 40, 40), (10, 40, 0), (0, 0, 0), (0, 200, 200)])
def test_a_replay_moves_it_on_where_it_leaves_no_hole(start: int, end: int, stands_at: int) -> None:
    """One that begins past the next offset does not: what lies between is still to be done."""
    assert _replayed(KEPT, start, end) == {0: stands_at, 1: 20}


def test_a_replay_of_another_generation_moves_nothing() -> None:
    """Its offsets are those of other records."""
    assert _replayed(KEPT, 0, 40, generation=2) == KEPT.next_offsets


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 60))))
def test_it_is_never_past_what_was_replayed_from_its_start_on(cuts: list[tuple[int, int]]) -> None:
    """Whatever order replays land in, each offset below the next one was in one of them."""
    kept, seen = KEPT, set[int]()
    for start, length in cuts:
        kept = kept.replayed(1, OffsetRanges.of([OffsetRange(0, start, start + length)]))
        seen |= set(range(start, start + length))
    assert set(range(kept.next_offsets[0])) <= seen


def test_records_from_before_the_change_fall_back_for_good() -> None:
    """By partition and generation; also once nothing is left to do, since they may be replayed again."""
    done = replace(KEPT.done(), column="at", kept="_at_was_string")
    assert fallbacks_at([KEPT, done], 1, 0, 99) == {"id": "_id_was_double", "at": "_at_was_string"}
    assert (
        fallbacks_at([KEPT], 1, 0, 100)
        == fallbacks_at([KEPT], 2, 0, 1)
        == fallbacks_at([KEPT], 1, 7, 1)
        == {}
    )
    assert unfinished([done]) is None
    assert unfinished([done, KEPT]) == KEPT


def test_a_record_falls_back_through_every_type_that_its_column_had() -> None:
    """From the newest to the oldest, but to none that the column had only before the record."""
    again = replace(KEPT, kept="_id_was_long", until={0: 200})
    assert fallbacks_at([KEPT, again], 1, 0, 50) == {"id": "_id_was_long", "_id_was_long": "_id_was_double"}
    assert fallbacks_at([KEPT, again], 1, 0, 150) == {"id": "_id_was_long"}


def test_what_was_skipped_is_not_read_again() -> None:
    """An operator passed over it, perhaps since it cannot be read at all."""
    skips = (Skip(1, 0, 40, 60, "broken"), Skip(2, 0, 0, 100, "of another generation"))
    assert KEPT.left({0: 30, 1: 50}, skips) == (OffsetRange(0, 30, 40), OffsetRange(0, 60, 100))


PAIR = pa.struct([("a", pa.float64()), ("b", pa.float64())])


@pytest.mark.parametrize(
    ("before", "now", "text", "held"),
    [
        (pa.int64(), pa.timestamp("us", "UTC"), "1700000000", 1700000000),
        (pa.int64(), pa.string(), "5", 5),
        (pa.string(), pa.int64(), '"5"', "5"),
        (pa.float64(), pa.string(), "7", 7.0),
        (pa.float64(), pa.string(), "9007199254740993", 9007199254740992.0),
        (pa.list_(pa.float64()), pa.string(), "[9007199254740993]", [9007199254740992.0]),
        (
            PAIR,
            pa.struct([("a", pa.int64()), ("b", pa.decimal128(9, 2))]),
            '{"a":9007199254740993,"b":1.234}',
            {"a": 9007199254740992.0, "b": 1.234},
        ),
    ],
)
def test_a_record_that_was_a_row_stays_one(
    before: pa.DataType, now: pa.DataType, text: str, held: Any
) -> None:
    """Null in the column of today, and in the old one what it held, whatever both are."""
    schema = pa.schema([("c", now), ("_c", before)])
    value = f'{{"c":{text}}}'.encode()
    decoded = decode_chunk([value], schema, fallbacks=[{"c": "_c"}], kept={"_c"})
    assert decoded.table.to_pylist() == [{"c": None, "_c": held}]
    (bad,) = decode_chunk([value], schema, fallbacks=[{}], kept={"_c"}).unread
    assert (bad.field or "").startswith("c")


def test_no_record_is_written_into_a_kept_column() -> None:
    """Whoever guesses its name gets a dead letter; saying nothing under it is no harm."""
    schema = pa.schema([("c", pa.int64()), ("_c", pa.float64())])
    values = [b'{"c":1}', b'{"_c":5}', b'{"c":2,"_c":null}']
    decoded = decode_chunk(values, schema, kept={"_c"})
    assert decoded.table.to_pylist() == [{"c": 1, "_c": None}, {"c": 2, "_c": None}]
    assert [(bad.index, bad.field) for bad in decoded.unread] == [(1, "_c")]

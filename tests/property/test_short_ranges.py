"""Records of several partitions in one chunk become what they would become in chunks of their own."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema

from spark_jobs.kafka.chunks import Chunk, joined
from spark_jobs.kafka.reader import MAX_CHUNK_RECORDS, MAX_RECORDS_TOGETHER, bundles
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.records.layouts.flat import FlatDecoder, JsonDecoder
from spark_jobs.records.row_maker import RowMaker
from spark_jobs.records.shape import Origin
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.iceberg_types import dead_letter_schema, with_metadata_columns

COLUMNS = pa.schema(
    [*arrow_schema(with_metadata_columns(Schema())), ("id", pa.int64()), ("_id_was", pa.float64())]
)
VALUES = st.sampled_from([b'{"id":1}', b'{"id":2.5}', b"{}", b"oops", b"", None])
RECORDS = st.lists(st.tuples(VALUES, st.sampled_from([None, b"k", b"\xff"])), min_size=1, max_size=6)


@st.composite
def _chunks(draw: st.DrawFn) -> list[Chunk]:
    made = []
    for partition in draw(st.lists(st.integers(0, 5), min_size=1, max_size=5, unique=True)):
        records = draw(RECORDS)
        count, first = len(records), draw(st.integers(0, 5))
        offsets = [*range(first, first + count)]
        values, keys = [value for value, _ in records], [key for _, key in records]
        made.append(Chunk(partition, offsets, [*range(count)], keys, values, [None] * count))
    return made


@given(_chunks(), st.dictionaries(st.integers(0, 5), st.dictionaries(st.integers(0, 5), st.just("rejected"))))
def test_what_shares_a_chunk_becomes_what_it_would_alone(
    chunks: list[Chunk], rejected: dict[int, dict[int, str]]
) -> None:
    """Rows, dead letters, balances by partition and evidence, with gates and columns that were retyped."""
    letters = arrow_schema(dead_letter_schema())
    maker = RowMaker(
        FlatDecoder(JsonDecoder()),
        Origin("t", 1, 0),
        "batch",
        COLUMNS,
        letters,
        rejected,
        kept=frozenset({"_id_was"}),
    )
    (together,) = joined(chunks, 100)
    one, each = maker.make(together), [maker.make(chunk) for chunk in chunks]
    assert one.rows.to_pylist() == [row for made in each for row in made.rows.to_pylist()]
    assert one.dead_letters.to_pylist() == [row for made in each for row in made.dead_letters.to_pylist()]
    assert one.balances == {partition: b for made in each for partition, b in made.balances.items()}
    evidence = Evidence()
    for chunk in chunks:
        evidence = evidence.merge(JsonDecoder().observe(chunk))
    assert JsonDecoder().observe(together) == evidence


@given(_chunks(), st.integers(1, 12), st.data())
def test_a_shared_chunk_comes_apart_again(chunks: list[Chunk], most: int, data: st.DataObject) -> None:
    """By partition, in order; a selection keeps each record's partition."""
    shared = [*joined(chunks, most)]
    assert [part for chunk in shared for part in chunk.parts()] == chunks
    assert all(len(chunk.offsets) <= most or not chunk.runs for chunk in shared)
    (whole,) = joined(chunks, 100)
    places = [*zip(whole.partitions, whole.offsets, strict=True)]
    picked = sorted(data.draw(st.sets(st.integers(0, len(places) - 1))))
    taken = whole.take(picked)
    assert [*zip(taken.partitions, taken.offsets, strict=True)] == [places[index] for index in picked]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from([1, 3, MAX_CHUNK_RECORDS, MAX_CHUNK_RECORDS + 1])))
)
def test_short_ranges_beside_each_other_are_one_bundle(sizes: list[tuple[int, int]]) -> None:
    """None is lost or moved; a bundle has each partition once, and never more than may be held."""
    ranges = [OffsetRange(partition, 5, 5 + size) for partition, size in sizes]
    made = [*bundles(ranges)]
    assert [each for bundle in made for each in bundle] == ranges
    for bundle in made:
        assert max(Counter(each.partition for each in bundle).values()) == 1
        is_short = all(len(each) <= MAX_CHUNK_RECORDS for each in bundle)
        assert len(bundle) == 1 or (is_short and sum(map(len, bundle)) <= MAX_RECORDS_TOGETHER)
    assert len([*bundles(OffsetRange(p, 0, 2) for p in range(512))]) == 1

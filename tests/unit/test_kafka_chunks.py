"""Chunks stay within both bounds whatever the messages' sizes do."""

from __future__ import annotations

from confluent_kafka import Message

from spark_jobs.kafka.chunks import FIRST_SLICE_RECORDS, MAX_SLICE_RECORDS, Chunk, ChunkBuilder


def _messages(sizes: list[int], start: int = 0) -> tuple[list[Message], list[int]]:
    offsets = list(range(start, start + len(sizes)))
    made = [
        Message(topic="t", partition=3, offset=o, value=b"v" * s) for o, s in zip(offsets, sizes, strict=True)
    ]
    return made, offsets


def _cut(builder: ChunkBuilder, sizes: list[int]) -> list[Chunk]:
    return [*builder.add(*_messages(sizes)), *builder.finish()]


def test_a_chunk_is_bounded_in_records() -> None:
    """More messages than fit are spread over chunks, in order."""
    chunks = _cut(ChunkBuilder(3, max_records=4, max_bytes=1000), [1] * 10)
    assert [c.offsets for c in chunks] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert {c.partition for c in chunks} == {3}


def test_a_chunk_is_bounded_in_bytes_when_messages_grow() -> None:
    """A message above the bound is a chunk alone."""
    chunks = _cut(ChunkBuilder(3, max_records=100, max_bytes=10), [4, 4, 4, 50, 1, 1])
    assert [c.offsets for c in chunks] == [[0, 1], [2], [3], [4, 5]]
    assert [c.record_bytes for c in chunks] == [8, 4, 50, 2]


def test_keys_and_headers_weigh_as_much_as_values() -> None:
    """Records that are all key or all header are bounded like any others."""
    keyed = [Message(topic="t", partition=3, offset=0, value=None, key=b"k" * 6)]
    headed = [
        Message(topic="t", partition=3, offset=1, value=None, headers=[("name", b"v" * 4), ("x", None)])
    ]
    builder = ChunkBuilder(3, max_records=100, max_bytes=10)
    chunks = [*builder.add(keyed, [0]), *builder.add(headed, [1]), *builder.finish()]
    assert [c.offsets for c in chunks] == [[0], [1]]
    assert [c.record_bytes for c in chunks] == [6, 9]


def test_the_next_call_asks_for_what_fits() -> None:
    """The first call is careful, later ones follow the size of the last messages."""
    builder = ChunkBuilder(0, max_records=10_000, max_bytes=1_000_000)
    assert builder.room <= FIRST_SLICE_RECORDS
    assert list(builder.add(*_messages([100] * 50))) == []
    assert builder.room == MAX_SLICE_RECORDS
    assert list(builder.add(*_messages([400_000], start=50))) == []
    assert builder.room == 1


def test_take_keeps_the_columns_together() -> None:
    """Chosen positions of every column, in the order given; null values weigh nothing."""
    chunk = Chunk(
        1, [5, 6, 7], [10, 11, -1], [b"a", None, b"c"], [b"xx", None, b"z"], [None, [("h", None)], None]
    )
    taken = chunk.take([1, 2])
    assert taken == Chunk(1, [6, 7], [11, -1], [None, b"c"], [None, b"z"], [[("h", None)], None])
    assert taken.record_bytes == 3


def test_offsets_that_follow_one_another_stay_together() -> None:
    """Parts are cut where offsets are missing, and nowhere else."""
    offsets = [3, 4, 7, 9, 10]
    chunk = Chunk(
        2,
        offsets,
        [each * 10 for each in offsets],
        [None] * 5,
        [b"%d" % each for each in offsets],
        [None] * 5,
    )
    parts = [*chunk.without_gaps()]
    assert [part.offsets for part in parts] == [[3, 4], [7], [9, 10]]
    assert [value for part in parts for value in part.values] == chunk.values
    assert [part.offsets for part in parts[0].without_gaps()] == [[3, 4]]

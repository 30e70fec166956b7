"""Records on which two processes died are suspected, and no others, whatever the file has gone through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from spark_jobs.hot.decoding_notes import DecodingNotes
from spark_jobs.hot.watermark import Epoch
from spark_jobs.protocol.offsets import OffsetRange

EPOCH = Epoch("table", "topic", 1, 0)


@contextmanager
def process(folder: Path) -> Iterator[DecodingNotes]:
    """One that has the file until it ends."""
    notes = DecodingNotes(folder, "orders")
    yield notes
    notes.close()


def dies(folder: Path, notes: DecodingNotes, *ranges: OffsetRange) -> None:
    """End in the middle of decoding: what is noted stays."""
    file = folder / "orders.0"
    with notes.decoding(EPOCH, ranges):
        noted = file.read_bytes()
    notes.close()
    file.write_bytes(noted)


def run(folder: Path, poison: int, chunks: Sequence[OffsetRange]) -> bool:
    """Decode as a follower does, one after the other; True if it died."""
    with process(folder) as notes:
        deadly = notes.deadly(EPOCH, {})
        for chunk in chunks:
            if (stop := deadly.get(chunk.partition)) and chunk.end > stop.start:
                return False
            if chunk.start <= poison < chunk.end:
                dies(folder, notes, chunk)
                return True
            with notes.decoding(EPOCH, [chunk]):
                pass
    return False


def test_two_deaths_are_enough_wherever_records_are_cut(tmp_path: Path) -> None:
    """Each process gets them in other chunks; those before the record clear no more than themselves."""
    cuts = [[0, 100], [0, 50, 150], [0, 30, 90, 150], [0, 60, 200]]
    died = [run(tmp_path, 70, [OffsetRange(0, *pair) for pair in pairwise(cut)]) for cut in cuts]
    assert died == [True, True, False, False]


def test_what_was_not_being_decoded_is_not_blamed(tmp_path: Path) -> None:
    """Neither what shared a chunk with the record at first, nor anything where a process died idle."""
    with process(tmp_path) as notes:
        dies(tmp_path, notes, OffsetRange(0, 0, 10), OffsetRange(1, 0, 10))
    with process(tmp_path) as notes:
        dies(tmp_path, notes, OffsetRange(0, 0, 10))
    with process(tmp_path) as notes:
        assert notes.deadly(EPOCH, {}).keys() == {0}
        with notes.decoding(EPOCH, [OffsetRange(2, 0, 10)]):
            pass
    with process(tmp_path) as notes:
        assert notes.deadly(EPOCH, {}).keys() == {0}


@pytest.mark.parametrize("left", [b"[]]", b'[{"topic_id": "t"', b"\xff", b'[{"another": 1}]', b"7"])
def test_a_file_that_cannot_be_read_blames_nobody(tmp_path: Path, left: bytes) -> None:
    """As where a process was killed while it wrote, or the disk was full."""
    (tmp_path / "orders.0").write_bytes(left)
    with process(tmp_path) as notes:
        assert not notes.has_suspects
        with notes.decoding(EPOCH, [OffsetRange(0, 0, 10)]):
            assert (tmp_path / "orders.0").read_bytes().startswith(b"[{")
    assert (tmp_path / "orders.0").read_bytes() == b""


def test_of_two_deadly_places_in_a_partition_the_first_is_where_it_stops(tmp_path: Path) -> None:
    """To stop at the second would decode what killed two processes once more."""
    for poison in (10, 90):
        for _ in range(2):
            with process(tmp_path) as notes:
                dies(tmp_path, notes, OffsetRange(0, poison, poison + 5))
    with process(tmp_path) as notes:
        assert notes.deadly(EPOCH, {}) == {0: OffsetRange(0, 10, 15)}
        assert notes.deadly(EPOCH, {0: 15}) == {0: OffsetRange(0, 90, 95)}

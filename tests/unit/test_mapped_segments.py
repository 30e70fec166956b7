"""Hot segments as files: written once, mapped and not copied, gone with the last who holds them."""

from __future__ import annotations

import gc
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.hot import mapped as mapped_module
from spark_jobs.hot.mapped import Maps, places
from spark_jobs.hot.segment import SMALL_ROWS, Segment
from spark_jobs.hot.watermark import Epoch
from spark_jobs.schema.iceberg_types import OFFSET

if TYPE_CHECKING:
    import pytest

EPOCH = Epoch("t", "t", 1, 0)


def segment(start: int, rows: int, partition: int = 0) -> Segment:
    """One of so many rows and a dead letter, with texts of its own."""
    offsets = pa.array(range(start, start + rows), pa.int64())
    table = pa.table({OFFSET: offsets, "text": [f"text of {n}" for n in range(start, start + rows)]})
    letters = pa.table({OFFSET: pa.array([start + rows], pa.int64())})
    return Segment(EPOCH, partition, start, start + rows + 1, table, letters)


def mapped(segments: list[Segment], folder: Path, maps: Maps | None = None) -> list[Segment]:
    """What another process has of them."""
    sent = pickle.loads(pickle.dumps(places(segments, folder)))  # noqa: S301  (ours)
    return (maps or Maps()).segments(
        [(each.partition, at) for each, at in zip(segments, sent, strict=True)], EPOCH
    )


def test_another_process_has_the_same_rows(tmp_path: Path) -> None:
    """Of small and large segments, of parts of them, of those without a row, each with its own offsets."""
    whole = [segment(0, 10), segment(11, SMALL_ROWS + 1), segment(0, 0, 1), segment(5, 3, 2)]
    asked = [whole[0].between(4, 7), *whole[1:]]
    expected = [
        (each.rows.to_pydict(), each.dead_letters.to_pydict(), each.start, each.end) for each in asked
    ]
    for found in (mapped(asked, tmp_path), asked):
        told = [
            (each.rows.to_pydict(), each.dead_letters.to_pydict(), each.start, each.end) for each in found
        ]
        assert told == expected
    assert [each.partition for each in mapped(asked, tmp_path)] == [0, 0, 1, 2]


def test_a_segment_is_written_once_and_in_memory_once(tmp_path: Path) -> None:
    """However often it is asked for, also by parts; who wrote it and who asks have no copy of it."""
    whole = [segment(0, 10), segment(11, 20), segment(32, SMALL_ROWS + 1)]
    before = pa.total_allocated_bytes()
    for _ in range(3):
        places([each.between(each.start + 2, each.end) for each in whole], tmp_path)
    files = {each.name for each in tmp_path.iterdir()}
    assert len(files) == 2  # small ones lie together
    gc.collect()
    assert pa.total_allocated_bytes() < before - whole[2].size_bytes // 2
    held, maps = pa.total_allocated_bytes(), Maps()
    others = mapped(whole, tmp_path, maps)
    assert others[2].rows == whole[2].rows
    assert pa.total_allocated_bytes() - held < 10_000
    assert mapped(whole, tmp_path, maps)[2] is others[2]
    assert {each.name for each in tmp_path.iterdir()} == files


def test_two_who_ask_at_once_have_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is given a file that the other one's replaces."""
    whole, write = [segment(0, 10)], mapped_module._write
    monkeypatch.setattr(mapped_module, "_write", lambda *of: (time.sleep(0.05), write(*of)))
    with ThreadPoolExecutor(2) as pool:
        found = [at for (at,) in pool.map(lambda _: places(whole, tmp_path), range(2))]
    assert found[0] == found[1]
    assert Path(found[0].path).exists()


def test_a_file_that_was_tidied_up_is_written_again(tmp_path: Path) -> None:
    """By who maps it still, however it went."""
    whole = [segment(0, 10)]
    places(whole, tmp_path)
    for file in tmp_path.iterdir():
        file.unlink()
    assert mapped(whole, tmp_path)[0].rows == segment(0, 10).rows


def test_a_file_goes_with_the_last_segment_in_it(tmp_path: Path) -> None:
    """Not while a part of one is held; what another has mapped stays good, and is let go of by itself."""
    first, second, maps = segment(0, 10), segment(11, 20), Maps()
    others = mapped([first, second], tmp_path, maps)
    part = first.between(3, 5)
    del first, second
    assert len([*tmp_path.iterdir()]) == 1
    del part
    assert not [*tmp_path.iterdir()]
    assert others[1].rows.column("text")[0].as_py() == "text of 11"
    assert not maps.segments([], EPOCH)
    assert not maps._kept

"""Notes on disk of the records being decoded, so that the next process knows which ones killed this one.

A record that crashes the decoder (a segmentation fault, memory) ends the whole process, and the next one too.
After two deaths, a third process stops before those records until the table has passed them: a drain decodes
them in tasks and names the faulty one.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from io import FileIO
from itertools import count
from pathlib import Path

from spark_jobs.hot.watermark import Epoch
from spark_jobs.protocol.offsets import OffsetRange

_DEATHS = 2


@dataclass(frozen=True, slots=True)
class _Note:
    """Records ``start <= offset < end``, and the number of deaths over them if this process dies now."""

    topic_id: str
    partition: int
    start: int
    end: int
    deaths: int = 0


class DecodingNotes:
    """The notes of one pipeline: a file for each process; a new process takes over the file of a dead one."""

    def __init__(self, folder: Path, pipeline: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = _first_free(folder / pipeline)
        self._died = _read(self._file.read())

    def close(self) -> None:
        """Release the file for the next process."""
        self._file.close()

    @property
    def has_suspects(self) -> bool:
        """True while a process has died over records that the table has not passed."""
        return bool(self._died)

    def deadly(self, epoch: Epoch, seams: Mapping[int, int]) -> dict[int, OffsetRange]:
        """Return the records not to decode, by partition; notes below ``seams`` are dropped."""
        self._died = [
            each
            for each in self._died
            if each.topic_id == epoch.topic_id and each.end > seams.get(each.partition, 0)
        ]
        found = (each for each in self._died if each.deaths >= _DEATHS)
        # Of several in a partition the first is where it stops.
        latest_first = sorted(found, key=lambda each: -each.start)
        return {each.partition: OffsetRange(each.partition, each.start, each.end) for each in latest_first}

    @contextmanager
    def decoding(self, epoch: Epoch, ranges: Iterable[OffsetRange]) -> Iterator[None]:
        """Note the ranges while the block runs; an exception does not count as a death."""
        now = [self._note_of(epoch, each) for each in ranges]
        # Another process gets the records in other chunks: what is behind these is suspected as before.
        standing = [left for each in self._died for left in _behind(each, now)]
        self._write([*standing, *now])
        left = self._died
        try:
            yield
            left = standing
        finally:
            self._died = left
            self._write(left)

    def _note_of(self, epoch: Epoch, now: OffsetRange) -> _Note:
        mine = _Note(epoch.topic_id, now.partition, now.start, now.end)
        deaths = max((each.deaths for each in self._died if _meet(each, mine)), default=0)
        return replace(mine, deaths=deaths + 1)

    def _write(self, notes: list[_Note]) -> None:
        # Not synced: it is to survive the process, and a machine that stops kills no decoder.
        data = json.dumps([asdict(each) for each in notes]).encode() if notes else b""
        with suppress(OSError):  # a full disk must not stop following
            self._file.seek(0)
            self._file.write(data)
            self._file.truncate()


def _read(data: bytes) -> list[_Note]:
    """Return the notes; empty if a process was killed while writing them."""
    try:
        return [_Note(**each) for each in json.loads(data or b"[]")]
    except (ValueError, TypeError):
        return []


def _behind(suspected: _Note, now: Iterable[_Note]) -> Iterator[_Note]:
    """Yield the rest of a suspected range after the decoded ranges."""
    start = max((each.end for each in now if _meet(suspected, each)), default=suspected.start)
    if start < suspected.end:
        yield replace(suspected, start=start)


def _meet(one: _Note, other: _Note) -> bool:
    is_same = (one.topic_id, one.partition) == (other.topic_id, other.partition)
    return is_same and one.start < other.end and other.start < one.end


def _first_free(path: Path) -> FileIO:
    """Open the first of the pipeline's files that is not locked by a living process."""
    for number in count():
        file = FileIO(os.open(f"{path}.{number}", os.O_RDWR | os.O_CREAT, 0o600), "r+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            continue
        return file
    raise AssertionError("numbers have no end")

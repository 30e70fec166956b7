"""What is being decoded, on disk: so that the next process knows on which records its forerunner died.

A decoder that is killed by a record (a segmentation fault, memory) takes the whole process with it, and the
next one too. Where two have died a third stands still, until the table has passed those records: a drain
decodes them in tasks, and names the one to blame.
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
class _Noted:
    """Records ``start <= offset < end``, and how many processes died over them, should this one die now."""

    topic_id: str
    partition: int
    start: int
    end: int
    deaths: int = 0


class DecodingNotes:
    """One pipeline's, in a file of its own for each process; the next one takes a dead one's over."""

    def __init__(self, folder: Path, pipeline: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = _first_free(folder / pipeline)
        self._died = _read(self._file.read())

    def close(self) -> None:
        """Let the next process have the file; once is enough."""
        self._file.close()

    @property
    def someone_died(self) -> bool:
        """True while records are suspected."""
        return bool(self._died)

    def deadly(self, epoch: Epoch, seams: Mapping[int, int]) -> dict[int, OffsetRange]:
        """Return by partition which records are not to be decoded; those below ``seams`` are forgotten."""
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
        """Note these while the block runs; what raises has not died."""
        now = [self._noted(epoch, each) for each in ranges]
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

    def _noted(self, epoch: Epoch, now: OffsetRange) -> _Noted:
        mine = _Noted(epoch.topic_id, now.partition, now.start, now.end)
        deaths = max((each.deaths for each in self._died if _meet(each, mine)), default=0)
        return replace(mine, deaths=deaths + 1)

    def _write(self, noted: list[_Noted]) -> None:
        # Not synced: it is to survive the process, and a machine that stops kills no decoder.
        told = json.dumps([asdict(each) for each in noted]).encode() if noted else b""
        with suppress(OSError):  # a full disk is no reason to follow nothing
            self._file.seek(0)
            self._file.write(told)
            self._file.truncate()


def _read(told: bytes) -> list[_Noted]:
    """Return what was noted; nothing where a process was killed while it wrote."""
    try:
        return [_Noted(**each) for each in json.loads(told or b"[]")]
    except (ValueError, TypeError):
        return []


def _behind(suspected: _Noted, now: Iterable[_Noted]) -> Iterator[_Noted]:
    """Return what is suspected still once these are decoded."""
    start = max((each.end for each in now if _meet(suspected, each)), default=suspected.start)
    if start < suspected.end:
        yield replace(suspected, start=start)


def _meet(one: _Noted, other: _Noted) -> bool:
    is_same = (one.topic_id, one.partition) == (other.topic_id, other.partition)
    return is_same and one.start < other.end and other.start < one.end


def _first_free(path: Path) -> FileIO:
    """Open the first of the pipeline's files that no living process has."""
    for number in count():
        file = FileIO(os.open(f"{path}.{number}", os.O_RDWR | os.O_CREAT, 0o600), "r+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            continue
        return file
    raise AssertionError("numbers have no end")

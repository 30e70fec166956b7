"""Segments as files that other processes map: written when an answer first needs them, and never copied.

The writer maps the file too and frees its own copy, so the bytes are in memory once for all processes. A file
is deleted with the last segment in it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from spark_jobs.hot.segment import SMALL_ROWS, Segment
from spark_jobs.hot.watermark import Epoch

_ALIGNED = 64
_numbers = count(1)
_lock = threading.Lock()  # what one query has written is the next one's as well


class Span(NamedTuple):
    """The position of a table in its file."""

    first: int
    size: int


class Place(NamedTuple):
    """The location of a segment for another process, and the requested part of it."""

    path: str
    rows: Span
    dead_letters: Span
    offsets: tuple[int, int]
    part: tuple[int, int]


class _File:
    """A file that exists while this object is referenced."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"segments-{next(_numbers)}"
        weakref.finalize(self, self.path.unlink, missing_ok=True)


def places(segments: Sequence[Segment], folder: Path) -> list[Place]:
    """Return the place of each segment, after writing new ones; valid while the segments are referenced."""
    whole = [each.whole for each in segments]
    with _lock:
        new = [each for each in {id(each): each for each in whole}.values() if not _is_written(each)]
        _write([each for each in new if each.records <= SMALL_ROWS], folder)  # which are merged soon
        for each in new:
            if each.records > SMALL_ROWS:
                _write([each], folder)
    return [_place(each, of) for each, of in zip(segments, whole, strict=True)]


def _is_written(segment: Segment) -> bool:
    """True if the segment's file still exists; a cleanup of temporary files may have deleted it."""
    return segment.mapped is not None and Path(segment.mapped[0]).exists()


class Maps:
    """The segments of another process that this one has mapped, kept from one answer to the next."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, Span], Segment] = {}

    def segments(self, asked: Iterable[tuple[int, Place]], epoch: Epoch) -> list[Segment]:
        """Return the segments at the places, one partition each, and unmap all others."""
        kept: dict[tuple[str, Span], Segment] = {}
        found = []
        for partition, place in asked:
            key = place.path, place.rows
            kept[key] = self._kept.get(key) or _mapped(partition, place, epoch)
            found.append(kept[key].between(*place.part))
        self._kept = kept
        return found

    def clear(self) -> None:
        """Unmap all segments."""
        self._kept = {}


def _write(segments: Sequence[Segment], folder: Path) -> None:
    if not segments:
        return
    file = _File(folder)
    with pa.OSFile(str(file.path), "wb") as sink:
        spans = [(_written(sink, each.rows), _written(sink, each.dead_letters)) for each in segments]
    for each, (rows, letters) in zip(segments, spans, strict=True):
        own = _table_at(file.path, rows), _table_at(file.path, letters)
        each.lie_in((str(file.path), rows, letters, file), *own)


def _written(sink: pa.NativeFile, table: pa.Table) -> Span:
    sink.write(bytes(-sink.tell() % _ALIGNED))
    first = sink.tell()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return Span(first, sink.tell() - first)


def _place(part: Segment, whole: Segment) -> Place:
    if whole.mapped is None:
        raise AssertionError("every segment was written")
    path, rows, letters, _ = whole.mapped
    return Place(path, rows, letters, (whole.start, whole.end), (part.start, part.end))


def _mapped(partition: int, place: Place, epoch: Epoch) -> Segment:
    tables = (_table_at(Path(place.path), span) for span in (place.rows, place.dead_letters))
    return Segment(epoch, partition, *place.offsets, *tables)


def _table_at(path: Path, span: Span) -> pa.Table:
    with pa.memory_map(str(path)) as file:
        file.seek(span.first)
        return pa.ipc.open_stream(file.read_buffer(span.size)).read_all()

"""Parts of a table's progress that describe how its rows were written. Pure.

Offsets left out, columns replaced, dead letters taken out, and by which configuration rows were made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from itertools import pairwise
from typing import TypeAlias

from spark_jobs.protocol.offsets import OffsetRange, gaps
from spark_jobs.protocol.texts import stored_as

# Columns that others took the place of, and what they still hold.


@dataclass(frozen=True, slots=True)
class KeptColumn:
    """The old column behind ``column`` after a change of type, now named ``kept``.

    It has what did not fit the new type of rows from before, which are null in ``column``. ``generation``,
    ``until`` and ``next_offsets`` are of versions that read records again by them, and need them to be there.
    """

    column: str
    kept: str
    generation: int
    until: dict[int, int] = field(default_factory=dict)
    next_offsets: dict[int, int] = field(default_factory=dict)
    is_done: bool = False

    def reopen(self) -> KeptColumn:
        """Return the column with its change of type unfinished again, after a rollback to rows before it."""
        return replace(self, is_done=False)

    def finish(self) -> KeptColumn:
        """Return the column with its change of type finished."""
        return replace(self, is_done=True)


def old_column_names(kept: Iterable[KeptColumn]) -> frozenset[str]:
    """Return the names of old columns: no record is decoded into them or compared with them."""
    return frozenset(each.kept for each in kept)


def unfinished(kept: Iterable[KeptColumn]) -> KeptColumn | None:
    """Return the column whose change of type is unfinished."""
    return next((each for each in kept if not each.is_done), None)


# Offsets an operator left out: kept with the table's progress, never taken for missing.


@stored_as(tuple[int, int, int, int, str], write=astuple, read=lambda stored: Skip(*stored))
@dataclass(frozen=True, slots=True)
class Skip:
    """Offsets ``start <= offset < end`` of one partition in one generation, and why they are skipped."""

    generation: int
    partition: int
    start: int
    end: int
    reason: str


def with_skipped(
    skips: Iterable[Skip], generation: int, ranges: Iterable[OffsetRange], reason: str
) -> tuple[Skip, ...]:
    """Return the skips with these ranges; adjacent ones with the same reason are merged."""
    joined = list(skips)
    for r in ranges:
        before = joined[-1] if joined else None
        same = before and (before.generation, before.partition, before.reason) == (
            generation,
            r.partition,
            reason,
        )
        if before and same and before.end == r.start:
            joined[-1] = Skip(generation, r.partition, before.start, r.end, reason)
        elif len(r):
            joined.append(Skip(generation, r.partition, r.start, r.end, reason))
    return tuple(joined)


def skips_below(skips: Iterable[Skip], generation: int, next_offsets: Mapping[int, int]) -> tuple[Skip, ...]:
    """Return the skips that remain when a generation is set back to ``next_offsets``."""
    kept: list[Skip] = []
    for skip in skips:
        limit = next_offsets.get(skip.partition, 0) if skip.generation == generation else skip.end
        end = min(skip.end, limit)
        if end > skip.start:
            kept.append(Skip(skip.generation, skip.partition, skip.start, end, skip.reason))
    return tuple(kept)


def skipped_ranges(skips: Iterable[Skip], generation: int, partition: int) -> tuple[OffsetRange, ...]:
    """Return the skipped ranges of one partition in one generation."""
    return tuple(
        OffsetRange(skip.partition, skip.start, skip.end)
        for skip in skips
        if (skip.generation, skip.partition) == (generation, partition)
    )


def cut_at_skips(whole: OffsetRange, skipped: Iterable[OffsetRange]) -> Iterator[tuple[OffsetRange, bool]]:
    """Yield ``whole`` in order, in pieces that are fully skipped or not skipped, with a flag."""
    drained = gaps(whole, skipped)
    pieces = [(r, False) for r in drained] + [(r, True) for r in gaps(whole, drained)]
    yield from sorted(pieces)


# The dead letters that a commit takes out of their table or puts back, kept whole in a file.


@dataclass(frozen=True, slots=True)
class SavedDeadLetters:
    """A file under ``state:`` with ``letters`` dead letters; its ``name`` contains the content's digest."""

    name: str
    letters: int

    @property
    def digest(self) -> str:
        """Return the first hex digits of the content's SHA-256."""
        return self.name.removesuffix(".parquet").rpartition("-")[2]


# By which configuration a table's rows were made: digests of it by where records stand.
#
# A shape is the digest of what decides what a record becomes, see ``connections/connect.py``; it says of
# itself whether a record may have no row by it. Of a span without one, and before the first, nobody knows.


UNKNOWN = ""
LEAVES_OUT = "leaves-out:"
# Beyond it the oldest spans become one of which nobody knows: every commit writes them all.
MAX_BYTES = 64 * 1024
# Records that were shaped by one or another, some of which may leave records out; no digest is this.
SEVERAL = LEAVES_OUT + "several"
MOST_NAMED = 500


@stored_as(
    tuple[str, dict[int, int]],
    write=lambda span: (span.shape, span.starts),
    read=lambda stored: ShapedSpan(*stored),
)
@dataclass(frozen=True, slots=True)
class ShapedSpan:
    """The configuration that shaped records from these offsets on, until a later span begins."""

    shape: str
    starts: dict[int, int]


ShapedSpans: TypeAlias = tuple[ShapedSpan, ...]
# By partition: where each shape begins, ascending, neighbours different.
_Runs: TypeAlias = dict[int, list[tuple[int, str]]]


def is_outdated(shape: str, today: str) -> bool:
    """True if rows are known to be written by another configuration than today's."""
    return shape.removeprefix(LEAVES_OUT) != UNKNOWN and shape != today


def may_leave_out(shape: str, today: str) -> bool:
    """True if a record may have no row because of another configuration than today's."""
    return shape.startswith(LEAVES_OUT) and shape != today


def shapes_after_drain(spans: ShapedSpans, shape: str, starts: Mapping[int, int]) -> ShapedSpans:
    """Return the spans with a batch that begins at these offsets, behind all others."""
    runs = _runs_of(spans)
    for partition, start in starts.items():
        runs[partition] = _joined([*(each for each in runs[partition] if each[0] < start), (start, shape)])
    return _bounded(_spans_of(runs))


def shapes_after_replay(spans: ShapedSpans, shape: str, ranges: Iterable[OffsetRange]) -> ShapedSpans:
    """Return the spans with these ranges shaped again; later records stay unchanged."""
    runs = _runs_of(spans)
    for r in ranges:
        there = runs[r.partition]
        behind = next((kind for at, kind in reversed(there) if at <= r.end), UNKNOWN)
        before = [each for each in there if each[0] < r.start]
        rest = [each for each in there if each[0] > r.end]
        runs[r.partition] = _joined([*before, (r.start, shape), (r.end, behind), *rest])
    return _bounded(_spans_of(runs))


def shapes_after_redrive(
    spans: ShapedSpans, shape: str, coordinates: Iterable[OffsetRange] | None, hull: Iterable[OffsetRange]
) -> ShapedSpans:
    """Return the spans with the records at these coordinates shaped again.

    None are too many to name each (``MOST_NAMED``): then what another configuration shaped in their ``hull``,
    from the first to the last of a partition, counts as made by several; what is not as today's makes it is
    outdated there.
    """
    if coordinates is not None:
        return shapes_after_replay(spans, shape, coordinates)
    others = [piece for r in hull for piece, held in cut_at_shapes(r, spans) if held != shape]
    return shapes_after_replay(spans, SEVERAL, others)


def shapes_after_rollback(spans: ShapedSpans, next_offsets: Mapping[int, int]) -> ShapedSpans:
    """Return the spans of a table that was rolled back to these offsets."""
    runs = _runs_of(spans)
    return _spans_of({p: [each for each in runs[p] if each[0] < next_offsets.get(p, 0)] for p in runs})


def cut_at_shapes(whole: OffsetRange, spans: ShapedSpans) -> Iterator[tuple[OffsetRange, str]]:
    """Yield ``whole`` in order, in pieces of one shape each, with the shape."""
    runs = [(span.starts[whole.partition], span.shape) for span in spans if whole.partition in span.starts]
    begins = [whole.start, *(at for at, _ in runs if whole.start < at < whole.end), whole.end]
    for start, end in pairwise(begins):
        shape = next((kind for at, kind in reversed(runs) if at <= start), UNKNOWN)
        yield OffsetRange(whole.partition, start, end), shape


def _runs_of(spans: ShapedSpans) -> _Runs:
    runs: _Runs = defaultdict(list)
    for span in spans:
        for partition, start in span.starts.items():
            runs[partition].append((start, span.shape))
    return runs


def _joined(runs: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    shapes = [UNKNOWN, *(shape for _, shape in runs)]
    return [run for run, before in zip(runs, shapes, strict=False) if run[1] != before]


def _spans_of(runs: Mapping[int, Sequence[tuple[int, str]]]) -> ShapedSpans:
    """Return the runs as spans; runs of one shape are merged where their order allows."""
    waiting = {partition: list(own) for partition, own in sorted(runs.items()) if own}
    spans = []
    while waiting:
        shape = next(iter(waiting.values()))[0][1]
        starts = {p: own.pop(0)[0] for p, own in waiting.items() if own[0][1] == shape}
        spans.append(ShapedSpan(shape, starts))
        waiting = {p: own for p, own in waiting.items() if own}
    return tuple(spans)


def _bounded(spans: ShapedSpans) -> ShapedSpans:
    while len(spans) > 1 and sum(map(_size, spans)) > MAX_BYTES:
        first, second, *rest = spans
        may_lack = any(each.shape.startswith(LEAVES_OUT) for each in (first, second))
        shape = LEAVES_OUT + UNKNOWN if may_lack else UNKNOWN
        spans = (ShapedSpan(shape, {**second.starts, **first.starts}), *rest)
    return spans


def _size(span: ShapedSpan) -> int:
    return len(span.shape) + sum(len(f'"{partition}":{start},') for partition, start in span.starts.items())

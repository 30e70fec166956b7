"""The names of the log's objects: the phase or mark each stands for, and what a listing alone tells. Pure.

What is settled, finished or reached is known from names alone: a log of many attempts is judged without
reading it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum


class Phase(StrEnum):
    """What an object of the log says; the first six in the order in which an attempt reaches them."""

    OFFSET_COMMIT = "OffsetCommit"
    BUFFER_SNAPSHOT = "BufferSnapshot"
    FLUSH_START = "FlushStart"
    PARQUET_WRITTEN = "ParquetWritten"
    ICEBERG_SNAPSHOT_CREATED = "IcebergSnapshotCreated"
    FLUSH_COMPLETE = "FlushComplete"
    SWEPT = "Swept"
    CLOSED = "Closed"
    HELD = "Held"
    NOTIFIED = "Notified"
    PUBLISHED = "Published"

    @property
    def kebab(self) -> str:
        """The name in lower case with hyphens, as fail points spell it."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", self.value).lower()


_BY_WORD = {phase.value: phase for phase in Phase}
PHASE_NUMBERS = {phase: number for number, phase in enumerate(tuple(Phase)[:6], start=1)}
# A mark's number also says which phase the attempt had reached when it was set: a phase beyond it was
# logged by an attempt that woke up after its files had been swept.
MARK_BASES = {Phase.SWEPT: 10, Phase.CLOSED: 20, Phase.HELD: 30, Phase.NOTIFIED: 40, Phase.PUBLISHED: 50}


def object_name(phase: Phase, reached: int) -> str:
    """Return ``<n>-<phase>.json``; ``reached`` is the attempt's furthest phase and matters to marks only."""
    base = MARK_BASES.get(phase)
    number = PHASE_NUMBERS[phase] if base is None else base + reached
    return f"{number}-{phase}.json"


def phase_of(name: str) -> tuple[int, Phase] | None:
    """Number and phase of an object's name; None for a name this version does not write."""
    number, _, rest = name.partition("-")
    word, ending, more = rest.partition(".json")
    phase = _BY_WORD.get(word)
    if not number.isdigit() or phase is None or more or not ending:
        return None
    return int(number), phase


def reached_phase(names: Iterable[str]) -> int:
    """Number of the furthest of the six phases that has an object; 0 for none."""
    return max((number for number, phase in _known(names) if phase in PHASE_NUMBERS), default=0)


def is_complete(names: Collection[str]) -> bool:
    """Whether FlushComplete was begun: everything landed, so even a damaged one says so.

    So does word of its notice alone: a slow sender may give it after the attempt left the log for the books.
    """
    return reached_phase(names) == PHASE_NUMBERS[Phase.FLUSH_COMPLETE] or has_mark(names, Phase.NOTIFIED)


def has_mark(names: Iterable[str], mark: Phase) -> bool:
    """Whether the attempt bears this mark, whatever it had reached."""
    return _is_marked(names, mark, 0)


def is_finished(names: Collection[str]) -> bool:
    """Whether the attempt whose objects have these names is history."""
    return is_complete(names) or _is_marked(names, Phase.CLOSED, reached_phase(names))


def is_settled(names: Mapping[str, int], *, now_us: int, closing_after_us: int) -> bool:
    """Whether recovery has nothing to do for the attempt whose objects are ``names`` (name to time written).

    A swept attempt is due again when it logged a further phase, and once more ``closing_after_us`` later.
    """
    recent = [name for name, written_us in names.items() if now_us - written_us < closing_after_us]
    return is_finished(names) or _is_marked(recent, Phase.SWEPT, reached_phase(names))


def _known(names: Iterable[str]) -> Iterator[tuple[int, Phase]]:
    return filter(None, map(phase_of, names))


def _is_marked(names: Iterable[str], mark: Phase, reached: int) -> bool:
    return any(phase is mark and number - MARK_BASES[mark] >= reached for number, phase in _known(names))

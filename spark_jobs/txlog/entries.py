"""Entries of the transaction log: six phases of an attempt, recovery's marks, and how they fold. Pure.

One small JSON object per phase, written once. Every object repeats the batch it belongs to, so that any
single readable one says which offsets the attempt stood for. The table is the truth: an object that is
missing or cannot be read means that its phase is taken as not having happened, never that data is given up.
What is settled, finished or reached is known from names alone: a log of many attempts is judged unread.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from itertools import chain
from typing import Any, ClassVar, Generic, TypeVar, get_args

from spark_jobs.protocol.batch import Balance, Batch, BatchCounts, WrittenFile
from spark_jobs.protocol.commit_summary import CommitSummary
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.source import stands_at_starts
from spark_jobs.protocol.texts import JsonCodec

# What a listing alone tells.


class Phase(StrEnum):
    """Kind of a log object; the first six are in the order in which an attempt reaches them."""

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
    """Return number and phase of an object's name; None for a name this version does not write."""
    number, _, rest = name.partition("-")
    word, ending, more = rest.partition(".json")
    phase = _BY_WORD.get(word)
    if not number.isdigit() or phase is None or more or not ending:
        return None
    return int(number), phase


def reached_phase(names: Iterable[str]) -> int:
    """Return the number of the furthest of the six phases with an object; 0 for none."""
    return max((number for number, phase in _known(names) if phase in PHASE_NUMBERS), default=0)


def is_complete(names: Collection[str]) -> bool:
    """True if FlushComplete was begun: everything landed, even if the object is damaged.

    So does word of its notice alone: a slow sender may give it after the attempt left the log for the books.
    """
    return reached_phase(names) == PHASE_NUMBERS[Phase.FLUSH_COMPLETE] or has_mark(names, Phase.NOTIFIED)


def has_mark(names: Iterable[str], mark: Phase, reached: int = 0) -> bool:
    """True if the attempt has this mark, set when it had reached this phase or a later one."""
    return any(phase is mark and number - MARK_BASES[mark] >= reached for number, phase in _known(names))


def is_finished(names: Collection[str]) -> bool:
    """True if the attempt with these object names is finished for good."""
    return is_complete(names) or has_mark(names, Phase.CLOSED, reached_phase(names))


def is_settled(names: Mapping[str, int], *, now_us: int, closing_after_us: int) -> bool:
    """True if recovery has nothing to do for the attempt with objects ``names`` (name to time written).

    A swept attempt is due again when it logged a further phase, and once more ``closing_after_us`` later.
    """
    recent = [name for name, written_us in names.items() if now_us - written_us < closing_after_us]
    return is_finished(names) or has_mark(recent, Phase.SWEPT, reached_phase(names))


def _known(names: Iterable[str]) -> Iterator[tuple[int, Phase]]:
    return filter(None, map(phase_of, names))


LOG_FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """Ranges are planned; ``spark_tag`` interrupts the work that is about to run.

    ``spark_session_id`` finds it in Spark's log. ``reason`` is the operator's, empty for what the sensor
    asked for.
    """

    phase: ClassVar[Phase] = Phase.OFFSET_COMMIT
    batch_id: str
    spark_session_id: str | None
    spark_tag: str
    actor: str
    run_id: str
    sluice_version: str
    started_at_us: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class BufferSnapshot:
    """Input and schema of the decoding about to start; ``timestamp_columns`` are parsed from text."""

    phase: ClassVar[Phase] = Phase.BUFFER_SNAPSHOT
    schema_id: int
    columns: tuple[str, ...]
    timestamp_columns: tuple[str, ...]
    planned_records: int
    planned_bytes: int


@dataclass(frozen=True, slots=True)
class FlushStart:
    """Written before any file exists: each will be below the locations with ``file_prefix`` in its name."""

    phase: ClassVar[Phase] = Phase.FLUSH_START
    file_prefix: str
    data_location: str
    dead_letter_location: str | None
    routed_locations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ParquetWritten:
    """Everything that a commit needs, so that another run can commit these files without Kafka.

    ``balances`` by partition; ``bytes_read`` are Kafka values and keys, ``file_bytes`` what was written;
    ``routed_files`` by the table that rows of theirs are routed to.
    """

    phase: ClassVar[Phase] = Phase.PARQUET_WRITTEN
    data_files: tuple[WrittenFile, ...]
    dead_letter_files: tuple[WrittenFile, ...]
    rows: int
    bytes_read: int
    file_bytes: int
    balances: dict[int, Balance]
    summary: dict[str, str]
    routed_files: dict[str, tuple[WrittenFile, ...]] = field(default_factory=dict)

    @property
    def every_file(self) -> tuple[WrittenFile, ...]:
        """The files of all tables."""
        return (*self.data_files, *self.dead_letter_files, *chain(*self.routed_files.values()))

    @property
    def counts(self) -> BatchCounts:
        """The batch's counts, without file names."""
        files = len(self.data_files), len(self.dead_letter_files)
        summary = CommitSummary(self.summary)
        by_name = summary.dead_letter_phases, summary.filtered_reasons, summary.routed_tables
        return BatchCounts(self.balances, self.bytes_read, self.file_bytes, *files, *by_name)


@dataclass(frozen=True, slots=True)
class IcebergSnapshotCreated:
    """The commit landed; ``snapshot_id`` is None if recovery found that its snapshot had expired.

    ``conflicts`` is how often another writer's commit came first.
    """

    phase: ClassVar[Phase] = Phase.ICEBERG_SNAPSHOT_CREATED
    snapshot_id: int | None
    run_id: str
    committed_at_us: int
    conflicts: int = 0


@dataclass(frozen=True, slots=True)
class FlushComplete:
    """Data and dead letters are in their tables; ``dead_letter_snapshot_id`` is None without dead letters."""

    phase: ClassVar[Phase] = Phase.FLUSH_COMPLETE
    durations_ms: dict[str, int]
    dead_letter_snapshot_id: int | None
    run_id: str
    completed_at_us: int


@dataclass(frozen=True, slots=True)
class Swept:
    """The attempt can never land and its files were deleted; it may still be writing more of them."""

    phase: ClassVar[Phase] = Phase.SWEPT
    deleted_files: int
    run_id: str
    swept_at_us: int


@dataclass(frozen=True, slots=True)
class Closed:
    """Swept again when no run of its time can be alive: the attempt is finished for good."""

    phase: ClassVar[Phase] = Phase.CLOSED
    deleted_files: int
    run_id: str
    closed_at_us: int


@dataclass(frozen=True, slots=True)
class Held:
    """Files are written and failed a quality gate: an operator publishes or discards them.

    Written before ParquetWritten, whose summary says it as well. ``suite`` names the failed ones; ``failed``
    holds, by suite, each expectation that was not met (``core.quality.SuiteResult.to_json``).
    """

    phase: ClassVar[Phase] = Phase.HELD
    suite: str
    failed: tuple[dict[str, Any], ...]
    run_id: str
    held_at_us: int


@dataclass(frozen=True, slots=True)
class Notified:
    """The notice of its commit is settled: ``outcome`` is ``delivered``, ``refused`` or ``expired``."""

    phase: ClassVar[Phase] = Phase.NOTIFIED
    outcome: str
    run_id: str
    notified_at_us: int


@dataclass(frozen=True, slots=True)
class Published:
    """An operator published a held batch: from now on any recovery commits it."""

    phase: ClassVar[Phase] = Phase.PUBLISHED
    reason: str
    actor: str
    run_id: str
    published_at_us: int


Entry = (
    OffsetCommit
    | BufferSnapshot
    | FlushStart
    | ParquetWritten
    | IcebergSnapshotCreated
    | FlushComplete
    | Swept
    | Closed
    | Held
    | Notified
    | Published
)
_ENTRY_TYPES: dict[Phase, type[Entry]] = {kind.phase: kind for kind in get_args(Entry)}
_E = TypeVar("_E", bound=Entry)


@dataclass(frozen=True, slots=True)
class Attempt:
    """Log entries of one attempt.

    ``entries`` are the readable ones in order; ``unreadable`` names the others. ``reached`` is the number of
    the furthest phase that has an object, readable or not. ``batch`` is None when nothing is readable.
    """

    table_uuid: str
    uuid: str
    batch: Batch | None
    entries: tuple[Entry, ...]
    unreadable: tuple[str, ...]
    reached: int

    def entry(self, kind: type[_E]) -> _E | None:
        """Return the last entry of this kind, or None."""
        found = [e for e in self.entries if isinstance(e, kind)]
        return found[-1] if found else None

    @property
    def started_at_us(self) -> int:
        """Time when its ranges were planned, in microseconds since the epoch; 0 if unreadable."""
        return self.batch.ingested_at_us if self.batch else 0


@dataclass(frozen=True, slots=True)
class _LogObject(Generic[_E]):
    format: int
    phase: Phase
    table_uuid: str
    batch: Batch
    entry: _E


@cache
def _codec_of(phase: Phase) -> JsonCodec[_LogObject[Any]]:
    kind: Any = _ENTRY_TYPES[phase]
    return JsonCodec(_LogObject[kind])


def entry_to_json(entry: Entry, batch: Batch, table_uuid: str) -> str:
    """Return one object of the log."""
    value = _LogObject(LOG_FORMAT_VERSION, entry.phase, table_uuid, batch, entry)
    return _codec_of(entry.phase).to_json(value)


def fold(table_uuid: str, uuid: str, objects: Mapping[str, str]) -> Attempt:
    """Return the attempt with these objects (name to text).

    Raises ``CorruptLog`` (``newer-log-format``) when a newer Sluice wrote one of them.
    """
    batch: Batch | None = None
    readable: list[tuple[int, Entry]] = []
    unreadable: list[str] = []
    for name, text in sorted(objects.items()):
        found = phase_of(name)
        parsed = _parse(text, found, table_uuid=table_uuid, uuid=uuid, name=name)
        if parsed is None or found is None:
            unreadable.append(name)
            continue
        batch = parsed[0]
        readable.append((found[0], parsed[1]))
    readable.sort(key=lambda numbered: numbered[0])
    reached = reached_phase(objects)
    return Attempt(table_uuid, uuid, batch, tuple(e for _, e in readable), tuple(unreadable), reached)


def refuse_newer(version: object, **where: object) -> None:
    """Raise ``CorruptLog`` (``newer-log-format``) for a format this version does not know."""
    if isinstance(version, int) and version > LOG_FORMAT_VERSION:
        raise fault("newer-log-format", version=version, newest=LOG_FORMAT_VERSION, **where)


def _parse(
    text: str, found: tuple[int, Phase] | None, *, table_uuid: str, uuid: str, name: str
) -> tuple[Batch, Entry] | None:
    where = {"table_uuid": table_uuid, "attempt": uuid, "object": name}
    read = None if found is None else _read(text, found[1])
    refuse_newer(_format_of(text) if read is None else read.format, **where)
    if read is None or found is None:
        return None
    # An object copied to another attempt's or table's place says nothing about that one.
    is_in_its_place = read.phase is found[1] and read.table_uuid == table_uuid and read.batch.attempt == uuid
    return (read.batch, read.entry) if is_in_its_place else None


def _read(text: str, phase: Phase) -> _LogObject[Any] | None:
    try:
        return _codec_of(phase).from_json(text)
    except ValueError:
        return None


def _format_of(text: str) -> object:
    try:
        return json.loads(text)["format"]
    except (ValueError, TypeError, KeyError):
        return None


# What a log says of a batch at a quality gate: held, or waiting to be published.


def is_held(attempt: Attempt) -> bool:
    """True if its files failed a quality gate and were not published."""
    written = attempt.entry(ParquetWritten)
    is_marked = written is not None and CommitSummary(written.summary).is_held
    return is_marked and attempt.entry(Published) is None


def is_waiting(attempt: Attempt, progress: Progress) -> bool:
    """True if a held attempt begins at the table's next offsets."""
    batch = attempt.batch
    return is_held(attempt) and batch is not None and stands_at_starts(progress, batch)

"""The facts that the built-in checks judge, from one look at a pipeline's topic, table and log. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from spark_jobs.protocol.batch import Balance, Pause
from spark_jobs.protocol.errors import SluiceError


@dataclass(frozen=True, slots=True)
class DrainedBatch:
    """One drained batch as recorded in its snapshot: ``offsets`` planned, ``added_rows`` counted by Iceberg.

    ``added_rows`` is None for a mirror, whose files have every event, and completed events a second time.
    ``unlisted_values`` counts, by value, the rows that no entry of ``route.tables`` matches.
    """

    attempt: str
    committed_at_ms: int
    offsets: int
    balance: Balance
    added_rows: int | None
    unlisted_values: dict[str, int] = field(default_factory=dict)

    @property
    def unaccounted(self) -> int:
        """Number of offsets and rows that do not add up; 0 for a complete batch."""
        rows = self.balance.rows if self.added_rows is None else self.added_rows
        return abs(self.offsets - self.balance.offsets) + abs(rows - self.balance.rows)


@dataclass(frozen=True, slots=True)
class Removal:
    """A snapshot of another writer that removed rows: DELETE, TRUNCATE, a time-to-live.

    ``rows`` is the number in its summary; None if the summary only records that rows were deleted.
    """

    snapshot_id: int
    operation: str
    committed_at_ms: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class SpoolFacts:
    """The batches of a pipeline's topic in the gateway's spool on this machine.

    ``used`` is the share of ``spool.max`` that all topics take. ``oldest_ms`` is when the oldest batch came,
    None if there is none. ``unreadable`` is the reason why the spool cannot be read, empty if it can.
    """

    batches: int
    bytes: int
    oldest_ms: int | None
    used: float
    unreadable: str = ""


@dataclass(frozen=True, slots=True)
class SourceEvents:
    """Event counts of the gateway's sources in a bounded part of the table.

    ``gaps`` are missing events that are followed by later ones; events that batches made no rows of are not
    counted. ``doubles`` are events that are there twice.
    """

    events: int
    gaps: int
    doubles: int
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AuditNote:
    """The last bounded audit: when, over how many of the newest offsets, and its counts.

    ``damaged`` names files of new commits that are missing or unreadable; nothing else was audited then.
    ``mends`` are the commands that fix them, columns with rounded integers, and ``outdated`` rows: these were
    written with an earlier configuration and are not wrong. ``source_events`` is None for rows that did not
    come through the gateway. ``foreign`` are changes of another source or table than the mirror's.
    """

    audited_at_ms: int
    offsets: int
    missing: int
    duplicates: int
    differing: int
    removed: int
    examples: tuple[str, ...] = ()
    rounded: int = 0
    mends: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
    outdated: int = 0
    source_events: SourceEvents | None = None
    foreign: int = 0

    @property
    def is_clean(self) -> bool:
        """True if nothing is missing, duplicated, changed or damaged."""
        wrong = self.missing or self.duplicates or self.differing or self.rounded or self.foreign
        return not (wrong or self.damaged)


@dataclass(frozen=True, slots=True)
class TableFacts:
    """The facts in a table's metadata. Times are milliseconds since the epoch.

    ``batches`` are the drains among the kept snapshots, oldest first; ``holes`` name commits that do not
    begin where the previous one ended. ``schema_changes`` are those since the requested time. Without
    ``shows_history`` the catalog returns only the newest snapshot. Mirrors only: ``skipped`` offsets of the
    current generation, ``dead_letters`` stored in their table, ``restarts`` of the source that an operator
    accepted.
    """

    valid_through_ms: int | None
    committed_at_ms: int
    batches: tuple[DrainedBatch, ...] = ()
    holes: tuple[str, ...] = ()
    removals: tuple[Removal, ...] = ()
    schema_changes: tuple[str, ...] = ()
    paused: Pause | None = None
    snapshots: int = 0
    shows_history: bool = True
    skipped: int = 0
    dead_letters: int = 0
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class HealthFacts:
    """One look at a pipeline. ``table`` is None while it does not exist.

    ``lag`` is the number of waiting offsets by partition; the first has the time ``waiting_since_ms`` (None
    if it has no time, or it was not read). ``headroom_ms`` is None if Kafka would delete nothing that waits,
    ``retention_ms`` if the topic keeps records for ever; ``is_retention_known`` is False without the right to
    read the topic's settings. ``undecided`` offsets are held back by an open transaction, the first since
    ``undecided_since_ms`` (None if its time could not be read). ``error`` is the error that a drain would
    stop with, or why the pipeline cannot be read: then ``is_known`` is False and only ``spool`` counts (None
    for topics that the gateway does not write). ``held`` are attempts that failed a quality gate and wait for
    a decision; ``failure`` is the error of the last drain, while records wait.
    """

    now_ms: int
    is_known: bool = True
    lag: dict[int, int] = field(default_factory=dict)
    waiting_since_ms: int | None = None
    table: TableFacts | None = None
    headroom_ms: int | None = None
    retention_ms: int | None = None
    is_retention_known: bool = True
    undecided: int = 0
    undecided_since_ms: int | None = None
    held: tuple[str, ...] = ()
    audit: AuditNote | None = None
    error: SluiceError | None = None
    failure: SluiceError | None = None
    spool: SpoolFacts | None = None

    @property
    def waiting(self) -> int:
        """Number of offsets that wait, in all partitions."""
        return sum(self.lag.values())

    @property
    def valid_through_ms(self) -> int | None:
        """The record time up to which the table is complete: now, if nothing waits and all is decided."""
        if self.table is None:
            return None
        if self.undecided and not self.waiting:
            known = (ms for ms in (self.undecided_since_ms, self.table.valid_through_ms) if ms is not None)
            return max(known, default=None)
        return self.table.valid_through_ms if self.waiting else self.now_ms

    @property
    def oldest_since_ms(self) -> int:
        """The time since which the oldest record waits that is not in the table; now, if none waits.

        This is the record's own time, but not before the time up to which the table is complete (the last
        commit's time until a commit has reached the topic's end): later records may be dated back, or have
        no time.
        """
        if self.table is None or not (self.waiting or self.undecided):
            return self.now_ms
        own = (self.waiting_since_ms, self.undecided_since_ms)
        first_ms = min((ms for ms in own if ms is not None), default=0)
        through_ms = self.table.valid_through_ms
        through_ms = self.table.committed_at_ms if through_ms is None else through_ms
        return min(self.now_ms, max(through_ms, first_ms))

"""What the built-in checks judge: facts of one look at a pipeline's topic, table and log. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from spark_jobs.protocol.batch import Balance, Pause
from spark_jobs.protocol.errors import SluiceError


@dataclass(frozen=True, slots=True)
class DrainedBatch:
    """One drained batch as its snapshot tells it: ``offsets`` planned, ``added_rows`` as Iceberg counted.

    ``unlisted_values`` counts rows that stay for want of a table listed for their value.
    """

    attempt: str
    committed_at_ms: int
    offsets: int
    balance: Balance
    added_rows: int
    unlisted_values: dict[str, int] = field(default_factory=dict)

    @property
    def unaccounted(self) -> int:
        """Offsets and rows that do not add up; 0 for a batch that is whole."""
        return abs(self.offsets - self.balance.offsets) + abs(self.added_rows - self.balance.rows)


@dataclass(frozen=True, slots=True)
class Removal:
    """A snapshot of another writer that took rows out: DELETE, TRUNCATE, a time-to-live.

    ``rows`` is what its summary says; None when it only says that some are deleted.
    """

    snapshot_id: int
    operation: str
    committed_at_ms: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class AuditNote:
    """The last bounded audit: when, over how many of the newest offsets, and what it found.

    ``damaged`` names files of new commits that are gone or cannot be read; nothing else was audited then.
    ``mends`` are the commands for them, for columns in which integers were rounded, and for what is
    ``outdated``: made by an earlier configuration, which is nothing wrong.
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

    @property
    def is_clean(self) -> bool:
        """Nothing missing, doubled, changed or damaged."""
        return not (self.missing or self.duplicates or self.differing or self.rounded or self.damaged)


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What a table's metadata tells. Times are milliseconds since the epoch.

    ``batches`` are the drains among the kept snapshots, oldest first; ``holes`` name commits that do not
    begin where the one before ended. ``schema_changes`` are those since the time that was asked for. Without
    ``shows_history`` the newest snapshot is all that the catalog shows.
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


@dataclass(frozen=True, slots=True)
class HealthFacts:
    """One look at a pipeline. ``table`` is None while it does not exist.

    ``lag`` is waiting offsets by partition; the first of them is of ``waiting_since_ms`` (None when its time
    was not asked for: only schedules go by it). ``headroom_ms`` is None when nothing waits that Kafka would
    delete; ``retention_ms`` None when the topic keeps records for ever; without the right to read the topic's
    settings ``is_retention_known`` is False. ``undecided`` offsets are held back by an open transaction, the
    first since ``undecided_since_ms`` (None when its time could not be read). ``error`` is what a drain would
    stop with, or why the pipeline could not be looked at (then ``is_known`` is False and nothing else
    counts). ``held`` are attempts a quality gate holds back.
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

    @property
    def waiting(self) -> int:
        """Offsets that wait in all partitions."""
        return sum(self.lag.values())

    @property
    def valid_through_ms(self) -> int | None:
        """Up to which record time the table is complete: now, when nothing waits and all is decided."""
        if self.table is None:
            return None
        if self.undecided and not self.waiting:
            known = (ms for ms in (self.undecided_since_ms, self.table.valid_through_ms) if ms is not None)
            return max(known, default=None)
        return self.table.valid_through_ms if self.waiting else self.now_ms

    @property
    def drained_through_ms(self) -> int:
        """Return the same; until a commit has reached an end, the table's age is the best bound there is."""
        if self.table is None:
            return self.now_ms
        through_ms = self.valid_through_ms
        return self.table.committed_at_ms if through_ms is None else through_ms

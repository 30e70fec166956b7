"""What the built-in checks judge: facts of one look at a pipeline's topic, table and log. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from spark_jobs.protocol.batch import Balance, Pause
from spark_jobs.protocol.errors import SluiceError


@dataclass(frozen=True, slots=True)
class DrainedBatch:
    """One drained batch as its snapshot tells it: ``offsets`` planned, ``added_rows`` as Iceberg counted.

    These are None of a mirror, whose files have every event, and some twice: made whole. ``unlisted_values``
    counts rows that stay for want of a table listed for their value.
    """

    attempt: str
    committed_at_ms: int
    offsets: int
    balance: Balance
    added_rows: int | None
    unlisted_values: dict[str, int] = field(default_factory=dict)

    @property
    def unaccounted(self) -> int:
        """Offsets and rows that do not add up; 0 for a batch that is whole."""
        rows = self.balance.rows if self.added_rows is None else self.added_rows
        return abs(self.offsets - self.balance.offsets) + abs(rows - self.balance.rows)


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
class SpoolFacts:
    """What the gateway's spool on this machine has of a pipeline's topic; of all topics it takes ``used``.

    ``used`` is the share of ``spool.max``; ``oldest_ms`` is when its oldest batch came, None without any.
    ``unreadable`` says why nothing is known, empty where it is.
    """

    batches: int
    bytes: int
    oldest_ms: int | None
    used: float
    unreadable: str = ""


@dataclass(frozen=True, slots=True)
class SourceEvents:
    """What was found of the gateway's sources in a bounded part of the table: events, and what is amiss.

    ``gaps`` are events that are not there though later ones are, beyond what batches made no rows of.
    """

    events: int
    gaps: int
    doubles: int
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AuditNote:
    """The last bounded audit: when, over how many of the newest offsets, and what it found.

    ``damaged`` names files of new commits that are gone or cannot be read; nothing else was audited then.
    ``mends`` are the commands for them, for columns in which integers were rounded, and for what is
    ``outdated``: made by an earlier configuration, which is nothing wrong. ``source_events`` is None of rows
    that the gateway did not bring. ``foreign`` are changes of another source or table than a mirror's.
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
        """Nothing missing, doubled, changed or damaged."""
        wrong = self.missing or self.duplicates or self.differing or self.rounded or self.foreign
        return not (wrong or self.damaged)


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What a table's metadata tells. Times are milliseconds since the epoch.

    ``batches`` are the drains among the kept snapshots, oldest first; ``holes`` name commits that do not
    begin where the one before ended. ``schema_changes`` are those since the time that was asked for. Without
    ``shows_history`` the newest snapshot is all that the catalog shows. ``skipped`` offsets are of the
    current generation, ``dead_letters`` those that are in their table, ``restarts`` of the source
    are those that an operator accepted; they are told of mirrors.
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

    ``lag`` is waiting offsets by partition; the first of them is of ``waiting_since_ms`` (None when it has no
    time, or none that was read). ``headroom_ms`` is None when nothing waits that Kafka would
    delete; ``retention_ms`` None when the topic keeps records for ever; without the right to read the topic's
    settings ``is_retention_known`` is False. ``undecided`` offsets are held back by an open transaction, the
    first since ``undecided_since_ms`` (None when its time could not be read). ``error`` is what a drain would
    stop with, or why the pipeline could not be looked at (then ``is_known`` is False and nothing else
    counts but the ``spool``, which is None of topics that the gateway does not write). ``held`` are attempts
    a quality gate holds back; ``failure`` is what the last drain failed of, while records wait.
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
    def oldest_since_ms(self) -> int:
        """Return since when the oldest record waits that the table has not; now, when none does.

        Its own time, yet never before what the table is complete up to (until a commit has reached an end,
        before the last one): what came later may be dated back, or have no time.
        """
        if self.table is None or not (self.waiting or self.undecided):
            return self.now_ms
        own = (self.waiting_since_ms, self.undecided_since_ms)
        first_ms = min((ms for ms in own if ms is not None), default=0)
        through_ms = self.table.valid_through_ms
        through_ms = self.table.committed_at_ms if through_ms is None else through_ms
        return min(self.now_ms, max(through_ms, first_ms))

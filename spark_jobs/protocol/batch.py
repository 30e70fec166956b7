"""A batch: the offset ranges of one commit, and the counts and files of its tasks. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import Any

from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges, SchemaKey
from spark_jobs.protocol.progress_parts import KeptColumn, SavedDeadLetters, Skip
from spark_jobs.protocol.texts import JsonCodec, count, stored_as, when
from spark_jobs.protocol.work import Work
from spark_jobs.protocol.works.drain import DRAIN

TERMS = ("rows", "dead_letters", "tombstones", "gaps")


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause of the pipeline's drains by an operator; ``at_ms`` is milliseconds since the epoch."""

    reason: str
    actor: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ActState:
    """State of operators' acts, stored with the table as part of its ``Progress``; fields need a default.

    ``skipped`` are the offsets an operator left out. ``rollbacks`` counts the table's: offsets come round
    again after one, so it fences the drains that were planned before; a change of columns or partitioning
    fences them so as well. ``kept_columns`` are in the order of the changes that made them.
    """

    paused: Pause | None = None
    skipped: tuple[Skip, ...] = ()
    rollbacks: int = 0
    kept_columns: tuple[KeptColumn, ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """One planned commit.

    ``ingested_at_us`` is microseconds since the epoch (UTC), fixed at plan so that an adopted batch keeps it.
    ``attempt`` is a fresh uuid: two runs that plan the same ranges have the same ``batch_id`` and
    different attempts, so neither can take the other's commit for its own. ``epoch`` was the
    table's at plan, and the batch commits only while it still is: the replay epoch of a replay, which no
    offsets fence, and the number of rollbacks of a drain, whose offsets come round again after one.
    ``leader_epochs`` are those of the topic with these ids at plan, by partition of the ranges. ``read_by``
    are the schemas, one of values and one of keys at most, that were asked for then: for records that name
    none, and of a replay only where the table has no word of which it was. ``shaped_by`` is the digest of
    what else decides what its records become; empty of a version that kept none. A redrive is of ``letters``
    alone, whose offsets lie in the ranges.
    """

    pipeline: str
    table: str
    topic: str
    generation: int
    ranges: OffsetRanges
    attempt: str
    ingested_at_us: int
    kind: Work = DRAIN
    epoch: int = 0
    cluster_id: str | None = None
    topic_id: str | None = None
    leader_epochs: dict[int, int] = field(default_factory=dict)
    read_by: tuple[SchemaKey, ...] = ()
    shaped_by: str = ""
    letters: SavedDeadLetters | None = None

    @property
    def batch_id(self) -> str:
        """Deterministic name of the work: kind and ranges of one generation of one topic, and its letters."""
        key = f"{self.kind}|{self.table}|{self.topic}|{self.generation}|{self.ranges}"
        key += f"|{self.letters.digest}" if self.letters else ""
        return f"{self.kind}-" + hashlib.sha256(key.encode()).hexdigest()[:16]

    @property
    def records(self) -> int:
        """Upper bound of the batch's records: offsets of its ranges, or dead letters."""
        return self.letters.letters if self.letters else self.ranges.records


@dataclass(frozen=True, slots=True)
class Split:
    """Input of one task: ranges ordered by partition and offset, bounded in bytes."""

    split_id: int
    ranges: tuple[OffsetRange, ...]


@stored_as(dict[str, int], write=dict, read=lambda terms: Balance(terms))  # noqa: PLW0108  (is not there yet)
class Balance(dict[str, int]):
    """Counts of the offsets of one partition's range by outcome; every offset must be accounted for.

    The four ``TERMS`` are always there. ``gaps`` are offsets that hold no readable record: control markers,
    aborted transactions, compaction; every other term counts records. One that is not among the four is
    written, kept and shown under its name wherever the four are. Never changed once it is made.
    """

    def __init__(self, terms: Mapping[str, int] | Iterable[tuple[str, int]] = (), /, **named: int) -> None:
        super().__init__(dict.fromkeys(TERMS, 0))
        self.update(terms, **named)

    @property
    def rows(self) -> int:
        """Records that became rows."""
        return self["rows"]

    @property
    def dead_letters(self) -> int:
        """Records that became dead letters."""
        return self["dead_letters"]

    @property
    def tombstones(self) -> int:
        """Records without a value."""
        return self["tombstones"]

    @property
    def gaps(self) -> int:
        """Offsets without a readable record."""
        return self["gaps"]

    @property
    def all_rows(self) -> int:
        """Records that became rows of any table."""
        return self.rows + self.get("routed", 0)

    @property
    def kept(self) -> int:
        """Records in any of the tables."""
        return self.all_rows + self.dead_letters

    @property
    def further(self) -> dict[str, int]:
        """The counts other than the four standard ones."""
        return {name: offsets for name, offsets in self.items() if name not in TERMS}

    @property
    def offsets(self) -> int:
        """Number of offsets accounted for."""
        return sum(self.values())

    @property
    def records(self) -> int:
        """Number of readable records."""
        return self.offsets - self.gaps

    def __add__(self, other: Balance) -> Balance:
        return Balance({name: self.get(name, 0) + other.get(name, 0) for name in (self | other)})


def total(balances: Iterable[Balance]) -> Balance:
    """Sum of the balances."""
    result = Balance()
    for balance in balances:
        result += balance
    return result


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """Record and byte counts of a batch, by partition, and its files.

    ``dead_letter_phases`` say which step its dead letters did not pass; empty where a version before wrote.
    ``filtered_reasons`` say why a filter left records out, ``routed_tables`` where routed rows go.
    """

    balances: dict[int, Balance] = field(default_factory=dict)
    bytes_read: int = 0
    file_bytes: int = 0
    data_files: int = 0
    dead_letter_files: int = 0
    dead_letter_phases: dict[str, int] = field(default_factory=dict)
    filtered_reasons: dict[str, int] = field(default_factory=dict)
    routed_tables: dict[str, int] = field(default_factory=dict)

    @property
    def balance(self) -> Balance:
        """Sum over the partitions."""
        return total(self.balances.values())

    def shown(self, batch: Batch) -> dict[str, Any]:
        """Return what screens show for every batch, as plain data."""
        return {
            "batch_id": batch.batch_id,
            "attempt": batch.attempt,
            "ranges": str(batch.ranges),
            "balance": self.balance,
            "dead_letter_phases": self.dead_letter_phases,
            "filtered_reasons": self.filtered_reasons,
            "routed_tables": self.routed_tables,
            "file_bytes": self.file_bytes,
        }


def unbalanced(ranges: OffsetRanges, balances: Mapping[int, Balance]) -> dict[int, int]:
    """Return unaccounted offsets by partition (negative: counted twice); empty if there are none."""
    off = {r.partition: len(r) - balances.get(r.partition, Balance()).offsets for r in ranges}
    return {partition: missing for partition, missing in off.items() if missing}


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One Parquet file, from the writer to the commit; see ``spark_jobs.lake.data_files``.

    Its JSON form, these names in this order, stands in tasks' outcomes, the transaction log and table
    properties. ``rows`` and ``bytes`` are its size; counts and bounds go by field id. Bounds and the values
    of its ``partition``, by the fields of the spec with ``spec_id``, are base64 of Iceberg's single-value
    serialisation, so that every type comes back exactly; None is a null.
    """

    path: str
    spec_id: int
    partition: tuple[str | None, ...]
    rows: int
    bytes: int
    split_offsets: tuple[int, ...] | None
    column_sizes: dict[int, int]
    value_counts: dict[int, int]
    null_value_counts: dict[int, int]
    nan_value_counts: dict[int, int]
    lower_bounds: dict[int, str]
    upper_bounds: dict[int, str]


def counts(
    balance: Balance,
    phases: Mapping[str, int] | None = None,
    reasons: Mapping[str, int] | None = None,
    tables: Mapping[str, int] | None = None,
) -> str:
    """Return counts of records by outcome: ``2 rows, 1 dead letter, 0 tombstones``, then others.

    ``phases`` breaks down dead letters: ``3 dead letters (2 decode, 1 key)``; ``reasons`` the records that a
    filter left out, and ``tables`` the routed rows.
    """
    named = {"filtered": reasons, "routed": tables}
    letters = count(balance.dead_letters, "dead letter") + _breakdown(phases)
    further = "".join(
        f", {offsets:,} {shown_term(term)}{_breakdown(named.get(term))}"
        for term, offsets in balance.further.items()
    )
    return f"{count(balance.rows, 'row')}, {letters}, {count(balance.tombstones, 'tombstone')}{further}"


def shown_term(term: str) -> str:
    """Return the name of a count as screens show it."""
    return "repeated" if term == "told_again" else term.replace("_", " ")


def _breakdown(numbers: Mapping[str, int] | None) -> str:
    parts = ", ".join(f"{number:,} {name}" for name, number in sorted((numbers or {}).items()))
    return f" ({parts})" if parts else ""


def paused_line(paused: Pause) -> str:
    """Return a line with the time, actor and reason of a pipeline's pause."""
    return f"paused since {when(paused.at_ms * 1000)} by {paused.actor}: {paused.reason}"


# What a task hands back to the driver: a row, never an exception whose type Spark would lose.


class OutcomeKind(StrEnum):
    """How a split ended."""

    WRITTEN = "written"  # every offset of the split is accounted for, its files are complete
    OBSERVED = "observed"  # nothing written: values carry fields the table has no column for
    FAILED = "failed"  # an error that the same task would meet again


@dataclass(frozen=True, slots=True)
class Written:
    """Files and counts written by one task, or by all tasks of a batch.

    ``balances`` by partition; ``max_timestamp_ms`` the largest record time by partition (absent when none
    had one); ``cpu_us`` CPU microseconds by step (fetch, decode, shape, write; threads: librdkafka's);
    ``kafka`` what librdkafka tells of its consumer; ``ignored`` values by the dotted name of their field;
    ``dead_letter_phases`` those by the step that they did not pass; ``filtered_reasons`` records that a
    filter left out; ``routed_files`` by the table they are for; ``unlisted`` rows that stay for want of a
    table listed for their value; ``native_left`` values that the WebAssembly module left to the decoder in
    Python, by reason.
    With ``has_strays`` tries that came to nothing may have left files behind.
    """

    data_files: tuple[WrittenFile, ...] = ()
    dead_letter_files: tuple[WrittenFile, ...] = ()
    balances: dict[int, Balance] = field(default_factory=dict)
    bytes_read: int = 0
    max_timestamp_ms: dict[int, int] = field(default_factory=dict)
    cpu_us: dict[str, int] = field(default_factory=dict)
    kafka: dict[str, int] = field(default_factory=dict)
    ignored: dict[str, int] = field(default_factory=dict)
    dead_letter_phases: dict[str, int] = field(default_factory=dict)
    filtered_reasons: dict[str, int] = field(default_factory=dict)
    routed_files: dict[str, tuple[WrittenFile, ...]] = field(default_factory=dict)
    unlisted: dict[str, int] = field(default_factory=dict)
    native_left: dict[str, int] = field(default_factory=dict)
    peak_task_rss_bytes: int = 0
    has_strays: bool = False

    @property
    def balance(self) -> Balance:
        """Sum over the partitions."""
        return total(self.balances.values())

    @property
    def every_file(self) -> tuple[WrittenFile, ...]:
        """The files of all tables."""
        return (*self.data_files, *self.dead_letter_files, *chain(*self.routed_files.values()))

    @property
    def routed_rows(self) -> dict[str, int]:
        """Number of routed rows by table."""
        return {table: sum(file.rows for file in files) for table, files in self.routed_files.items()}


MAX_IGNORED_NAMES = 100  # of values no table is listed for, too
OTHERS = "(others)"
_NAME_CHARACTERS = 100


def add_ignored(counted: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Return the sums by name; names beyond a limit, which records choose, are added up as one."""
    sums = dict(counted)
    for name, values in more.items():
        known = name[:_NAME_CHARACTERS]
        known = known if known in sums or len(sums) < MAX_IGNORED_NAMES else OTHERS
        sums[known] = sums.get(known, 0) + values
    return sums


@dataclass(frozen=True, slots=True)
class SplitOutcome:
    """Result of one split.

    ``written`` with WRITTEN only, ``evidence`` (JSON of ``spark_jobs.schema.evidence``) with OBSERVED only,
    or ``lacking``, the columns that tables need for rows routed to them,
    ``error`` (see ``spark_jobs.protocol.errors.error_to_json``) with FAILED only. ``failed_tries`` of the
    same task may have left files behind.
    """

    split_id: int
    kind: OutcomeKind
    written: Written = Written()
    evidence: str | None = None
    lacking: dict[str, tuple[str, ...]] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    failed_tries: int = 0

    def to_json(self) -> str:
        """Return one JSON object."""
        return _CODEC.to_json(self)


_CODEC = JsonCodec(SplitOutcome)


def outcome_from_json(text: str) -> SplitOutcome:
    """Read ``SplitOutcome.to_json`` back."""
    return _CODEC.from_json(text)

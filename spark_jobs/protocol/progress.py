"""A table's progress: the ``sluice.*`` properties, committed together with the data. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import chain
from typing import Any, TypeAlias, TypeVar, get_type_hints

from spark_jobs.protocol import progress_parts as kept
from spark_jobs.protocol.batch import ActState, Batch, WrittenFile
from spark_jobs.protocol.cdc import Cdc
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.offsets import NO_RANGES, OffsetRange, OffsetRanges, SchemaKey, Spans
from spark_jobs.protocol.progress_parts import SavedDeadLetters, ShapedSpans
from spark_jobs.protocol.texts import JsonCodec, stored_as
from spark_jobs.protocol.work import Layout, layout_named

FORMAT_VERSION = 5  # the newest that is read; what is written is the oldest that can say it
LAST_COMMITS_KEPT = 20

PREFIX = "sluice."  # of table properties and of the words of a snapshot's summary
PROPERTY_FORMAT_VERSION = "sluice.format-version"
PROPERTY_OFFSETS = "sluice.offsets"
PROPERTY_ANCHOR = "sluice.anchor"
# Every other field of a progress has a property of its own name; these are text, left out when None.
_IDS = ("cluster_id", "topic_id", "anchor", "layout", "routed_from")
_NOT_BY_NAME = {"topic", "generation", "next_offsets", "earlier", *_IDS}
# The first version wrote them; a table that was last committed to before there were the others has none.
_ALWAYS = ("last_commits", "pending_dead_letters")
_SHOWN_CHARACTERS = 80  # of a property in an error

_T = TypeVar("_T")


# By a schema's field's identity and kind of type, the ids of its columns: it is in the first that can be.
ColumnMap: TypeAlias = dict[str, dict[str, tuple[int, ...]]]


@stored_as(
    tuple[str, dict[int, int], dict[int, int]],
    write=lambda commit: (commit.attempt, commit.ranges.starts, commit.ranges.ends),
    read=lambda stored: CommitRecord(stored[0], OffsetRanges.between(*stored[1:])),
)
@dataclass(frozen=True, slots=True)
class CommitRecord:
    """One landed attempt and its offset ranges; no ranges if it had none, or they are no longer kept."""

    attempt: str
    ranges: OffsetRanges


@dataclass(frozen=True, slots=True)
class _StoredDeadLetters:
    attempt: str
    starts: dict[int, int]
    ends: dict[int, int]
    files: tuple[WrittenFile, ...]
    replaces: bool = False
    redriven: SavedDeadLetters | None = None
    returned: tuple[SavedDeadLetters, ...] = ()


@stored_as(
    _StoredDeadLetters,
    write=lambda o: _StoredDeadLetters(
        o.attempt, o.ranges.starts, o.ranges.ends, o.files, o.replaces, o.redriven, o.returned
    ),
    read=lambda stored: PendingDeadLetters(
        stored.attempt,
        OffsetRanges.between(stored.starts, stored.ends),
        stored.files,
        stored.replaces,
        stored.redriven,
        stored.returned,
    ),
)
@dataclass(frozen=True, slots=True)
class PendingDeadLetters:
    """Dead-letter files of a landed data commit that are pending for the dead-letter table.

    With ``replaces`` the dead letters that are there of the offsets ``ranges`` go in the same commit, and
    those that were ``redriven``, which stand anywhere. ``returned`` come back, but those that are there.
    """

    attempt: str
    ranges: OffsetRanges
    files: tuple[WrittenFile, ...]
    replaces: bool = False
    redriven: SavedDeadLetters | None = None
    returned: tuple[SavedDeadLetters, ...] = ()


@dataclass(frozen=True, slots=True)
class _StoredRoutes:
    attempt: str
    starts: dict[int, int]
    ends: dict[int, int]
    files: dict[str, tuple[WrittenFile, ...]]
    replaces: bool = False


@stored_as(
    _StoredRoutes,
    write=lambda o: _StoredRoutes(o.attempt, o.ranges.starts, o.ranges.ends, o.files, o.replaces),
    read=lambda stored: PendingRoutes(
        stored.attempt, OffsetRanges.between(stored.starts, stored.ends), stored.files, stored.replaces
    ),
)
@dataclass(frozen=True, slots=True)
class PendingRoutes:
    """Files of a landed data commit that are pending for routed tables, by table.

    With ``replaces`` the rows that are there of the offsets ``ranges`` go in the same commit.
    """

    attempt: str
    ranges: OffsetRanges
    files: dict[str, tuple[WrittenFile, ...]]
    replaces: bool = False

    @property
    def by_table(self) -> dict[str, PendingDeadLetters]:
        """Pending files by table, as for dead letters."""
        return {
            table: PendingDeadLetters(self.attempt, self.ranges, files, self.replaces)
            for table, files in self.files.items()
        }


@dataclass(frozen=True, slots=True)
class LastDrain:
    """Counts of the last drained batch, unaffected by later upkeep and replays.

    ``records`` are offsets, ``bytes_read`` Kafka values and keys; times in milliseconds since the epoch.
    """

    attempt: str
    committed_at_ms: int
    records: int
    bytes_read: int
    valid_through_ms: int | None


@dataclass(frozen=True, slots=True)
class Progress(ActState):
    """A table's state: next offsets of every generation, the source's identity, the last commits.

    A field more is stored under its name, and read from a table that has it; see ``_codecs``.

    ``next_offsets`` maps partition to next offset for the current ``generation``; ``earlier`` keeps the
    generations before it. ``anchor`` is the snapshot id the last commit made; None only before creation.
    ``starts`` are the current generation's first offsets. ``replay_epoch`` goes up with every replay that
    landed or was given up, and fences those planned before. ``last_drain_offsets`` are those of the attempt
    it names, which is that of ``last_drain`` unless an earlier version drained since. ``compacted_files`` is
    how many data files the last compaction left. ``leader_epochs`` holds by partition an offset and the
    latest leader epoch that a record below it can have: when the log of that epoch ends below the offset by
    now, Kafka has lost records that the table has (KIP-320). ``schemas`` are digests of the schemas that its
    values were read by: they are kept under ``state:``, and can be known again where that is lost.
    ``columns`` say by a schema's field's identity and kind of type which columns, by their ids, take it.
    ``layout`` is what rows are of records, None of the values' fields as columns. ``schema_spans`` say which
    of the schemas reads records that name none, of the current generation; ``shaped_by`` by which
    configuration its rows were made. ``routes`` are all tables that rows were ever routed to, each of which
    is ``routed_from`` this one, by its uuid. ``redrives`` counts the commits that took dead letters out as
    rows. ``cdc`` is how far a mirror is in its source's log, None of every other table.
    """

    topic: str
    generation: int
    next_offsets: dict[int, int]
    cluster_id: str | None = None
    topic_id: str | None = None
    earlier: dict[int, dict[int, int]] = field(default_factory=dict)
    last_commits: tuple[CommitRecord, ...] = ()
    anchor: int | None = None
    pending_dead_letters: PendingDeadLetters | None = None
    starts: dict[int, int] = field(default_factory=dict)
    last_drain: LastDrain | None = None
    replay_epoch: int = 0
    compacted_files: int = 0
    leader_epochs: dict[int, tuple[int, int]] = field(default_factory=dict)
    last_drain_offsets: CommitRecord | None = None
    schemas: dict[SchemaKey, str] = field(default_factory=dict)
    columns: ColumnMap = field(default_factory=dict)
    layout: str | None = None
    schema_spans: Spans = ()
    shaped_by: ShapedSpans = ()
    routes: tuple[str, ...] = ()
    owed_routes: PendingRoutes | None = None
    routed_from: str | None = None
    redrives: int = 0
    cdc: Cdc | None = None

    @property
    def first_offsets(self) -> dict[int, int]:
        """Return the first offset of the current rows, by partition."""
        return {**self.starts, **(self.cdc.began if self.cdc else {})}

    def has_landed(self, attempt: str) -> bool:
        """True if this attempt's commit is among the table's last commits."""
        return any(commit.attempt == attempt for commit in self.last_commits)

    @property
    def table_layout(self) -> Layout:
        """Return the table's layout."""
        return layout_named(self.layout or "flat")

    @property
    def pending_files(self) -> tuple[WrittenFile, ...]:
        """Files that are pending for other tables, or were until they were added."""
        letters = self.pending_dead_letters.files if self.pending_dead_letters else ()
        return (*letters, *chain(*(self.owed_routes.files.values() if self.owed_routes else ())))

    def ranges_of(self, attempt: str) -> OffsetRanges:
        """Return the offset ranges of one of the last commits; empty for an older one."""
        return next((commit.ranges for commit in self.last_commits if commit.attempt == attempt), NO_RANGES)

    def last_drained(self) -> OffsetRanges:
        """Return the ranges of the last drain; empty if there was none or it is no longer known."""
        if self.last_drain is None:
            return next((c.ranges for c in reversed(self.last_commits) if c.ranges), NO_RANGES)
        attempt, known = self.last_drain.attempt, self.last_drain_offsets
        return known.ranges if known and known.attempt == attempt else self.ranges_of(attempt)

    def with_attempt(self, attempt: str, ranges: OffsetRanges = NO_RANGES) -> Progress:
        """Return the progress with one more landed attempt; earlier ones lose their ranges.

        With thousands of partitions they would be most of what every commit writes.
        """
        before = (CommitRecord(commit.attempt, NO_RANGES) for commit in self.last_commits)
        commits = (*before, CommitRecord(attempt, ranges))
        return replace(self, last_commits=commits[-LAST_COMMITS_KEPT:])

    def after_batch(
        self, batch: Batch, dead_letters: PendingDeadLetters | None, last_drain: LastDrain | None = None
    ) -> Progress:
        """Return the progress after ``batch`` lands; the caller that stages it sets ``anchor``.

        Ids that the table does not know are the batch's from then on: its broker was too old to tell, or its
        user had no right to ask.
        """
        starts, ends = batch.ranges.starts, batch.ranges.ends
        # Where an id is not known, a batch may land after the table was given another source, whose leaders
        # are counted anew.
        is_same = (batch.cluster_id, batch.topic_id) == (self.cluster_id, self.topic_id)
        epochs = {p: (ends[p], epoch) for p, epoch in batch.leader_epochs.items() if is_same}
        return replace(
            self.with_attempt(batch.attempt, batch.ranges),
            next_offsets={**self.next_offsets, **ends},
            starts={**starts, **self.starts},
            cluster_id=self.cluster_id or batch.cluster_id,
            topic_id=self.topic_id or batch.topic_id,
            leader_epochs={**self.leader_epochs, **epochs},
            schema_spans=self.spans_with(batch),
            shaped_by=kept.shapes_after_drain(self.shaped_by, batch.shaped_by, starts),
            pending_dead_letters=dead_letters,
            owed_routes=None,
            last_drain=last_drain or self.last_drain,
            last_drain_offsets=(
                CommitRecord(last_drain.attempt, batch.ranges) if last_drain else self.last_drain_offsets
            ),
        )

    def after_replay(self, batch: Batch, dead_letters: PendingDeadLetters) -> Progress:
        """Return the progress after a replay lands: offsets stay, other replays of its epoch are fenced."""
        return replace(
            self.with_attempt(batch.attempt, batch.ranges),
            replay_epoch=self.replay_epoch + 1,
            pending_dead_letters=dead_letters,
            owed_routes=None,
            schema_spans=self.spans_with(batch),
            shaped_by=kept.shapes_after_replay(self.shaped_by, batch.shaped_by, batch.ranges),
        )

    def with_pending_routes(
        self,
        attempt: str,
        ranges: OffsetRanges,
        files: Mapping[str, tuple[WrittenFile, ...]],
        *,
        replaces: bool = False,
    ) -> Progress:
        """Return the progress with pending files for routed tables.

        What ``replaces`` the rows of the ranges does so in every table that there may be any in.
        """
        every = {**(dict.fromkeys(self.routes, ()) if replaces else {}), **files}
        return replace(
            self,
            routes=tuple(sorted({*self.routes, *files})),
            owed_routes=PendingRoutes(attempt, ranges, every, replaces) if every else None,
        )

    def after_redrive(
        self, batch: Batch, again: Sequence[WrittenFile], coordinates: Sequence[OffsetRange] | None
    ) -> Progress:
        """Return the progress after a redrive of ``batch``.

        ``coordinates`` are theirs, None too many to name; ``again`` are files of those that failed again.
        Offsets stay, others of its epoch are fenced.
        """
        pending = PendingDeadLetters(
            batch.attempt, NO_RANGES, tuple(again), replaces=True, redriven=batch.letters
        )
        return replace(
            self.with_attempt(batch.attempt),
            replay_epoch=self.replay_epoch + 1,
            redrives=self.redrives + 1,
            pending_dead_letters=pending,
            schema_spans=self.spans_with(batch),
            shaped_by=kept.shapes_after_redrive(self.shaped_by, batch.shaped_by, coordinates, batch.ranges),
        )

    def with_schemas(self, schemas: Mapping[SchemaKey, str]) -> Progress:
        """Return the progress with these schema digests added."""
        return replace(self, schemas={**schemas, **self.schemas}) if schemas else self

    def spans_with(self, batch: Batch) -> Spans:
        """Return the schemas of records without a schema id after ``batch`` has landed."""
        return batch.kind.spans_after(self.schema_spans, batch.read_by, batch.ranges.starts)

    def with_fence(self) -> Progress:
        """Return the progress after which no earlier planned drain or replay can land."""
        return replace(self, rollbacks=self.rollbacks + 1, replay_epoch=self.replay_epoch + 1)

    @property
    def format_version(self) -> int:
        """Return the oldest format version that can hold it.

        A version before the second would forget which columns are whose; one before the third what it owes
        the tables that rows are routed to, and it would go back past a redrive without its letters; one
        before the fourth would append to a mirror; one before the fifth would not see whose changes it takes.
        """
        if self.cdc is not None:
            return 4 if self.cdc.source is None else 5
        if self.routes or self.routed_from is not None or self.redrives:
            return 3
        return 2 if self.columns or self.schema_spans or self.layout is not None else 1

    def to_properties(self) -> dict[str, str]:
        """Return the table properties; all keys are always written, except unset ids and empty routes."""
        generations = {**self.earlier, self.generation: self.next_offsets}
        properties = {
            PROPERTY_FORMAT_VERSION: str(self.format_version),
            PROPERTY_OFFSETS: _dumps({self.topic: generations}),
        }
        # Who routes nothing has no word of it; once a table is named here, one always is.
        unsaid = {*(() if self.routes or self.owed_routes else ("routes", "owed_routes"))}
        unsaid |= {"cdc"} if self.cdc is None else set()
        for name, codec in _codecs().items():
            if name in unsaid:
                continue
            properties[_property(name)] = _dumps(codec.to_plain(getattr(self, name)))
        ids = {_property(name): getattr(self, name) for name in _IDS}
        return properties | {name: str(value) for name, value in ids.items() if value is not None}


def has_progress(properties: Mapping[str, str]) -> bool:
    """True if Sluice created the table."""
    return PROPERTY_FORMAT_VERSION in properties


def progress_from_properties(properties: Mapping[str, str], *, table: str) -> Progress:
    """Read the progress from table properties.

    Raises ``CorruptLog``: of a newer format (upgrade Sluice) or damaged by hand (restore the properties).
    """
    version = properties.get(PROPERTY_FORMAT_VERSION, "")
    if not version.isdigit() or int(version) > FORMAT_VERSION:
        raise fault("newer-format", version=version or "?", newest=FORMAT_VERSION, table=table)
    try:
        return _parse(properties)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise fault("damaged-progress", why=error, table=table) from error


def _parse(properties: Mapping[str, str]) -> Progress:
    texts = {name: properties.get(_property(name)) for name in (*_codecs(), *_IDS)}
    needed = (PROPERTY_OFFSETS, *map(_property, _ALWAYS))
    if missing := [name for name in needed if name not in properties]:
        raise ValueError(f"{', '.join(missing)} is missing")
    offsets = properties[PROPERTY_OFFSETS]
    topic, generations = _read(PROPERTY_OFFSETS, offsets, lambda text: _only_topic(_OFFSETS.from_json(text)))
    current = max(generations)
    there = {name: text for name, text in texts.items() if name not in _IDS and text is not None}
    anchor = texts["anchor"]
    return Progress(
        topic=topic,
        generation=current,
        next_offsets=generations.pop(current),
        earlier=generations,
        cluster_id=texts["cluster_id"],
        topic_id=texts["topic_id"],
        layout=texts["layout"],
        routed_from=texts["routed_from"],
        anchor=None if anchor is None else _read(_property("anchor"), anchor, int),
        **{name: _read(_property(name), text, _codecs()[name].from_json) for name, text in there.items()},
    )


def _read(name: str, text: str, parse: Callable[[str], _T]) -> _T:
    """Return the property's value. Raises ``ValueError`` with its name, its text and the mistake."""
    try:
        return parse(text)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{name} is {text[:_SHOWN_CHARACTERS]!r} ({str(error).lstrip(': ')})") from error


def _only_topic(offsets: dict[str, dict[int, dict[int, int]]]) -> tuple[str, dict[int, dict[int, int]]]:
    if len(offsets) != 1 or not all(offsets.values()):
        raise ValueError("it must have one topic with a generation")
    return next(iter(offsets.items()))


_OFFSETS = JsonCodec(dict[str, dict[int, dict[int, int]]])


@cache
def _codecs() -> dict[str, JsonCodec[Any]]:
    """Return the codecs of the fields that are separate properties."""
    hints = get_type_hints(Progress)
    names = (field.name for field in fields(Progress))
    return {name: JsonCodec(hints[name]) for name in names if name not in _NOT_BY_NAME}


def _property(field_name: str) -> str:
    return PREFIX + field_name.replace("_", "-")


def _dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)

"""A table's progress: the ``sluice.*`` properties that travel in the same commit as the data. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field, replace
from typing import Any, TypeVar

from spark_jobs.protocol.batch import Batch
from spark_jobs.protocol.errors import CorruptLog
from spark_jobs.protocol.json_codec import JsonCodec
from spark_jobs.protocol.offsets import NO_RANGES, OffsetRanges
from spark_jobs.protocol.skips import Skip
from spark_jobs.protocol.written_file import WrittenFile

_T = TypeVar("_T")

FORMAT_VERSION = 1
LAST_COMMITS_KEPT = 20

PREFIX = "sluice."  # of table properties and of the words of a snapshot's summary
PROPERTY_FORMAT_VERSION = "sluice.format-version"
PROPERTY_OFFSETS = "sluice.offsets"
PROPERTY_TOPIC_ID = "sluice.topic-id"
PROPERTY_CLUSTER_ID = "sluice.cluster-id"
PROPERTY_LAST_COMMITS = "sluice.last-commits"
PROPERTY_ANCHOR = "sluice.anchor"
PROPERTY_STARTS = "sluice.starts"
PROPERTY_LAST_DRAIN = "sluice.last-drain"
PROPERTY_REPLAY_EPOCH = "sluice.replay-epoch"
PROPERTY_PAUSED = "sluice.paused"
PROPERTY_COMPACTED_FILES = "sluice.compacted-files"
PROPERTY_SKIPPED = "sluice.skipped"
PROPERTY_ROLLBACKS = "sluice.rollbacks"
PROPERTY_LEADER_EPOCHS = "sluice.leader-epochs"
PROPERTY_PENDING_DEAD_LETTERS = "sluice.pending-dead-letters"


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """One landed attempt and the offsets it brought; no ranges when it brought none."""

    attempt: str
    ranges: OffsetRanges


@dataclass(frozen=True, slots=True)
class PendingDeadLetters:
    """Dead-letter files a landed data commit owes to the dead-letter table.

    With ``replaces`` the dead letters that are there of the offsets ``ranges`` go in the same commit.
    """

    attempt: str
    ranges: OffsetRanges
    files: tuple[WrittenFile, ...]
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class _StoredDeadLetters:
    attempt: str
    starts: dict[int, int]
    ends: dict[int, int]
    files: tuple[WrittenFile, ...]
    replaces: bool = False


_STORED_DEAD_LETTERS = JsonCodec(_StoredDeadLetters)


@dataclass(frozen=True, slots=True)
class LastDrain:
    """What the last drained batch was like, whatever upkeep and replays did to the table since.

    ``records`` are offsets, ``bytes_read`` Kafka values and keys; times in milliseconds since the epoch.
    """

    attempt: str
    committed_at_ms: int
    records: int
    bytes_read: int
    valid_through_ms: int | None


@dataclass(frozen=True, slots=True)
class Pause:
    """An operator stopped the pipeline's drains; ``at_ms`` is milliseconds since the epoch."""

    reason: str
    actor: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a table stands: next offsets of every generation, the source's identity, the last commits.

    ``next_offsets`` maps partition to next offset for the current ``generation``; ``earlier`` keeps the
    generations before it. ``anchor`` is the snapshot id the last commit made; None only before creation.
    ``starts`` are the current generation's first offsets. ``replay_epoch`` goes up with every replay that
    landed or was given up, and fences those planned before. ``compacted_files`` is how many data files the
    last compaction left. ``skipped`` are the offsets an operator left out. ``rollbacks`` counts the table's:
    offsets come round again after one, so it fences the drains that were planned before. ``leader_epochs``
    holds by partition an offset and the latest leader epoch that a record below it can have: when the log
    of that epoch ends below the offset by now, Kafka has lost records that the table has (KIP-320).
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
    paused: Pause | None = None
    compacted_files: int = 0
    skipped: tuple[Skip, ...] = ()
    rollbacks: int = 0
    leader_epochs: dict[int, tuple[int, int]] = field(default_factory=dict)

    def has_landed(self, attempt: str) -> bool:
        """True if this attempt's commit is among the last ones of the table."""
        return any(commit.attempt == attempt for commit in self.last_commits)

    def ranges_of(self, attempt: str) -> OffsetRanges:
        """Return the offsets that one of the last commits brought; none for an older one."""
        return next((commit.ranges for commit in self.last_commits if commit.attempt == attempt), NO_RANGES)

    def recorded(self, attempt: str, ranges: OffsetRanges = NO_RANGES) -> Progress:
        """Return the same with one more landed attempt."""
        commits = (*self.last_commits, CommitRecord(attempt, ranges))
        return replace(self, last_commits=commits[-LAST_COMMITS_KEPT:])

    def advanced(
        self, batch: Batch, dead_letters: PendingDeadLetters | None, last_drain: LastDrain | None = None
    ) -> Progress:
        """Return the progress after ``batch`` lands; who stages it sets ``anchor`` to the snapshot's id."""
        starts, ends = batch.ranges.starts, batch.ranges.ends
        # A batch may land after the table was given another source, whose leaders are counted anew.
        is_same = (batch.cluster_id, batch.topic_id) == (self.cluster_id, self.topic_id)
        epochs = {p: (ends[p], epoch) for p, epoch in batch.leader_epochs.items() if is_same}
        return replace(
            self.recorded(batch.attempt, batch.ranges),
            next_offsets={**self.next_offsets, **ends},
            starts={**starts, **self.starts},
            leader_epochs={**self.leader_epochs, **epochs},
            pending_dead_letters=dead_letters,
            last_drain=last_drain or self.last_drain,
        )

    def replayed(self, batch: Batch, dead_letters: PendingDeadLetters) -> Progress:
        """Return the progress after a replay lands: offsets stay, others of its epoch are fenced."""
        return replace(
            self.recorded(batch.attempt, batch.ranges),
            replay_epoch=self.replay_epoch + 1,
            pending_dead_letters=dead_letters,
        )

    def to_properties(self) -> dict[str, str]:
        """Return the table properties; every key is written every time, but for ids that are None."""
        generations = {**self.earlier, self.generation: self.next_offsets}
        commits = [[c.attempt, c.ranges.starts, c.ranges.ends] for c in self.last_commits]
        properties = {
            PROPERTY_FORMAT_VERSION: str(FORMAT_VERSION),
            PROPERTY_OFFSETS: _dumps({self.topic: generations}),
            PROPERTY_LAST_COMMITS: _dumps(commits),
            PROPERTY_PENDING_DEAD_LETTERS: _dumps(_plain(_stored(self.pending_dead_letters))),
            PROPERTY_STARTS: _dumps(self.starts),
            PROPERTY_LAST_DRAIN: _dumps(_plain(self.last_drain)),
            PROPERTY_REPLAY_EPOCH: str(self.replay_epoch),
            PROPERTY_PAUSED: _dumps(_plain(self.paused)),
            PROPERTY_COMPACTED_FILES: str(self.compacted_files),
            PROPERTY_SKIPPED: _dumps([astuple(skip) for skip in self.skipped]),
            PROPERTY_ROLLBACKS: str(self.rollbacks),
            PROPERTY_LEADER_EPOCHS: _dumps(self.leader_epochs),
        }
        if self.cluster_id is not None:
            properties[PROPERTY_CLUSTER_ID] = self.cluster_id
        if self.topic_id is not None:
            properties[PROPERTY_TOPIC_ID] = self.topic_id
        if self.anchor is not None:
            properties[PROPERTY_ANCHOR] = str(self.anchor)
        return properties


def has_progress(properties: Mapping[str, str]) -> bool:
    """True if the table was made by Sluice."""
    return PROPERTY_FORMAT_VERSION in properties


def progress_from_properties(properties: Mapping[str, str], *, table: str) -> Progress:
    """Read the progress back.

    Raises ``CorruptLog``: of a newer format (upgrade Sluice) or damaged by hand (restore the properties).
    """
    version = properties.get(PROPERTY_FORMAT_VERSION, "")
    if not version.isdigit() or int(version) > FORMAT_VERSION:
        raise CorruptLog(
            f"the table's progress has format {version or '?'}, this version reads up to {FORMAT_VERSION}",
            code="newer-format",
            hint="Upgrade Sluice to the version that wrote it.",
            table=table,
        )
    try:
        return _parse(properties)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise CorruptLog(
            f"the table's sluice.* properties cannot be read: {type(error).__name__}: {error}",
            code="damaged-progress",
            hint="They are written by commits only; restore them from an earlier metadata file.",
            table=table,
        ) from error


def _parse(properties: Mapping[str, str]) -> Progress:
    ((topic, by_generation),) = json.loads(properties[PROPERTY_OFFSETS]).items()
    generations = {int(g): _offsets(offsets) for g, offsets in by_generation.items()}
    current = max(generations)
    anchor = properties.get(PROPERTY_ANCHOR)
    return Progress(
        topic=topic,
        generation=current,
        next_offsets=generations.pop(current),
        cluster_id=properties.get(PROPERTY_CLUSTER_ID),
        topic_id=properties.get(PROPERTY_TOPIC_ID),
        earlier=generations,
        last_commits=tuple(
            CommitRecord(attempt, OffsetRanges.between(_offsets(starts), _offsets(ends)))
            for attempt, starts, ends in json.loads(properties[PROPERTY_LAST_COMMITS])
        ),
        anchor=int(anchor) if anchor is not None else None,
        pending_dead_letters=_pending(properties[PROPERTY_PENDING_DEAD_LETTERS]),
        # A table that was last committed to before there were these has none of them.
        starts=_offsets(json.loads(properties.get(PROPERTY_STARTS, "{}"))),
        last_drain=_optional(LastDrain, properties.get(PROPERTY_LAST_DRAIN, "null")),
        replay_epoch=int(properties.get(PROPERTY_REPLAY_EPOCH, "0")),
        paused=_optional(Pause, properties.get(PROPERTY_PAUSED, "null")),
        compacted_files=int(properties.get(PROPERTY_COMPACTED_FILES, "0")),
        skipped=tuple(Skip(*skip) for skip in json.loads(properties.get(PROPERTY_SKIPPED, "[]"))),
        rollbacks=int(properties.get(PROPERTY_ROLLBACKS, "0")),
        leader_epochs={
            int(partition): (int(offset), int(epoch))
            for partition, (offset, epoch) in json.loads(properties.get(PROPERTY_LEADER_EPOCHS, "{}")).items()
        },
    )


def _plain(value: _StoredDeadLetters | LastDrain | Pause | None) -> dict[str, Any] | None:
    return None if value is None else asdict(value)


def _optional(kind: type[_T], text: str) -> _T | None:
    value = json.loads(text)
    return None if value is None else kind(**value)


def _pending(text: str) -> PendingDeadLetters | None:
    if text.strip() == "null":
        return None
    stored = _STORED_DEAD_LETTERS.from_json(text)
    ranges = OffsetRanges.between(stored.starts, stored.ends)
    return PendingDeadLetters(stored.attempt, ranges, stored.files, stored.replaces)


def _stored(owed: PendingDeadLetters | None) -> _StoredDeadLetters | None:
    if owed is None:
        return None
    return _StoredDeadLetters(owed.attempt, owed.ranges.starts, owed.ranges.ends, owed.files, owed.replaces)


def _offsets(value: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in value.items()}


def _dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)

"""A table's progress: the ``sluice.*`` properties that travel in the same commit as the data. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from spark_jobs.core.errors import CorruptLog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.core.batch import Batch

FORMAT_VERSION = 1
LAST_COMMITS_KEPT = 20

PROPERTY_FORMAT_VERSION = "sluice.format-version"
PROPERTY_OFFSETS = "sluice.offsets"
PROPERTY_TOPIC_ID = "sluice.topic-id"
PROPERTY_CLUSTER_ID = "sluice.cluster-id"
PROPERTY_LAST_COMMITS = "sluice.last-commits"
PROPERTY_ANCHOR = "sluice.anchor"
PROPERTY_PENDING_DEAD_LETTERS = "sluice.pending-dead-letters"


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """One landed attempt: offsets by partition before (``starts``) and after (``ends``, exclusive)."""

    attempt: str
    starts: dict[int, int]
    ends: dict[int, int]


@dataclass(frozen=True, slots=True)
class PendingDeadLetters:
    """Dead-letter files a landed data commit owes to the dead-letter table.

    ``files`` are data-file descriptions as written by ``spark_jobs.io.data_files.to_json``.
    """

    attempt: str
    starts: dict[int, int]
    ends: dict[int, int]
    files: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a table stands: next offsets of every generation, the source's identity, the last commits.

    ``next_offsets`` maps partition to next offset for the current ``generation``; ``earlier`` keeps the
    generations before it. ``anchor`` is the snapshot id the last commit made; None only before creation.
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

    def has_landed(self, attempt: str) -> bool:
        """Whether this attempt's commit is among the last ones of the table."""
        return any(commit.attempt == attempt for commit in self.last_commits)

    def advanced(self, batch: Batch, dead_letters: PendingDeadLetters | None) -> Progress:
        """Progress after ``batch`` lands; the caller sets ``anchor`` once it knows the snapshot id."""
        record = CommitRecord(batch.attempt, batch.ranges.starts, batch.ranges.ends)
        return replace(
            self,
            next_offsets={**self.next_offsets, **batch.ranges.ends},
            last_commits=(*self.last_commits, record)[-LAST_COMMITS_KEPT:],
            pending_dead_letters=dead_letters,
        )

    def to_properties(self) -> dict[str, str]:
        """The table properties of this progress; every key is written every time."""
        generations = {**self.earlier, self.generation: self.next_offsets}
        properties = {
            PROPERTY_FORMAT_VERSION: str(FORMAT_VERSION),
            PROPERTY_OFFSETS: _dumps({self.topic: generations}),
            PROPERTY_LAST_COMMITS: _dumps([[c.attempt, c.starts, c.ends] for c in self.last_commits]),
            PROPERTY_PENDING_DEAD_LETTERS: _dumps(_pending_to_json(self.pending_dead_letters)),
        }
        if self.cluster_id is not None:
            properties[PROPERTY_CLUSTER_ID] = self.cluster_id
        if self.topic_id is not None:
            properties[PROPERTY_TOPIC_ID] = self.topic_id
        if self.anchor is not None:
            properties[PROPERTY_ANCHOR] = str(self.anchor)
        return properties


def has_progress(properties: Mapping[str, str]) -> bool:
    """Whether the table was made by Sluice."""
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
            CommitRecord(attempt, _offsets(starts), _offsets(ends))
            for attempt, starts, ends in json.loads(properties[PROPERTY_LAST_COMMITS])
        ),
        anchor=int(anchor) if anchor is not None else None,
        pending_dead_letters=_pending_from_json(json.loads(properties[PROPERTY_PENDING_DEAD_LETTERS])),
    )


def _pending_to_json(pending: PendingDeadLetters | None) -> dict[str, Any] | None:
    if pending is None:
        return None
    return {
        "attempt": pending.attempt,
        "starts": pending.starts,
        "ends": pending.ends,
        "files": list(pending.files),
    }


def _pending_from_json(value: dict[str, Any] | None) -> PendingDeadLetters | None:
    if value is None:
        return None
    return PendingDeadLetters(
        value["attempt"], _offsets(value["starts"]), _offsets(value["ends"]), tuple(value["files"])
    )


def _offsets(value: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in value.items()}


def _dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)

"""Decides which files that Iceberg lists as orphans may be deleted. Pure.

Iceberg knows what the table's metadata named when it looked. It does not know of batches under way, held or
adopted later, nor of another table that shares the folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spark_jobs.storage.paths import is_inside, normalise_path

# In these lie manifests and manifest lists, whose names do not tell which attempt wrote them.
_MANIFEST_SUFFIX = ".avro"


@dataclass(frozen=True, slots=True)
class OrphanFacts:
    """The facts by which a listed file is judged.

    ``named`` is everything that metadata read after the log names, as ``normalise_path`` spells it.
    ``unfinished`` are the attempts of the log that are not history, read after the listing, with the time
    each began; their files carry their names. Files modified at or after ``before_us`` are too young. Times
    are microseconds since the epoch.
    """

    named: frozenset[str]
    unfinished: Mapping[str, int]
    before_us: int


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Listed files that are ``deletable``; ``kept`` counts the others by reason."""

    deletable: tuple[str, ...]
    kept: dict[str, int]


def judge_orphans(listed: Mapping[str, int | None], facts: OrphanFacts) -> Verdicts:
    """Judge all listed files; the mapping is from address to modification time in µs, None if missing."""
    deletable: list[str] = []
    kept: Counter[str] = Counter()
    for address, modified_us in sorted(listed.items()):
        reason = _reason_to_keep(address, modified_us, facts)
        if reason is None:
            deletable.append(address)
        else:
            kept[reason] += 1
    return Verdicts(tuple(deletable), dict(kept))


def overlaps(locations: Iterable[str], others: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return other tables with a location that is, contains or is inside one of these."""
    own = tuple(filter(None, locations))
    around = (
        name
        for name, foreign in others.items()
        if any(is_inside(a, b) or is_inside(b, a) for a in own for b in foreign if b)
    )
    return tuple(sorted(around))


def _reason_to_keep(address: str, modified_us: int | None, facts: OrphanFacts) -> str | None:
    name = address.rpartition("/")[2]
    if modified_us is None:
        return "gone"
    if modified_us >= facts.before_us:
        return "young"
    if normalise_path(address) in facts.named:
        return "named"
    if any(attempt in name for attempt in facts.unfinished):
        return "unfinished"
    # The manifests of a commit that is still under way: a process that is stopped for days may yet send it.
    if name.endswith(_MANIFEST_SUFFIX) and any(
        modified_us >= began_us for began_us in facts.unfinished.values()
    ):
        return "unfinished"
    return None

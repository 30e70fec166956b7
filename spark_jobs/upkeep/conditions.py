"""Which upkeep a table is due for, and why: by what its metadata shows, not by the clock alone. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from spark_jobs.upkeep.figures import MEDIUM, SMALL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_jobs.config.settings import UpkeepSettings
    from spark_jobs.upkeep.figures import TableFigures, Tier

# So many medium files for each small one that starts a compaction: rewriting them costs that much more.
MEDIUM_FACTOR = 5
# A manifest costs every reader and every commit a little; Iceberg's writers merge them at 100.
MANIFESTS_DUE = 50
# Expiring one snapshot a minute would be a Spark job a minute: let some more come together first.
SNAPSHOT_SLACK_SHARE = 0.2
SNAPSHOT_AGE_SLACK_SHARE = 0.1
ORPHANS_EVERY_SECONDS = 24 * 3600.0


class UpkeepKind(StrEnum):
    """One sort of upkeep; the order is the one in which they help each other."""

    COMPACTION = "compaction"
    SNAPSHOTS = "snapshots"
    MANIFESTS = "manifests"
    ORPHANS = "orphans"


@dataclass(frozen=True, slots=True)
class Due:
    """A kind of upkeep that should run now, and why in words for people."""

    kind: UpkeepKind
    reason: str


def due_upkeep(
    figures: Sequence[TableFigures],
    settings: UpkeepSettings,
    *,
    now_ms: int,
    seconds_since_orphans: float | None,
) -> tuple[Due, ...]:
    """What a pipeline is due for; ``figures`` are of its table, its dead-letter table and the books.

    ``seconds_since_orphans`` is since orphans were last removed or looked for first; None makes them due.
    """
    rewritable = [f for f in figures if f.shows_history]
    collectable = [f for f in figures if not f.keeps_garbage]
    reasons: dict[UpkeepKind, str | None] = {
        UpkeepKind.COMPACTION: _first(compaction_due(f, settings) for f in rewritable),
        UpkeepKind.SNAPSHOTS: _first(expiry_due(f, settings, now_ms) for f in collectable),
        UpkeepKind.MANIFESTS: _first(manifests_due(f) for f in rewritable),
        UpkeepKind.ORPHANS: _orphans_due(seconds_since_orphans) if collectable else None,
    }
    return tuple(Due(kind, reason) for kind, reason in reasons.items() if reason)


def due_tiers(figures: TableFigures, settings: UpkeepSettings) -> tuple[Tier, ...]:
    """The tiers that have enough files for a compaction, small ones first."""
    return full_tiers(figures, settings.compact_above)


def full_tiers(figures: TableFigures, least: int) -> tuple[Tier, ...]:
    """The tiers with ``least`` files that can be merged, a multiple of it among medium ones."""
    tiers = {
        SMALL: (figures.mergeable_small_files, least),
        MEDIUM: (figures.mergeable_medium_files, least * MEDIUM_FACTOR),
    }
    return tuple(tier for tier, (files, enough) in tiers.items() if files >= enough)


def compaction_due(figures: TableFigures, settings: UpkeepSettings) -> str | None:
    """Why the table should be compacted, or None."""
    files = {SMALL: figures.mergeable_small_files, MEDIUM: figures.mergeable_medium_files}
    parts = [f"{files[tier]:,} {tier.name} data files can be merged" for tier in due_tiers(figures, settings)]
    return ", ".join(parts) or None


def expiry_due(figures: TableFigures, settings: UpkeepSettings, now_ms: int) -> str | None:
    """Why snapshots should expire, or None; with some slack, so that it is worth a job."""
    most = settings.keep_snapshots + max(1, int(settings.keep_snapshots * SNAPSHOT_SLACK_SHARE))
    if figures.expirable_snapshots >= most:
        return f"{figures.expirable_snapshots:,} snapshots, {settings.keep_snapshots:,} are kept"
    if figures.oldest_expirable_ms is None:
        return None
    age_seconds = (now_ms - figures.oldest_expirable_ms) / 1000
    if age_seconds > settings.keep_snapshots_for_seconds * (1 + SNAPSHOT_AGE_SLACK_SHARE):
        return f"the oldest snapshot is {age_seconds / 3600:,.0f} h old"
    return None


def manifests_due(figures: TableFigures) -> str | None:
    """Why manifests should be rewritten, or None."""
    if figures.small_manifests >= MANIFESTS_DUE:
        return f"{figures.small_manifests:,} small manifests"
    return None


def expiry_cutoff_ms(newest_first_ms: Sequence[int], settings: UpkeepSettings, now_ms: int) -> int | None:
    """Snapshots before this time (exclusive) expire: beyond the count kept, or too old; None for none.

    ``newest_first_ms`` are the times of main's snapshots, its newest one first.
    """
    cutoff = now_ms - settings.keep_snapshots_for_seconds * 1000
    if len(newest_first_ms) > settings.keep_snapshots:
        cutoff = max(cutoff, newest_first_ms[settings.keep_snapshots - 1])
    is_any_before = any(at < cutoff for at in newest_first_ms[1:])
    return cutoff if is_any_before else None


def _orphans_due(seconds_since: float | None) -> str | None:
    if seconds_since is None:
        return "looked for every time"
    return (
        f"orphans were last looked for {seconds_since / 3600:.0f} h ago"
        if seconds_since >= ORPHANS_EVERY_SECONDS
        else None
    )


def _first(reasons: Iterable[str | None]) -> str | None:
    return next((reason for reason in reasons if reason), None)

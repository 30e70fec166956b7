"""Compaction: small data files become larger ones by Iceberg's own procedure, tier by tier, cold data first.

Rows stay in the order in which they came. A drain that commits meanwhile costs neither side its work: what
was written in between is not part of the rewrite, and each commits on top of the other.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spark_jobs.books.columns import STARTED_AT
from spark_jobs.protocol.errors import RetryableError
from spark_jobs.schema.metadata_columns import GENERATION, INGESTED_AT, OFFSET, PARTITION
from spark_jobs.upkeep.conditions import UpkeepKind, due_tiers, full_tiers
from spark_jobs.upkeep.figures import MIN_FILES_TO_MERGE
from spark_jobs.upkeep.read_figures import table_figures
from spark_jobs.upkeep.upkeep import Done, tidy_tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections
    from spark_jobs.protocol.progress import Progress
    from spark_jobs.upkeep.figures import Tier
    from spark_jobs.upkeep.upkeep import TableWork, UpkeepResult

# What was ingested longer ago is no longer added to: it is rewritten once, and first.
COLD_AFTER_SECONDS = 3600
# A group is sorted as a whole and committed by itself: this much has to fit on Spark's disks.
MAX_GROUP_BYTES = 4 * 1024**3
# Groups at a time; each is a sort of its own on all cores.
CONCURRENT_GROUPS = 2
# Larger than any file: what is large is left alone however large it is.
_NO_MAXIMUM = 1 << 50
_ROW_ORDER = (GENERATION, PARTITION, OFFSET)


def compact(
    pipeline: PipelineConfig, connections: Connections, *, say: Callable[[str], None] = lambda _line: None
) -> UpkeepResult:
    """Merge small files of the pipeline's tables, then make main the anchor again.

    Does the tiers that are due; where none is, every one that has files to merge. Killed at any point it
    leaves a table that every reader and drain goes on with; what it wrote and did not commit is an orphan
    later. Raises every kind of ``SluiceError``, ``RetryableError`` also when some files could not be merged;
    what was committed before stays.
    """
    return tidy_tables(UpkeepKind.COMPACTION, pipeline, connections, _compact_table, say)


def _compact_table(hand: TableWork) -> Done:
    if not hand.figures.shows_history:
        return Done(note="the catalog shows no snapshot history, which compaction needs")
    cold_before = dt.datetime.fromtimestamp(hand.connections.now_us() / 1e6 - COLD_AFTER_SECONDS, dt.UTC)
    figures = hand.figures
    least = 1 if not due_tiers(figures, hand.settings) else hand.settings.compact_above
    counts: dict[str, int] = {}
    failed_files = 0
    for tier in full_tiers(figures, least):
        failed_of_tier = 0
        for before in (cold_before, None):
            if tier not in full_tiers(figures, least):
                continue
            hand.connections.fail_points.reach("compact.before-rewrite")
            merged, failed_of_tier = _rewrite(hand, tier, before)
            _add(counts, merged)
            hand.connections.fail_points.reach("compact.after-rewrite")
            figures = table_figures(hand.reload())
        failed_files += failed_of_tier  # the last pass tries what failed in the first one, too
    if not counts:
        return Done(note="no partition has enough small files to merge")
    if counts["rewritten_files"] or not failed_files:
        _reanchor(hand, figures.data_files)
    if failed_files:
        raise RetryableError(
            f"{failed_files:,} files could not be merged, {counts['rewritten_files']:,} could",
            code="upkeep-failed",
            hint="What was merged stays. The Spark server's log has each group's error; ./sluice audit finds"
            " files that cannot be read.",
            table=hand.identifier,
        )
    return Done(counts)


def _rewrite(hand: TableWork, tier: Tier, ingested_before: dt.datetime | None) -> tuple[dict[str, int], int]:
    """One call of the procedure: counts of what it did, and the files of groups that failed.

    With a time only over files that hold rows ingested before it.
    """
    which = f"{tier.name} files, {'cold ones' if ingested_before else 'all'}"
    hand.say(f"{hand.identifier}: merging {which}")
    where = {}
    time, order = (INGESTED_AT, _ROW_ORDER) if hand.is_drained else (STARTED_AT, (STARTED_AT,))
    if ingested_before is not None:
        where = {"where": f"{time} < TIMESTAMP '{ingested_before.isoformat(timespec='seconds')}'"}
    found = hand.call(
        "rewrite_data_files",
        strategy="sort",
        sort_order=", ".join(f"{column} ASC NULLS FIRST" for column in order),
        options=_options(tier),
        **where,
    )
    counts = {
        "rewritten_files": found.get("rewritten_data_files_count", 0),
        "added_files": found.get("added_data_files_count", 0),
        "rewritten_bytes": found.get("rewritten_bytes_count", 0),
    }
    hand.say(f"{hand.identifier}: {counts['rewritten_files']:,} files became {counts['added_files']:,}")
    return counts, found.get("failed_data_files_count", 0)


def _options(tier: Tier) -> dict[str, Any]:
    return {
        "min-file-size-bytes": tier.below_bytes,
        "target-file-size-bytes": tier.target_bytes,
        "max-file-size-bytes": _NO_MAXIMUM,
        "min-input-files": MIN_FILES_TO_MERGE,
        "max-file-group-size-bytes": MAX_GROUP_BYTES,
        "max-concurrent-file-group-rewrites": CONCURRENT_GROUPS,
        "partial-progress.enabled": "true",
    }


def _reanchor(hand: TableWork, data_files: int) -> None:
    def compacted(progress: Progress) -> Progress:
        return replace(progress, compacted_files=data_files)

    hand.make_anchor(compacted)
    hand.connections.fail_points.reach("compact.after-reanchor")


def _add(counts: dict[str, int], more: dict[str, int]) -> None:
    for name, number in more.items():
        counts[name] = counts.get(name, 0) + number

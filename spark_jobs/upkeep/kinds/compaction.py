"""Compaction: Iceberg's procedure merges small data files, tier by tier, cold data first.

Rows stay in the order in which they came, or get that of ``sort_by``. Where many rows are deleted by their
positions, as every change of a mirror deletes one, all files with such rows are written anew. A drain that
commits meanwhile costs neither side its work: what was written in between is not part of the rewrite, and
each commits on top of the other. Only of files whose rows it deleted the rewrite is refused, and made later.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spark_jobs.config.iceberg_terms import LEVEL, codec_of
from spark_jobs.protocol.errors import fault
from spark_jobs.upkeep.figures import MEDIUM, MIN_FILES_TO_MERGE, SMALL, TableFigures, Tier
from spark_jobs.upkeep.kind import State, UpkeepKind, UpkeepOutcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.upkeep.table_work import TableWork

# So many medium files for each small one that starts a compaction: rewriting them costs that much more.
MEDIUM_FACTOR = 5
# What was ingested longer ago is no longer added to: it is rewritten once, and first.
COLD_AFTER_SECONDS = 3600
# A group is sorted as a whole and committed by itself: this much has to fit on Spark's disks.
MAX_GROUP_BYTES = 4 * 1024**3
# Groups at a time; each is a sort of its own on all cores.
CONCURRENT_GROUPS = 2
# Every reader reads what is deleted, and leaves it out; of a small table that costs less than a job.
MOST_DELETED_SHARE = 0.2
FEW_DELETED_ROWS = 10_000
FEW_DELETE_FILES = 8
# Larger than any file: what is large is left alone however large it is.
_NO_MAXIMUM = 1 << 50


def find_reason(state: State) -> str | None:
    """Return the reason to compact a table, or None."""
    for figures in state.rewritable:
        if are_deletes_due(figures):
            return (
                f"{figures.deleted_rows:,} of {figures.rows:,} rows are deleted, in {figures.delete_files:,}"
                " delete files"
            )
        if tiers := full_tiers(figures, state.settings.compact_above):
            files = _mergeable(figures)
            return ", ".join(f"{files[tier]:,} {tier.name} data files can be merged" for tier in tiers)
    return None


def are_deletes_due(figures: TableFigures) -> bool:
    """True if deleted rows or delete files are numerous enough to slow readers."""
    many_rows = max(FEW_DELETED_ROWS, MOST_DELETED_SHARE * figures.rows)
    many_files = max(FEW_DELETE_FILES + 1, figures.data_files)
    return figures.deleted_rows >= many_rows or figures.delete_files >= many_files


def full_tiers(figures: TableFigures, least: int) -> tuple[Tier, ...]:
    """Return the tiers with ``least`` files to merge; medium files need a multiple of it."""
    enough = {SMALL: least, MEDIUM: least * MEDIUM_FACTOR}
    return tuple(tier for tier, files in _mergeable(figures).items() if files >= enough[tier])


def _mergeable(figures: TableFigures) -> dict[Tier, int]:
    return {SMALL: figures.mergeable_small_files, MEDIUM: figures.mergeable_medium_files}


def compact(work: TableWork) -> UpkeepOutcome:
    """Merge the table's small files, or drop deleted rows, then make main the anchor again.

    Does what is due; where nothing is, every tier that has files to merge, and the deleted rows. Killed at
    any point it leaves a table that every reader and drain goes on with; what it wrote and did not commit is
    an orphan later. Raises ``RetryableError`` also when some files could not be merged; what was committed
    stays.
    """
    if not work.figures.shows_history:
        return UpkeepOutcome(note="the catalog shows no snapshot history, which compaction needs")
    cold_before = dt.datetime.fromtimestamp(work.connections.now_us() / 1e6 - COLD_AFTER_SECONDS, dt.UTC)
    figures = work.figures
    least = work.settings.compact_above if full_tiers(figures, work.settings.compact_above) else 1
    counts: Counter[str] = Counter()
    failed_files = 0
    is_of_deletes = are_deletes_due(figures) or (least == 1 and figures.deleted_rows > 0)
    if is_of_deletes:
        work.connections.fail_points.reach("compact.before-rewrite")
        merged, failed_files = _rewrite(work, MEDIUM, None, leaves_out_deleted=True)
        counts.update(merged)
        work.connections.fail_points.reach("compact.after-rewrite")
        figures = work.read_figures()
    for tier in full_tiers(figures, least):
        failed_of_tier = 0
        for before in (cold_before, None):
            if tier not in full_tiers(figures, least):
                continue
            work.connections.fail_points.reach("compact.before-rewrite")
            merged, failed_of_tier = _rewrite(work, tier, before)
            counts.update(merged)
            work.connections.fail_points.reach("compact.after-rewrite")
            figures = work.read_figures()
        failed_files += failed_of_tier  # the last pass tries what failed in the first one, too
    if not counts:
        return UpkeepOutcome(note="no partition has enough small files to merge")
    if is_of_deletes or are_deletes_due(figures):
        _forget_dangling(work)
    if counts["rewritten_files"] or not failed_files:
        work.make_anchor(lambda progress: replace(progress, compacted_files=figures.data_files))
        work.connections.fail_points.reach("compact.after-reanchor")
    if failed_files:
        raise fault(
            "upkeep-failed.compaction",
            failed=failed_files,
            merged=counts["rewritten_files"],
            table=work.identifier,
        )
    return UpkeepOutcome(dict(counts))


KIND = UpkeepKind(
    "compaction",
    place=1,
    effect="merges small files",
    description="Merges small data files of `{table}` into larger ones and keeps the order of rows.",
    find_reason=find_reason,
    tidy=compact,
    fail_points=("compact.before-rewrite", "compact.after-rewrite", "compact.after-reanchor"),
)


def _rewrite(
    work: TableWork, tier: Tier, ingested_before: dt.datetime | None, *, leaves_out_deleted: bool = False
) -> tuple[dict[str, int], int]:
    """Call the procedure; return its counts, and the files of failed groups.

    With a time only over files that hold rows ingested before it; with ``leaves_out_deleted`` also over those
    of any size that hold deleted rows.
    """
    from spark_jobs.books.columns import STARTED_AT  # noqa: PLC0415  (the sensor asks only what is due)
    from spark_jobs.schema.declared import ordered_by  # noqa: PLC0415
    from spark_jobs.schema.iceberg_types import INGESTED_AT  # noqa: PLC0415

    which = f"{tier.name} files, {'cold ones' if ingested_before else 'all'}"
    work.say(f"{work.identifier}: merging {'files with deleted rows' if leaves_out_deleted else which}")
    where = {}
    drained = ordered_by(work.table.schema(), work.table.sort_order())
    time, order = (INGESTED_AT, drained) if work.is_drained else (STARTED_AT, (STARTED_AT,))
    if ingested_before is not None:
        where = {"where": f"{time} < TIMESTAMP '{ingested_before.isoformat(timespec='seconds')}'"}
    found = work.call(
        "rewrite_data_files",
        conf=_conf(work.table.properties),
        strategy="sort",
        sort_order=", ".join(f"{_quoted(column)} ASC NULLS FIRST" for column in order),
        options=_options(tier) | ({"delete-file-threshold": 1} if leaves_out_deleted else {}),
        **where,
    )
    counts = {
        "rewritten_files": found.get("rewritten_data_files_count", 0),
        "added_files": found.get("added_data_files_count", 0),
        "rewritten_bytes": found.get("rewritten_bytes_count", 0),
    }
    work.say(f"{work.identifier}: {counts['rewritten_files']:,} files became {counts['added_files']:,}")
    return counts, found.get("failed_data_files_count", 0)


def _forget_dangling(work: TableWork) -> None:
    """Remove entries for data files that no longer exist from delete files.

    By ``remove-dangling-deletes`` a delete file goes only when it is older than every data file.
    """
    work.call("rewrite_position_delete_files", options={"rewrite-all": "true"})


def _quoted(column: str) -> str:
    return f"`{column.replace('`', '``')}`"


def _conf(properties: Mapping[str, str]) -> dict[str, str]:
    """Return an override of a numeric gzip level, which earlier versions set: Spark's is a word."""
    is_misread = codec_of(properties) == "gzip" and LEVEL in properties
    return {"spark.sql.iceberg.compression-level": "BEST_SPEED"} if is_misread else {}


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

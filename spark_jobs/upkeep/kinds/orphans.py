"""Daily orphan removal: old files below the tables' locations that nothing refers to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.upkeep.kind import State, UpkeepKind, UpkeepOutcome

if TYPE_CHECKING:
    from spark_jobs.upkeep.table_work import TableWork

ORPHANS_EVERY_SECONDS = 24 * 3600.0


def find_reason(state: State) -> str | None:
    """Return the reason to look for orphans, or None; the tables' metadata cannot show any."""
    seconds = state.seconds_since_last
    if not state.collectable or (seconds is not None and seconds < ORPHANS_EVERY_SECONDS):
        return None
    if seconds is None:
        return "looked for every time"
    return f"orphans were last looked for {seconds / 3600:.0f} h ago"


def tidy(work: TableWork) -> UpkeepOutcome:
    """Delete what ``spark_jobs.upkeep.remove_orphans`` finds; a dry run only finds it."""
    from spark_jobs.upkeep.remove_orphans import remove_orphans  # noqa: PLC0415  (imports the lake)

    return remove_orphans(work)


KIND = UpkeepKind(
    "orphans",
    place=4,
    effect="deletes files that nothing needs",
    description="Deletes old, unreferenced files under the location of `{table}`.",
    find_reason=find_reason,
    tidy=tidy,
    fail_points=("orphans.after-listing",),
    goes_by_clock=True,
    can_rehearse=True,
)

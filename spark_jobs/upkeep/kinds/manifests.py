"""Manifest rewrite by Iceberg's procedure: commits add manifests, and every query reads all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.upkeep.kind import State, UpkeepKind, UpkeepOutcome

if TYPE_CHECKING:
    from spark_jobs.upkeep.table_work import TableWork

MIN_MANIFESTS = 2
# A manifest costs every reader and every commit a little; Iceberg's writers merge them at 100.
MANIFESTS_DUE = 50


def find_reason(state: State) -> str | None:
    """Return the reason to rewrite manifests, or None."""
    counts = (figures.small_manifests for figures in state.rewritable)
    return next((f"{count:,} small manifests" for count in counts if count >= MANIFESTS_DUE), None)


def rewrite_manifests(work: TableWork) -> UpkeepOutcome:
    """Merge the table's manifests by partition; data files are not touched."""
    if work.figures.small_manifests < MIN_MANIFESTS:
        return UpkeepOutcome(note="the table has no manifests to merge")
    if not work.figures.shows_history:
        return UpkeepOutcome(note="the catalog shows no snapshot history, which a rewrite needs")
    work.say(f"{work.identifier}: rewriting {work.figures.manifests:,} manifests")
    # Spark's cache would keep the whole metadata in memory for one pass over it.
    found = work.call("rewrite_manifests", use_caching=False)
    work.connections.fail_points.reach("manifests.after-procedure")
    work.make_anchor()
    return UpkeepOutcome({name.removesuffix("_count"): number for name, number in found.items()})


KIND = UpkeepKind(
    "manifests",
    place=3,
    effect="merges those",
    description="Merges the manifests of `{table}`: each commit adds one, and each query reads them all.",
    find_reason=find_reason,
    tidy=rewrite_manifests,
    fail_points=("manifests.after-procedure",),
)

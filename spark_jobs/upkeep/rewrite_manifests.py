"""Manifest rewrite by Iceberg's own procedure: each commit adds one, each commit and query reads them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.upkeep.conditions import UpkeepKind
from spark_jobs.upkeep.upkeep import Done, tidy_tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections
    from spark_jobs.upkeep.upkeep import TableWork, UpkeepResult

MIN_MANIFESTS = 2


def rewrite_manifests(
    pipeline: PipelineConfig, connections: Connections, *, say: Callable[[str], None] = lambda _line: None
) -> UpkeepResult:
    """Merge the manifests of the pipeline's tables, files of a partition together.

    No data file is touched. Safe to repeat and beside drains. Raises every kind of ``SluiceError``.
    """
    return tidy_tables(UpkeepKind.MANIFESTS, pipeline, connections, _rewrite, say)


def _rewrite(hand: TableWork) -> Done:
    if hand.figures.small_manifests < MIN_MANIFESTS:
        return Done(note="there are no manifests to merge")
    if not hand.figures.shows_history:
        return Done(note="the catalog shows no snapshot history, which a rewrite needs")
    hand.say(f"{hand.identifier}: rewriting {hand.figures.manifests:,} manifests")
    # Spark's cache would keep the whole metadata in memory for one pass over it.
    found = hand.call("rewrite_manifests", use_caching=False)
    hand.connections.fail_points.reach("manifests.after-procedure")
    hand.make_anchor()
    return Done({name.removesuffix("_count"): number for name, number in found.items()})

"""Upkeep assets of tables and transaction logs: materializing one runs one kind of upkeep."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from assets.pipeline_asset import (
    DRAIN,
    GROUP_UPKEEP,
    OTHER_MAX_RUNTIME_SECONDS,
    UPKEEP,
    pipeline_asset,
    upkeep_key,
)
from spark_jobs.books.entries import books_of
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol import mends
from spark_jobs.upkeep.kind import UpkeepKind
from spark_jobs.upkeep.registry import KINDS

if TYPE_CHECKING:
    from dagster import AssetExecutionContext, AssetsDefinition

    from spark_jobs.connections.connect import Connections
    from spark_jobs.upkeep.upkeep import UpkeepResult

# The figures that are plotted over the runs, before and after.
_PLOTTED = ("data_files", "small_files", "bytes", "snapshots", "manifests")


def upkeep_assets(pipeline: PipelineConfig, *, is_local: bool = False) -> list[AssetsDefinition]:
    """Return the asset of the transaction log, and one for each kind of upkeep."""
    return [_txlog_asset(pipeline), *(_upkeep_asset(pipeline, kind, is_local=is_local) for kind in KINDS)]


def _txlog_asset(pipeline: PipelineConfig) -> AssetsDefinition:
    @pipeline_asset(
        pipeline,
        "checkpoint",
        upkeep_key(pipeline, "log"),
        group=GROUP_UPKEEP,
        kinds={"iceberg"},
        description=f"The transaction log of `{pipeline.table}`: every phase of every run. Materializing it"
        f" moves finished attempts into the table `{books_of(pipeline.table)}`, for SQL and"
        " `./sluice history`, so that recovery has few objects to list.",
    )
    def checkpoint_log(_context: AssetExecutionContext, connections: Connections) -> Mapping[str, Any]:
        from spark_jobs.books.fold import checkpoint
        from spark_jobs.replay.replay import settle_left_replays

        # The longest time that a run may take: an older replay is dead.
        before_us = connections.now_us() - OTHER_MAX_RUNTIME_SECONDS * 1_000_000
        settle_left_replays(pipeline, connections, before_us=before_us)
        return dataclasses.asdict(checkpoint(pipeline, connections))

    return checkpoint_log


def _upkeep_asset(pipeline: PipelineConfig, kind: UpkeepKind, *, is_local: bool) -> AssetsDefinition:
    routed = "".join(f", `{name}`" for name in pipeline.routed_tables)

    @pipeline_asset(
        pipeline,
        "upkeep",
        upkeep_key(pipeline, kind.name),
        verb=f"upkeep_{kind.name}",
        group=GROUP_UPKEEP,
        pool=DRAIN if kind.name in pipeline.layout.of_drains else UPKEEP,
        is_local=is_local,
        kinds={"iceberg", "spark"},
        description=kind.description.format(table=pipeline.table)
        + f" Also covers `{pipeline.dead_letter_table}`{routed} and `{books_of(pipeline.table)}`."
        + f" Command: `{mends.command('upkeep', pipeline.name, f'--only {kind.name}')}`.",
    )
    def tidy_up(context: AssetExecutionContext, connections: Connections) -> Mapping[str, Any]:
        from spark_jobs.upkeep.upkeep import run_upkeep

        return upkeep_metadata(pipeline, run_upkeep(kind, pipeline, connections, context.log.info))

    return tidy_up


def upkeep_metadata(pipeline: PipelineConfig, result: UpkeepResult) -> dict[str, Any]:
    """Return the numbers that Dagster plots; those of other tables than the pipeline's have a prefix."""
    prefixes = {pipeline.dead_letter_table: "dead_letters_", books_of(pipeline.table): "books_"}
    prefixes[pipeline.table] = ""
    metadata: dict[str, Any] = {"milliseconds": result.milliseconds}
    for table in result.tables:
        prefix = prefixes.get(table.table, f"{table.table}_")  # a routed table's is its name
        before = {f"{name}_before": getattr(table.before, name) for name in _PLOTTED}
        after = {f"{name}_after": getattr(table.after, name) for name in _PLOTTED}
        note = {"note": table.done.note} if table.done.note else {}
        figures = {"table": table.table, **before, **after, **table.done.counts, **note}
        metadata |= {f"{prefix}{name}": value for name, value in figures.items()}
    return metadata

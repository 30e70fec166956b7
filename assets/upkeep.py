"""Upkeep assets of tables and transaction logs: materializing one runs one kind of upkeep."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dagster import (
    AssetExecutionContext,
    AssetsDefinition,
    AssetSpec,
    Failure,
    MaterializeResult,
    ResourceParam,
    multi_asset,
)

from assets.pipeline_asset import (
    DRAIN,
    GROUP_UPKEEP,
    OTHER_MAX_RUNTIME_SECONDS,
    UPKEEP,
    connected,
    of_many,
    pipeline_spec,
    pool_of,
    step_name,
    upkeep_key,
)
from resources.sluice import Sluice
from resources.spark import SparkSessions
from spark_jobs.books.entries import books_of
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol import mends
from spark_jobs.upkeep.kind import UpkeepKind
from spark_jobs.upkeep.registry import KINDS

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections
    from spark_jobs.upkeep.upkeep import UpkeepResult

# The figures that are plotted over the runs, before and after.
_PLOTTED = ("data_files", "small_files", "bytes", "snapshots", "manifests")


@dataclass(frozen=True, slots=True)
class _Upkeep:
    """One asset of a step: its spec, the kind of its connections, and its work, which returns metadata."""

    spec: AssetSpec
    connections: str
    do: Callable[[AssetExecutionContext, "Connections"], Mapping[str, Any]]


def upkeep_assets(pipeline: PipelineConfig, *, is_local: bool = False) -> list[AssetsDefinition]:
    """Return the asset of the transaction log and one for each kind of upkeep, in one step per pool.

    Steps make up most of Dagster's time to load many pipelines.
    """
    by_pool: dict[str, list[_Upkeep]] = {UPKEEP: [_log_upkeep(pipeline)], DRAIN: []}
    for kind in KINDS:
        pool = DRAIN if kind.name in pipeline.layout.of_drains else UPKEEP
        by_pool[pool].append(_upkeep_of(pipeline, kind))
    return [
        _upkeep_step(pipeline, verb, pool_of(pipeline, pool, is_local=is_local), by_pool[pool])
        for verb, pool in (("upkeep", UPKEEP), ("upkeep_with_drains", DRAIN))
        if by_pool[pool]
    ]


def _upkeep_step(
    pipeline: PipelineConfig, verb: str, pool: str, works: Sequence[_Upkeep]
) -> AssetsDefinition:
    @multi_asset(
        name=step_name(verb, pipeline.name),
        specs=[work.spec for work in works],
        can_subset=True,
        pool=pool,
    )
    @of_many
    def tidy_up(
        context: AssetExecutionContext, sluice: ResourceParam[Sluice], spark: ResourceParam[SparkSessions]
    ) -> Iterator[MaterializeResult[None]]:
        failures = []
        for work in works:
            if work.spec.key not in context.selected_asset_keys:
                continue
            try:
                with connected(context, sluice, spark, pipeline, work.connections) as connections:
                    shown = work.do(context, connections)
            except Failure as failure:  # one kind must not hide the others
                context.log.exception("%s failed", work.spec.key.to_user_string())
                failures.append(failure)
            else:
                yield MaterializeResult(asset_key=work.spec.key, metadata=shown)
        if failures:
            raise failures[0]

    return tidy_up


def _log_upkeep(pipeline: PipelineConfig) -> _Upkeep:
    def checkpoint_log(_context: AssetExecutionContext, connections: "Connections") -> Mapping[str, Any]:
        from spark_jobs.books.fold import checkpoint
        from spark_jobs.replay.replay import settle_left_replays

        # The longest time that a run may take: an older replay is dead.
        before_us = connections.now_us() - OTHER_MAX_RUNTIME_SECONDS * 1_000_000
        settle_left_replays(pipeline, connections, before_us=before_us)
        return dataclasses.asdict(checkpoint(pipeline, connections))

    spec = pipeline_spec(
        pipeline,
        upkeep_key(pipeline, "log"),
        group=GROUP_UPKEEP,
        kinds={"iceberg"},
        description=f"The transaction log of `{pipeline.table}`: every phase of every run. Materializing it"
        f" moves finished attempts into the table `{books_of(pipeline.table)}`, for SQL and"
        " `./sluice history`, so that recovery has few objects to list.",
    )
    return _Upkeep(spec, "checkpoint", checkpoint_log)


def _upkeep_of(pipeline: PipelineConfig, kind: UpkeepKind) -> _Upkeep:
    def tidy_up(context: AssetExecutionContext, connections: "Connections") -> Mapping[str, Any]:
        from spark_jobs.upkeep.upkeep import run_upkeep

        return upkeep_metadata(pipeline, run_upkeep(kind, pipeline, connections, context.log.info))

    routed = "".join(f", `{name}`" for name in pipeline.routed_tables)
    spec = pipeline_spec(
        pipeline,
        upkeep_key(pipeline, kind.name),
        group=GROUP_UPKEEP,
        kinds={"iceberg", "spark"},
        description=kind.description.format(table=pipeline.table)
        + f" Also covers `{pipeline.dead_letter_table}`{routed} and `{books_of(pipeline.table)}`."
        + f" Command: `{mends.command('upkeep', pipeline.name, f'--only {kind.name}')}`.",
    )
    return _Upkeep(spec, "upkeep", tidy_up)


def upkeep_metadata(pipeline: PipelineConfig, result: "UpkeepResult") -> dict[str, Any]:
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

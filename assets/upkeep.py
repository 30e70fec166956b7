"""Upkeep of the tables: materializing an asset does one kind of it and shows what it found and left."""

from typing import TYPE_CHECKING, Any

from dagster import AssetExecutionContext, AssetsDefinition, MaterializeResult, ResourceParam

from assets.failures import named_failures
from assets.keys import GROUP_UPKEEP, upkeep_key
from assets.limits import upkeep_pool
from assets.pipeline_asset import pipeline_asset
from resources.sluice import Sluice
from resources.spark import SparkSessions
from spark_jobs.books.entries import books_of
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol import mends
from spark_jobs.upkeep.kind import UpkeepKind
from spark_jobs.upkeep.registry import KINDS

if TYPE_CHECKING:
    from spark_jobs.upkeep.upkeep import TableUpkeep, UpkeepResult

# What is worth a plot over the runs, before and after.
_PLOTTED = ("data_files", "small_files", "bytes", "snapshots", "manifests")


def upkeep_assets(pipeline: PipelineConfig) -> list[AssetsDefinition]:
    """Return one asset for each kind of upkeep of the pipeline's tables and its namespace's books."""
    return [_upkeep_asset(pipeline, kind) for kind in KINDS]


def _upkeep_asset(pipeline: PipelineConfig, kind: UpkeepKind) -> AssetsDefinition:
    @pipeline_asset(
        pipeline,
        f"upkeep_{kind.name}",
        upkeep_key(pipeline, kind),
        group=GROUP_UPKEEP,
        kinds={"iceberg", "spark"},
        pool=upkeep_pool(pipeline),
        description=kind.description.format(table=pipeline.table)
        + f" The dead-letter table `{pipeline.dead_letter_table}` and the namespace's books with it."
        + f" By hand: `{mends.command('upkeep', pipeline.name, f'--only {kind.name}')}`.",
    )
    def tidy_up(
        context: AssetExecutionContext, sluice: ResourceParam[Sluice], spark: ResourceParam[SparkSessions]
    ) -> MaterializeResult[None]:
        from spark_jobs.upkeep.upkeep import run_upkeep

        with (
            named_failures(),
            sluice.connections(pipeline.name, spark, kind="upkeep", run_id=context.run.run_id) as connections,
        ):
            result = run_upkeep(kind, pipeline, connections, context.log.info)
            return MaterializeResult(metadata=upkeep_metadata(pipeline, result))

    return tidy_up


def upkeep_metadata(pipeline: PipelineConfig, result: "UpkeepResult") -> dict[str, Any]:
    """Return plain numbers, which Dagster plots; those of dead letters and books have a prefix."""
    prefixes = {pipeline.dead_letter_table: "dead_letters_", books_of(pipeline.table): "books_"}
    metadata: dict[str, Any] = {"milliseconds": result.milliseconds}
    for table in result.tables:
        prefix = prefixes.get(table.table, "")
        metadata |= {f"{prefix}{name}": value for name, value in _numbers(table).items()}
    return metadata


def _numbers(table: "TableUpkeep") -> dict[str, Any]:
    before = {f"{name}_before": getattr(table.before, name) for name in _PLOTTED}
    after = {f"{name}_after": getattr(table.after, name) for name in _PLOTTED}
    note = {"note": table.done.note} if table.done.note else {}
    return {"table": table.table, **before, **after, **table.done.counts, **note}

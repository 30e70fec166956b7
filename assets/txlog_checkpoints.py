"""The transaction logs: materializing one folds its finished attempts into the books."""

import dataclasses

from dagster import AssetExecutionContext, AssetsDefinition, MaterializeResult, ResourceParam

from assets.failures import named_failures
from assets.keys import GROUP_UPKEEP, txlog_key
from assets.limits import UPKEEP_MAX_RUNTIME_SECONDS, upkeep_pool
from assets.pipeline_asset import pipeline_asset
from resources.sluice import Sluice
from resources.spark import SparkSessions
from spark_jobs.books.entries import books_of
from spark_jobs.config.settings import PipelineConfig


def txlog_asset(pipeline: PipelineConfig) -> AssetsDefinition:
    """Return the asset of one pipeline's transaction log."""

    @pipeline_asset(
        pipeline,
        "checkpoint",
        txlog_key(pipeline),
        group=GROUP_UPKEEP,
        kinds={"iceberg"},
        pool=upkeep_pool(pipeline),
        description=f"What every run did to `{pipeline.table}`, phase by phase. Finished attempts are"
        f" folded into the books, the table `{books_of(pipeline.table)}`: recovery then has few objects to"
        " list, and what was done stays for SQL and `./sluice history`.",
    )
    def checkpoint_log(
        context: AssetExecutionContext, sluice: ResourceParam[Sluice], spark: ResourceParam[SparkSessions]
    ) -> MaterializeResult[None]:
        from spark_jobs.books.fold import checkpoint
        from spark_jobs.replay.settle import settle_left_replays

        with (
            named_failures(),
            sluice.connections(
                pipeline.name, spark, kind="checkpoint", run_id=context.run.run_id
            ) as connections,
        ):
            # The longest any run may last: a replay that is older is dead.
            before_us = connections.now_us() - UPKEEP_MAX_RUNTIME_SECONDS * 1_000_000
            settle_left_replays(pipeline, connections, before_us=before_us)
            return MaterializeResult(metadata=dataclasses.asdict(checkpoint(pipeline, connections)))

    return checkpoint_log

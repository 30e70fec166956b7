"""The Iceberg tables: materializing one drains its topic until it has caught up or its time is used."""

from dagster import AssetExecutionContext, AssetsDefinition, MaterializeResult, ResourceParam

from assets.failures import named_failures
from assets.keys import GROUP_TABLES, table_key, topic_key
from assets.limits import DRAIN_BUDGET_SECONDS, drain_pool
from assets.pipeline_asset import pipeline_asset
from resources.sluice import Sluice
from resources.spark import SparkSessions
from spark_jobs.config.settings import PipelineConfig


def table_asset(pipeline: PipelineConfig) -> AssetsDefinition:
    """Return the asset of one pipeline's table."""

    @pipeline_asset(
        pipeline,
        "drain",
        table_key(pipeline),
        source=topic_key(pipeline.topic),
        group=GROUP_TABLES,
        kinds={"iceberg", "kafka", "spark"},
        pool=drain_pool(pipeline),
        description=f"Every record of the Kafka topic `{pipeline.topic}`, once, as a row of"
        f" `{pipeline.table}`; what cannot become a row is in `{pipeline.dead_letter_table}`.",
        metadata={
            "dagster/table_name": pipeline.table,
            "topic": pipeline.topic,
            "start": pipeline.start.kind.value,
            "freshness_seconds": pipeline.freshness_seconds,
            "max_batch_records": pipeline.max_batch_records,
            "max_batch_bytes": pipeline.max_batch_bytes,
            "partition_by": ", ".join(pipeline.partition_by) or "not partitioned",
        },
    )
    def drain_table(
        context: AssetExecutionContext, sluice: ResourceParam[Sluice], spark: ResourceParam[SparkSessions]
    ) -> MaterializeResult[None]:
        from assets.table_metadata import batch_line, drain_metadata
        from spark_jobs.drain.drain import drain

        with (
            named_failures(),
            sluice.connections(pipeline.name, spark, kind="drain", run_id=context.run.run_id) as connections,
        ):
            result = drain(
                pipeline,
                connections,
                budget_seconds=DRAIN_BUDGET_SECONDS,
                on_progress=lambda batch: context.log.info(batch_line(batch)),
            )
            return MaterializeResult(metadata=drain_metadata(result, pipeline, connections))

    return drain_table

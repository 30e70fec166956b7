"""What all assets of a pipeline have in common: name, owners, tag, source, and what their steps are given."""

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeAlias

from dagster import (
    AssetExecutionContext,
    AssetKey,
    AssetMaterialization,
    AssetObservation,
    AssetsDefinition,
    AssetSpec,
    DagsterInstance,
    MaterializeResult,
    ResourceParam,
    multi_asset,
)

from assets.failures import named_failures
from assets.keys import GROUP_REPLAY, named_owners, step_name, table_key
from assets.limits import NO_END, TAG_MAX_RUNTIME, UPKEEP, pool_of
from resources.sluice import Sluice
from resources.spark import SparkSessions
from spark_jobs.config.secrets import told_by
from spark_jobs.config.settings import PipelineConfig

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections

# Dagster (1.13) writes no materialization of an output with this metadata, and steps that wait for it run on
# (ADR 44). A Dagster that knows it no more would materialize what is as it was.
_NO_EVENT = "__source_asset_observation__"

# What a step does with its pipeline's connections, and the metadata it shows.
Work: TypeAlias = Callable[[AssetExecutionContext, "Connections"], Mapping[str, Any]]


def pipeline_asset(
    pipeline: PipelineConfig,
    work: str,
    key: AssetKey,
    *,
    group: str,
    kinds: set[str],
    description: str,
    pool: str = UPKEEP,
    is_local: bool = False,
    verb: str | None = None,
    source: AssetKey | None = None,
    metadata: Mapping[str, Any] | None = None,
    is_news: Callable[[AssetExecutionContext, Mapping[str, Any]], bool] | None = None,
    **of_step: Any,
) -> Callable[[Work], AssetsDefinition]:
    """Return the decorator of a step ``<verb>_<pipeline>`` that makes ``key`` from ``source`` (the table).

    It is a ``multi_asset`` of one spec because ``asset`` names the step by the key: steps of `lake.a-b` and
    `lake.a_b` would clash, and the pipeline is what people look for in a run. ``work`` is what its
    connections are for, and its verb unless another is given; ``is_local`` says that it starts Spark itself;
    what is not ``is_news`` is observed instead of materialized; ``of_step`` goes to ``multi_asset`` as it is.
    """
    spec = AssetSpec(
        key,
        deps=[source or table_key(pipeline)],
        group_name=group,
        kinds=kinds,
        owners=named_owners(pipeline.owners),
        tags={"sluice/pipeline": pipeline.name},
        description=description,
        metadata=metadata,
    )

    def asset_of(do: Work) -> AssetsDefinition:
        @multi_asset(
            name=step_name(verb or work, pipeline.name),
            specs=[spec],
            pool=pool_of(pipeline, pool, is_local=is_local),
            **of_step,
        )
        def step(
            context: AssetExecutionContext, sluice: ResourceParam[Sluice], spark: ResourceParam[SparkSessions]
        ) -> MaterializeResult[None]:
            with (
                named_failures(),
                _told_in(context.log),
                sluice.connections(pipeline.name, spark, kind=work, run_id=context.run.run_id) as connections,
            ):
                if group == GROUP_REPLAY and TAG_MAX_RUNTIME not in context.run.tags:
                    context.instance.add_run_tags(context.run.run_id, {TAG_MAX_RUNTIME: NO_END})
                shown = do(context, connections)
                if group == GROUP_REPLAY and shown["commits"]:
                    context.log_event(table_changed(context.instance, pipeline, shown))
                if is_news is None or is_news(context, shown):
                    return MaterializeResult(metadata=shown)
                context.log_event(AssetObservation(key, metadata=shown))
                return MaterializeResult(metadata={_NO_EVENT: True})

        return step

    return asset_of


def table_changed(
    instance: DagsterInstance, pipeline: PipelineConfig, shown: Mapping[str, Any]
) -> AssetMaterialization:
    """Return the news that rows were made again, which wakes what hangs on the table as a drain's does."""
    event = instance.get_latest_materialization_event(table_key(pipeline))
    told = event.asset_materialization.metadata if event and event.asset_materialization else {}
    # What the table is and how far, which the next drain compares, is as it was.
    return AssetMaterialization(table_key(pipeline), metadata={**told, **shown})


class _Forward(logging.Handler):
    def __init__(self, log: logging.Logger) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log.log(record.levelno, self.format(record))


def _told_in(log: logging.Logger) -> AbstractContextManager[None]:
    """Have a run's log in Dagster say what Sluice says on its way, as the terminal does for a command."""
    return told_by(_Forward(log))

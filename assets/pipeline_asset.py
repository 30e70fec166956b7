"""What all assets of a pipeline have in common: the step's name, owners, tag, and what they are made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dagster import AssetSpec, multi_asset

from assets.keys import dagster_owners, step_name, table_key
from spark_jobs.config.settings import PipelineConfig

if TYPE_CHECKING:
    from dagster import AssetKey, AssetsDefinition, BackfillPolicy, PartitionsDefinition


def pipeline_asset(
    pipeline: PipelineConfig,
    verb: str,
    key: AssetKey,
    *,
    group: str,
    kinds: set[str],
    pool: str,
    description: str,
    source: AssetKey | None = None,
    metadata: Mapping[str, Any] | None = None,
    partitions_def: PartitionsDefinition[str] | None = None,
    backfill_policy: BackfillPolicy | None = None,
) -> Callable[[Callable[..., Any]], AssetsDefinition]:
    """Return the decorator of a step ``<verb>_<pipeline>`` that makes ``key`` from ``source`` (the table).

    It is a ``multi_asset`` of one spec because ``asset`` names the step by the key: steps of `lake.a-b` and
    `lake.a_b` would clash, and the pipeline is what people look for in a run.
    """
    spec = AssetSpec(
        key,
        deps=[source or table_key(pipeline)],
        group_name=group,
        kinds=kinds,
        owners=dagster_owners(pipeline.owners),
        tags={"sluice/pipeline": pipeline.name},
        description=description,
        metadata=metadata,
    )
    return multi_asset(
        name=step_name(verb, pipeline.name),
        specs=[spec],
        partitions_def=partitions_def,
        backfill_policy=backfill_policy,
        pool=pool,
    )

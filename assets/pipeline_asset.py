"""The common parts of a pipeline's assets: keys, names, limits, failures and step arguments."""

import hashlib
import inspect
import logging
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import CodeType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from dagster import (
    AssetExecutionContext,
    AssetKey,
    AssetMaterialization,
    AssetObservation,
    AssetsDefinition,
    AssetSpec,
    DagsterInstance,
    Failure,
    MaterializeResult,
    MetadataValue,
    ResourceParam,
    multi_asset,
)

from resources.sluice import Sluice
from resources.spark import SparkSessions
from spark_jobs.config.secrets import log_to, scrub
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol.errors import SluiceError

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections


# Asset keys and step names of a pipeline.


GROUP_TOPICS = "topics"
GROUP_TABLES = "tables"
GROUP_UPKEEP = "upkeep"
GROUP_REPLAY = "replay"


def topic_key(topic: str) -> AssetKey:
    """Return ``kafka/<topic>``."""
    return AssetKey(["kafka", topic])


def table_key(pipeline: PipelineConfig) -> AssetKey:
    """Return the table's identifier, part by part: ``lake/flights``."""
    return AssetKey(pipeline.table.split("."))


def again_key(verb: str, pipeline: PipelineConfig) -> AssetKey:
    """Return ``replay/<verb>_<pipeline>``: the asset graph shows only the last part."""
    return AssetKey([GROUP_REPLAY, f"{verb}_{pipeline.name}"])


def upkeep_key(pipeline: PipelineConfig, kind: str) -> AssetKey:
    """Return ``upkeep/<kind>_<pipeline>``; the transaction log's kind is ``log``."""
    return AssetKey([GROUP_UPKEEP, f"{kind}_{pipeline.name}"])


def step_name(verb: str, name: str) -> str:
    """Return a valid, unique step name; a name with characters that Dagster rejects gets a short hash."""
    spelled = re.sub(r"\W", "_", name, flags=re.ASCII)
    suffix = "" if spelled == name else "_" + hashlib.sha256(name.encode()).hexdigest()[:6]
    return f"{verb}_{spelled}{suffix}"


def named_owners(owners: Iterable[str]) -> list[str]:
    """Return the owners for Dagster: e-mail addresses unchanged, all others as teams."""
    return [owner if "@" in owner or owner.startswith("team:") else f"team:{owner}" for owner in owners]


# The limits of a run's work.
#
# A pool per table with a limit of 1 (the instance's default) keeps two runs from doing the same work. It only
# saves work: the commit's compare-and-swap is the guard. Runs that start Spark in their own process, each a
# JVM sized for the whole machine, share one pool instead.


TAG_MAX_RUNTIME = "dagster/max_runtime"
# The run monitor fails a drain after this time: the budget, the last batch, start-up and recovery. A steady
# flow pays one process start (about 3 s) per budget of five minutes.
DRAIN_MAX_RUNTIME_SECONDS = 900
DRAIN_RESERVE_SECONDS = 600
# No other run starts between two ticks of a schedule, so its drain runs until it has caught up.
SCHEDULED_DRAIN_MAX_RUNTIME_SECONDS = 6 * 3600
OTHER_MAX_RUNTIME_SECONDS = 1800
# No limit for replays, redrives and rebuilds: their time depends on the number of rows.
NO_END = "0"
# Drains append to a table, upkeep compacts it, suites only read. Checks wait for nobody: they read little.
DRAIN, UPKEEP, QUALITY = POOLS = ("drain", "upkeep", "quality")
CHECKS = "checks"
LOCAL_SPARK = "local_spark"


def drain_budget_seconds(run_tags: Mapping[str, str]) -> float:
    """Return the time in which a drain may begin batches, within the run's maximum runtime."""
    given = float(run_tags.get(TAG_MAX_RUNTIME, DRAIN_MAX_RUNTIME_SECONDS))
    return max(0.0, given - DRAIN_RESERVE_SECONDS)


def pool_of(pipeline: PipelineConfig, pool: str, *, is_local: bool = False) -> str:
    """Return the name of one of the table's pools; ``is_local`` Spark work uses the machine's pool."""
    return LOCAL_SPARK if is_local and pool in {DRAIN, UPKEEP} else f"{pool}_{pipeline.table}"


def pools_of(pipeline: PipelineConfig) -> frozenset[str]:
    """Return all pools that the table's work may be in; without suites none is in that of quality."""
    used = [pool for pool in POOLS if pipeline.quality or pool != QUALITY]
    return frozenset(pool_of(pipeline, pool) for pool in used) | {LOCAL_SPARK}


# Dagster (1.13) writes no materialization for an output with this metadata, and downstream steps still run
# (ADR 44). A Dagster version that ignores it would write a materialization without changes.
_NO_EVENT = "__source_asset_observation__"

# The work of a step with its pipeline's connections; returns the metadata to show.
Work: TypeAlias = Callable[[AssetExecutionContext, "Connections"], Mapping[str, Any]]


Step = TypeVar("Step", bound=Callable[..., Any])
_SIGNATURES: dict[CodeType, inspect.Signature] = {}


def of_many(step: Step) -> Step:
    """Give the steps of all pipelines one signature: Dagster asks each for it ten times."""
    if step.__code__ not in _SIGNATURES:
        _SIGNATURES[step.__code__] = inspect.signature(step)
    step.__signature__ = _SIGNATURES[step.__code__]  # type: ignore[attr-defined]
    return step


def pipeline_spec(
    pipeline: PipelineConfig,
    key: AssetKey,
    *,
    group: str,
    kinds: set[str],
    description: str,
    source: AssetKey | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> AssetSpec:
    """Return the spec of an asset of the pipeline; its ``source`` is the table by default."""
    return AssetSpec(
        key,
        deps=[source or table_key(pipeline)],
        group_name=group,
        kinds=kinds,
        owners=named_owners(pipeline.owners),
        tags={"sluice/pipeline": pipeline.name},
        description=description,
        metadata=metadata,
    )


@contextmanager
def connected(
    context: AssetExecutionContext,
    sluice: Sluice,
    spark: SparkSessions,
    pipeline: PipelineConfig,
    work: str,
) -> Iterator["Connections"]:
    """Yield the pipeline's connections for this kind of work; errors are named, log lines are the run's."""
    with (
        named_failures(),
        _forward_log(context.log),
        sluice.connections(pipeline.name, spark, kind=work, run_id=context.run.run_id) as connections,
    ):
        yield connections


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

    It is a ``multi_asset`` of one spec because ``asset`` would name the step by the key: steps of `lake.a-b`
    and `lake.a_b` would clash. ``work`` is the kind of its connections, and the verb unless one is given.
    ``is_local`` steps start Spark themselves. If ``is_news`` returns False, the result is observed instead of
    materialized. ``of_step`` is passed to ``multi_asset``.
    """
    spec = pipeline_spec(
        pipeline, key, group=group, kinds=kinds, description=description, source=source, metadata=metadata
    )

    def asset_of(do: Work) -> AssetsDefinition:
        @multi_asset(
            name=step_name(verb or work, pipeline.name),
            specs=[spec],
            pool=pool_of(pipeline, pool, is_local=is_local),
            **of_step,
        )
        @of_many
        def step(
            context: AssetExecutionContext, sluice: ResourceParam[Sluice], spark: ResourceParam[SparkSessions]
        ) -> MaterializeResult[None]:
            with connected(context, sluice, spark, pipeline, work) as connections:
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
    """Return the table's materialization after rows were rewritten, so that downstream assets are updated."""
    event = instance.get_latest_materialization_event(table_key(pipeline))
    last = event.asset_materialization.metadata if event and event.asset_materialization else {}
    # The next drain compares the table and its offsets with the last metadata, so these are kept.
    return AssetMaterialization(table_key(pipeline), metadata={**last, **shown})


class _Forward(logging.Handler):
    def __init__(self, log: logging.Logger) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log.log(record.levelno, self.format(record))


def _forward_log(log: logging.Logger) -> AbstractContextManager[None]:
    """Copy Sluice's log lines into the Dagster run's log, as a command prints them in the terminal."""
    return log_to(_Forward(log))


# Errors become Dagster failures only here: with code and hint, without secrets, never retried by Dagster.
#
# Only the backlog sensor retries: its next request carries a new attempt number and waits longer each time.
# ``allow_retries=False`` disables one of Dagster's three retry mechanisms, ``NO_RETRY_TAGS`` two.


NO_RETRY_TAGS = {"dagster/max_retries": "0", "dagster/retry_on_asset_or_op_failure": "false"}


@contextmanager
def named_failures() -> Iterator[None]:
    """Translate every exception except a termination into a ``Failure``."""
    try:
        yield
    except SluiceError as error:
        raise _failure(error) from None
    except Exception as error:  # noqa: BLE001  (the boundary to Dagster)
        # A driver's exception may quote the connection string it was given.
        text = scrub("".join(traceback.format_exception(error)))
        raise Failure(
            description=scrub(f"{type(error).__name__}: {error}"),
            metadata={"traceback": MetadataValue.md(f"```\n{text}\n```")},
            allow_retries=False,
        ) from None


def _failure(error: SluiceError) -> Failure:
    return Failure(
        description=scrub(f"{error.message}\n{error.hint}\ndocs/reference/errors.md#{error.code}"),
        metadata={
            "code": error.code,
            "hint": scrub(error.hint),
            "documentation": MetadataValue.url(f"/docs/reference/errors.md#{error.code}"),
            "retryable": error.is_retryable,
            **{name: scrub(value) for name, value in error.where.items()},
        },
        allow_retries=False,
    )

"""Pools keep runs of one table apart, from the first one on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster import DagsterInstance, DagsterRun, build_sensor_context
from dagster._core.instance.config import PoolGranularity
from dagster._core.op_concurrency_limits_counter import GlobalOpConcurrencyLimitsCounter
from dagster._core.storage.dagster_run import RunOpConcurrency

from assets.pipeline_asset import pools_of
from orchestration.backlog_sensor import backlog_sensor
from orchestration.build import build_definitions
from resources.sluice import Sluice
from servers.dagster import prepare_dagster_home
from spark_jobs.config.settings import CatalogSettings, PipelineConfig, SluiceConfig
from spark_jobs.monitoring.survey import Surveyor

if TYPE_CHECKING:
    from pathlib import Path

ORDERS = PipelineConfig(name="orders", topic="orders", table="lake.orders")
CONFIG = SluiceConfig(
    home="/nowhere",
    state="/nowhere/log",
    catalog=CatalogSettings(properties={}),
    pipelines=(ORDERS,),
)


class Blind(Surveyor):
    """Sees no pipeline, so that a tick asks no server."""

    def survey(self) -> list:  # type: ignore[type-arg]
        """Nothing."""
        return []


def _let_go(instance: DagsterInstance, pool: str) -> int:
    """How many of two runs that wait for the pool the daemon would start in one look at its queue."""
    needs = RunOpConcurrency(root_key_counts={pool: 1}, has_unconstrained_root_nodes=False, all_pools={pool})
    runs = [DagsterRun(job_name="replay", run_op_concurrency=needs) for _ in range(2)]
    storage = instance.event_log_storage
    counter = GlobalOpConcurrencyLimitsCounter(
        instance,
        runs,
        [],
        storage.get_concurrency_keys(),
        storage.get_pool_limits(),
        pool_granularity=PoolGranularity.RUN,
    )
    started = 0
    for run in runs:
        if not counter.is_blocked(run):
            counter.update_counters_with_launched_item(run)
            started += 1
    return started


def test_a_pool_is_limited_from_its_first_runs_on(tmp_path: Path) -> None:
    """The first tick announces every pool; one that nobody announced lets both through at first sight."""
    prepare_dagster_home(tmp_path)
    sluice = Sluice(CONFIG)
    sluice.surveyor = Blind(CONFIG)
    with DagsterInstance.from_config(str(tmp_path)) as instance:
        with build_sensor_context(
            instance=instance, resources={"sluice": sluice}, definitions=build_definitions(CONFIG)
        ) as context:
            backlog_sensor(context)
        assert {pool: _let_go(instance, pool) for pool in pools_of(ORDERS)} == dict.fromkeys(
            pools_of(ORDERS), 1
        )
        # When this fails, Dagster has mended it and announce_pools can go.
        assert _let_go(instance, "nobody-announced-it") == 2

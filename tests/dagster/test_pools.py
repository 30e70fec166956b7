"""Pools keep runs of one table apart, from the first one on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from dagster import DagsterInstance, DagsterRun, build_sensor_context
from dagster._core.instance.config import PoolGranularity
from dagster._core.op_concurrency_limits_counter import GlobalOpConcurrencyLimitsCounter
from dagster._core.storage.dagster_run import RunOpConcurrency

from assets.pipeline_asset import pools_of
from orchestration.backlog_sensor import backlog_sensor
from orchestration.build import build_definitions
from orchestration.pools import announce_pools
from resources.sluice import Sluice
from servers.dagster import prepare_dagster_home
from spark_jobs.config.settings import CatalogSettings, PipelineConfig, SluiceConfig
from spark_jobs.monitoring.survey import Surveyor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ORDERS = PipelineConfig(name="orders", topic="orders", table="lake.orders")
CONFIG = SluiceConfig(
    home="/nowhere",
    state="/nowhere/log",
    catalog=CatalogSettings(properties={}),
    pipelines=(ORDERS,),
)


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[DagsterInstance]:
    """A new one with Sluice's settings."""
    prepare_dagster_home(tmp_path)
    with DagsterInstance.from_config(str(tmp_path)) as opened:
        yield opened


class Blind(Surveyor):
    """Sees no pipeline, so that a tick asks no server."""

    def survey(self, *_: object) -> list:  # type: ignore[type-arg]
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


def test_a_pool_is_limited_from_its_first_runs_on(instance: DagsterInstance) -> None:
    """The first tick announces every pool; one that nobody announced lets both through at first sight."""
    sluice = Sluice(CONFIG)
    sluice.surveyor = Blind(CONFIG)
    with build_sensor_context(
        instance=instance, resources={"sluice": sluice}, definitions=build_definitions(CONFIG)
    ) as context:
        backlog_sensor(context)
    assert {pool: _let_go(instance, pool) for pool in pools_of(ORDERS)} == dict.fromkeys(pools_of(ORDERS), 1)
    # When this fails, Dagster has mended it and announce_pools can go.
    assert _let_go(instance, "nobody-announced-it") == 2


def _one_by_one(_pool: str) -> None:
    raise AssertionError("a thousand of these take longer than a tick may")


def test_new_pools_of_many_pipelines_are_announced_at_once(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two thousand pools are as Dagster makes them one by one, and those that exist keep their limits."""
    storage = instance.event_log_storage
    storage.set_concurrency_slots("drain_lake.p0", 3)
    storage.initialize_concurrency_limit_to_default("by_dagster")
    many = [PipelineConfig(name=f"p{n}", topic="t", table=f"lake.p{n}") for n in range(1_000)]
    monkeypatch.setattr(storage, "initialize_concurrency_limit_to_default", _one_by_one)
    announce_pools(instance, many)
    limits = {limit.name: (limit.limit, limit.from_default) for limit in storage.get_pool_limits()}
    assert limits.pop("drain_lake.p0") == (3, False)
    assert set(limits.values()) == {(1, True)}
    assert set(limits) == frozenset().union(*map(pools_of, many)) - {"drain_lake.p0"} | {"by_dagster"}
    ours, theirs = (storage.get_concurrency_info(pool) for pool in ("drain_lake.p1", "by_dagster"))
    assert (ours.slot_count, ours.limit, ours.using_default_limit) == (1, 1, True)
    assert (theirs.slot_count, theirs.limit, theirs.using_default_limit) == (1, 1, True)


def test_pools_that_another_process_announces_meanwhile_keep_their_limits(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes may find the same pools new; each has its limit and its slots once."""
    announce_pools(instance, [ORDERS])
    storage = instance.event_log_storage
    monkeypatch.setattr(storage, "get_concurrency_keys", set)
    further = PipelineConfig(name="further", topic="further", table="lake.further")
    announce_pools(instance, [ORDERS, further])
    pools = pools_of(ORDERS) | pools_of(further)
    assert {pool: storage.get_concurrency_info(pool).slot_count for pool in pools} == dict.fromkeys(pools, 1)

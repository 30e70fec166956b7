"""Pipelines that are drained and tidied up by the clock: their schedules, and what a tick asks for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from dagster import DagsterInstance, build_schedule_context, build_sensor_context

from assets.pipeline_asset import drain_budget_seconds
from orchestration.backlog_sensor import backlog_sensor
from orchestration.build import build_definitions
from resources.sluice import Sluice
from spark_jobs.config.sections import UpkeepSettings
from spark_jobs.config.settings import CatalogSettings, PipelineConfig, SluiceConfig

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker

NIGHTLY: dict[str, Any] = {"schedule": "0 2 * * *", "timezone": "Europe/Berlin"}
WEEKLY = UpkeepSettings(schedule="30 4 * * 0")


def config_of(*pipelines: PipelineConfig, **settings: Any) -> SluiceConfig:
    """A configuration of these pipelines."""
    config: dict[str, Any] = {"home": "/nowhere", "state": "/nowhere/log"}
    config |= {"catalog": CatalogSettings(properties={}), "pipelines": pipelines}
    return SluiceConfig(**config | settings)


def pipeline_of(topic: str, **settings: Any) -> PipelineConfig:
    """A pipeline named as its topic."""
    return PipelineConfig(name=topic, topic=topic, table=f"lake.{topic.replace('-', '_')}", **settings)


def test_a_time_and_zone_is_one_schedule_however_many_pipelines_name_it() -> None:
    """Many nightly pipelines are one switch in the UI, which says of whom it is the switch."""
    many = [pipeline_of(f"p{n}", **NIGHTLY) for n in range(50)]
    others = [pipeline_of("utc", schedule="0 2 * * *", upkeep=WEEKLY), pipeline_of("by_backlog")]
    repository = build_definitions(config_of(*many, *others)).get_repository_def()
    schedules = {
        (each.job_name, each.cron_schedule, each.execution_timezone): each.description
        for each in repository.schedule_defs
        if each.job_name in {"drain", "upkeep"}
    }
    assert list(schedules) == [
        ("drain", "0 2 * * *", "Europe/Berlin"),
        ("drain", "0 2 * * *", "UTC"),
        ("upkeep", "30 4 * * 0", "UTC"),
    ]
    described = schedules["drain", "0 2 * * *", "Europe/Berlin"]
    assert described is not None
    assert described.startswith("Starts the drain of p0, p1,")
    assert described.endswith("p19 and 30 more at 0 2 * * * (Europe/Berlin).")
    assert schedules["drain", "0 2 * * *", "UTC"] == "Starts the drain of utc at 0 2 * * * (UTC)."


@pytest.mark.parametrize("work", ["drain", "upkeep"])
def test_a_tick_that_can_read_nothing_says_so(work: str, tmp_path: Path) -> None:
    """Without a broker or catalog it is skipped with the reason, as a sensor's tick is; it does not fail."""
    config = config_of(pipeline_of("orders", **NIGHTLY, upkeep=WEEKLY))
    with DagsterInstance.local_temp(str(tmp_path)) as instance:
        skipped = tick(config, work, instance)
    assert "orders: " in skipped.skip_message


def test_a_scheduled_drain_has_hours_and_any_other_five_minutes() -> None:
    """Nobody asks again before the next tick, so it takes its time, within the monitor's."""
    assert drain_budget_seconds({}) == drain_budget_seconds({"dagster/max_runtime": "900"}) == 300
    assert drain_budget_seconds({"dagster/max_runtime": str(6 * 3600)}) == 5 * 3600 + 3000


@pytest.mark.kafka
def test_the_schedule_asks_for_what_the_sensor_leaves_alone(
    kafka: KafkaBroker, sqlite_catalog_properties: dict[str, str], tmp_path: Path
) -> None:
    """One record waits in each: the sensor's tick takes one pipeline, the clock's the other, in hours."""
    nightly, live, idle = (pipeline_of(kafka.new_topic(), **keys) for keys in (NIGHTLY, {}, NIGHTLY))
    for pipeline in (nightly, live):
        kafka.produce(pipeline.topic, [b"{}"])
    config = config_of(
        *(nightly, live, idle),
        home=str(tmp_path),
        state=str(tmp_path / "log"),
        kafka={"bootstrap.servers": kafka},
        catalog=CatalogSettings(properties=sqlite_catalog_properties),
    )
    resources = {"sluice": Sluice(config)}
    with DagsterInstance.local_temp(str(tmp_path)) as instance:
        with build_sensor_context(instance=instance, resources=resources) as context:
            sensed = backlog_sensor(context)
        (asked,) = tick(config, "drain", instance)
    assert [request.tags["sluice/pipeline"] for request in sensed.run_requests] == [live.name]
    assert asked.tags["sluice/pipeline"] == nightly.name
    assert asked.tags["dagster/max_runtime"] == "21600"
    assert asked.run_key is not None
    assert asked.run_key.endswith(":0")
    assert [key.path for key in asked.asset_selection or ()] == [nightly.table.split(".")]


def tick(config: SluiceConfig, work: str, instance: DagsterInstance) -> Any:
    """What a tick of the one schedule for this work gives: requests, or why there are none."""
    repository = build_definitions(config).get_repository_def()
    (schedule,) = (each for each in repository.schedule_defs if each.job_name == work)
    with build_schedule_context(
        instance=instance,
        scheduled_execution_time=datetime(2026, 11, 23, 1, 0, tzinfo=UTC),
        repository_def=repository,
        resources={"sluice": Sluice(config)},
    ) as context:
        return schedule(context)

"""Replays as assets: windows registered by the sensor, backfilled, and materialized by a CI job."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from dagster import (
    AddDynamicPartitionsRequest,
    AssetKey,
    DagsterInstance,
    SensorResult,
    build_sensor_context,
    materialize,
)

from assets.replays import replay_asset, windows_of
from orchestration.build import build_definitions
from orchestration.windows_sensor import windows_sensor
from prove.lab.pipeline_lab import by_offset, orders, progress
from resources.sluice import Sluice
from resources.spark import SparkSessions
from spark_jobs.replay import ranges as replay_ranges
from spark_jobs.replay.ranges import window_key

if TYPE_CHECKING:
    from prove.lab.pipeline_lab import Lab
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

WIDTH = 20


def _tick(lab: Lab, instance: DagsterInstance) -> SensorResult:
    """One tick as the daemon makes it, its requests carried out."""
    with build_sensor_context(
        instance=instance,
        resources={"sluice": Sluice(lab.config)},
        definitions=build_definitions(lab.config),
    ) as context:
        result = windows_sensor(context)
    assert isinstance(result, SensorResult)
    name = windows_of(lab.pipeline).name or ""
    for request in result.dynamic_partitions_requests or ():
        if isinstance(request, AddDynamicPartitionsRequest):
            instance.add_dynamic_partitions(name, request.partition_keys)
        else:
            for key in request.partition_keys:
                instance.delete_dynamic_partition(name, key)
    return result


def _materialize(lab: Lab, instance: DagsterInstance, key: str, **config: Any) -> bool:
    asset = replay_asset(lab.pipeline)
    result = materialize(
        [asset],
        instance=instance,
        partition_key=key,
        resources={"sluice": Sluice(lab.config), "spark": SparkSessions(lab.config)},
        run_config={"ops": {asset.node_def.name: {"config": config}}} if config else None,
        raise_on_error=False,
    )
    return result.success


def test_windows_are_registered_backfilled_and_pruned(
    new_lab: NewLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In order; each does its own offsets of all partitions again; one that Kafka deleted is refused."""
    monkeypatch.setattr(replay_ranges, "WINDOW_OFFSETS", WIDTH)
    lab = new_lab(orders(0, 50))
    lab.drain()
    before = by_offset(lab)
    with DagsterInstance.ephemeral() as instance:
        _tick(lab, instance)
        name = windows_of(lab.pipeline).name or ""
        keys = instance.get_dynamic_partitions(name)
        assert keys == [window_key(0), window_key(20), window_key(40)]
        assert all(_materialize(lab, instance, key) for key in keys[:2])
        done = instance.get_materialized_partitions(AssetKey(["replay", "replay_orders"]))
        assert done == set(keys[:2])
        after = by_offset(lab)
        is_new = {
            offset
            for (_, offset), row in after.items()
            if row["_ingested_at"] != before[0, offset]["_ingested_at"]
        }
        assert is_new == set(range(40))
        new_lab.kafka.delete_records(lab.pipeline.topic, {0: 25})
        new_lab.produce(lab, orders(50, 20))
        lab.drain()
        _tick(lab, instance)
        assert instance.get_dynamic_partitions(name) == [window_key(20), window_key(40), window_key(60)]
        assert not _materialize(lab, instance, window_key(0))
        assert _materialize(lab, instance, window_key(20))
        assert by_offset(lab)[0, 22] == after[0, 22]
        assert by_offset(lab)[0, 30] != after[0, 30]
        assert "No window was added" in str(_tick(lab, instance).skip_reason)


def test_the_launchpad_takes_exact_ranges(new_lab: NewLab) -> None:
    """Instead of the window, with the reason in the log; a malformed one fails by name."""
    lab = new_lab(orders(0, 50))
    lab.drain()
    before = by_offset(lab)
    with DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(windows_of(lab.pipeline).name or "", [window_key(0)])
        assert _materialize(lab, instance, window_key(0), ranges=["0:10-20"], reason="a test", force=True)
        assert not _materialize(lab, instance, window_key(0), ranges=["10-20"])
    after = by_offset(lab)
    changed = {offset for (_, offset), row in after.items() if row != before[0, offset]}
    assert changed == set(range(10, 20))
    assert progress(lab).replay_epoch == 1


def test_a_ci_job_replays_a_window_on_a_new_instance(new_lab: NewLab) -> None:
    """`dagster asset materialize --partition` where no sensor has ever registered anything."""
    lab = new_lab(orders(0, 50))
    lab.drain()
    shown = subprocess.run(
        [
            *(sys.executable, "-m", "dagster", "asset", "materialize", "-m", "orchestration.definitions"),
            *("--select", "replay/replay_orders", "--partition", window_key(0)),
        ],
        cwd=lab.path.parent,
        env={
            **os.environ,
            "SLUICE_CONFIG": str(lab.path),
            "SLUICE_HOME": str(lab.path.parent / "home"),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert shown.returncode == 0, shown.stderr
    assert progress(lab).replay_epoch == 1
    assert lab.audit().is_clean

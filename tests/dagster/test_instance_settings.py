"""The instance's settings file, and the keys whose absence hurts only weeks later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster import DagsterInstance
from dagster._core.instance.config import PoolGranularity

from servers.dagster import INSTANCE_SETTINGS, prepare_dagster_home

if TYPE_CHECKING:
    from pathlib import Path


def test_the_template_loads_with_the_settings_that_matter(tmp_path: Path) -> None:
    """Dagster accepts the file; pools are limited, freed and per run; queue, ticks and telemetry are set."""
    prepare_dagster_home(tmp_path)
    with DagsterInstance.from_config(str(tmp_path)) as instance:
        pools = instance.get_concurrency_config().pool_config
        assert pools.default_pool_limit == 1
        assert pools.pool_granularity is PoolGranularity.RUN
        assert instance.get_settings("run_monitoring")["free_slots_after_run_end_seconds"] > 0
        assert instance.run_monitoring_max_runtime_seconds > 0
        assert instance.get_settings("retention")["sensor"]["purge_after_days"]["skipped"] == 1
        assert instance.telemetry_enabled is False
        assert instance.get_settings("nux")["enabled"] is False
        assert instance.run_retries_enabled is False
        assert instance.get_settings("sensors")["use_threads"] is True
    assert "dequeue_interval_seconds: 1 " in INSTANCE_SETTINGS.read_text()


def test_a_users_settings_are_kept(tmp_path: Path) -> None:
    """Preparing the folder again leaves an edited file alone."""
    settings = tmp_path / "dagster.yaml"
    settings.write_text("telemetry: {enabled: true}\n")
    prepare_dagster_home(tmp_path)
    assert settings.read_text() == "telemetry: {enabled: true}\n"

"""What Dagster shows of a configuration, and what loading it costs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from dagster import AssetKey, Definitions

from assets.pipeline_asset import step_name
from orchestration.backlog_sensor import backlog_sensor
from orchestration.build import build_definitions
from orchestration.foreign_packages import refuse_foreign_packages
from orchestration.jobs import paced
from orchestration.upkeep_sensor import upkeep_sensor
from spark_jobs.checks.registry import BY_NAME
from spark_jobs.config.settings import CatalogSettings, PipelineConfig, SluiceConfig, SparkSettings
from spark_jobs.config.suites import CheckSettings
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.work import layout_named

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("pyspark", "pyarrow", "pyiceberg", "confluent_kafka", "great_expectations", "pandas")


REMOTE = SparkSettings(remote="sc://spark:15002")


def config_of(*pipelines: PipelineConfig, spark: SparkSettings = REMOTE) -> SluiceConfig:
    """A configuration that names no server but Spark's."""
    return SluiceConfig(
        home="/nowhere",
        state="/nowhere/log",
        catalog=CatalogSettings(properties={}),
        spark=spark,
        pipelines=pipelines,
    )


CONFIG = config_of(
    PipelineConfig(
        name="flights", topic="flights", table="lake.flights", owners=("ops@example.com", "team:data")
    ),
    PipelineConfig(name="delays-1", topic="flights", table="lake.us.delays"),
)


def test_definitions_have_the_promised_shape() -> None:
    """Keys, groups, kinds, owners and dependencies are what people select, filter and build on."""
    defs = build_definitions(CONFIG)
    Definitions.validate_loadable(defs)
    shape = {
        spec.key.to_user_string(): (
            spec.group_name,
            sorted(spec.kinds),
            list(spec.owners),
            sorted(dep.asset_key.to_user_string() for dep in spec.deps),
        )
        for spec in defs.resolve_all_asset_specs()
    }
    table, upkept = ["iceberg", "kafka", "spark"], ["iceberg", "spark"]
    assert shape == {
        "kafka/flights": ("topics", ["kafka"], [], []),
        "lake/flights": ("tables", table, ["ops@example.com", "team:data"], ["kafka/flights"]),
        "lake/us/delays": ("tables", table, [], ["kafka/flights"]),
        "replay/replay_flights": ("replay", table, ["ops@example.com", "team:data"], ["lake/flights"]),
        "replay/replay_delays-1": ("replay", table, [], ["lake/us/delays"]),
        "replay/redrive_flights": ("replay", upkept, ["ops@example.com", "team:data"], ["lake/flights"]),
        "replay/redrive_delays-1": ("replay", upkept, [], ["lake/us/delays"]),
        "upkeep/log_flights": ("upkeep", ["iceberg"], ["ops@example.com", "team:data"], ["lake/flights"]),
        "upkeep/log_delays-1": ("upkeep", ["iceberg"], [], ["lake/us/delays"]),
        **{
            f"upkeep/{kind}_{name}": ("upkeep", upkept, owners, [table])
            for name, owners, table in (
                ("flights", ["ops@example.com", "team:data"], "lake/flights"),
                ("delays-1", [], "lake/us/delays"),
            )
            for kind in ("compaction", "snapshots", "manifests", "orphans")
        },
    }


def test_every_job_is_bounded_and_never_retried_by_dagster() -> None:
    """A run without a longest time would hold its pool for ever after a machine crash."""
    defs = build_definitions(CONFIG)
    for name in ("drain", "upkeep", "checks", "event_log_upkeep"):
        tags = defs.resolve_job_def(name).tags
        assert int(tags["dagster/max_runtime"]) > 0
        assert (tags["dagster/max_retries"], tags["dagster/retry_on_asset_or_op_failure"]) == ("0", "false")


def test_every_table_has_the_built_in_checks_that_are_on() -> None:
    """Names are stable, `off` leaves one out, and a pipeline without any still loads."""
    two = ("spool", "source_events")
    one_off, all_off = CheckSettings(off=("lag",)), CheckSettings(off=tuple(BY_NAME))
    two_on = CheckSettings(off=tuple(name for name in BY_NAME if name not in two))
    some = PipelineConfig(name="a", topic="t", table="lake.a", checks=one_off)
    none = PipelineConfig(name="b", topic="t", table="lake.b", checks=all_off)
    stream = PipelineConfig(name="c", topic="t", table="lake.c", checks=two_on, stream="clicks")
    defs = build_definitions(config_of(some, none, stream))
    Definitions.validate_loadable(defs)
    keys = {key.to_user_string() for key in defs.resolve_asset_graph().asset_check_keys}
    on = (name for name, each in BY_NAME.items() if name != "lag" and not each.only_with)
    assert keys == {*(f"lake/a:{name}" for name in on), "lake/c:spool", "lake/c:source_events"}


def test_each_table_has_a_pool_of_its_own() -> None:
    """Two drains of one table exclude each other, drains of different tables do not."""
    graph = build_definitions(CONFIG).resolve_asset_graph()
    pools = {key: graph.get(AssetKey(key)).pools for key in (("lake", "flights"), ("lake", "us", "delays"))}
    assert pools == {
        ("lake", "flights"): {"drain_lake.flights"},
        ("lake", "us", "delays"): {"drain_lake.us.delays"},
    }


@pytest.mark.parametrize("spark", [SparkSettings(), SparkSettings(master="local[4]")])
def test_runs_that_start_spark_themselves_go_one_at_a_time(spark: SparkSettings) -> None:
    """Each is a JVM sized for the whole machine: drains, upkeep and replays of all tables share a pool."""
    graph = build_definitions(config_of(*CONFIG.pipelines, spark=spark)).resolve_asset_graph()
    keys = (
        ("lake", "flights"),
        ("lake", "us", "delays"),
        ("replay", "replay_flights"),
        ("replay", "redrive_flights"),
        ("upkeep", "orphans_flights"),
    )
    assert {pool for key in keys for pool in graph.get(AssetKey(key)).pools or ()} == {"local_spark"}


@pytest.mark.parametrize(("word", "count"), [("stopped", 0), ("running", 5), ("", 5)])
def test_a_shared_dagster_may_load_everything_stopped(tmp_path: Path, word: str, count: int) -> None:
    """No topic is drained because a code location was added; people switch on what they want."""
    code = (
        "from orchestration.definitions import defs; r = defs.get_repository_def();"
        "print(sum(d.default_status.value == 'RUNNING' for d in [*r.sensor_defs, *r.schedule_defs]))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT), "SLUICE_HOME": str(tmp_path), "SLUICE_AUTOMATION": word},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(shown.stdout) == count


def test_no_pipeline_is_no_error() -> None:
    """A configuration whose only pipelines are broken still loads, so that the UI can say so."""
    Definitions.validate_loadable(build_definitions(config_of()))


def test_step_names_stay_unique() -> None:
    """Topics that differ only in characters Dagster cannot spell get different steps."""
    assert len({step_name("drain", name) for name in ("a.b", "a-b", "a_b")}) == 3


def test_loading_imports_nothing_heavy(tmp_path: Path) -> None:
    """Every run's process loads the definitions: Spark, Arrow and Kafka must not be on that path."""
    code = f"import sys, orchestration.definitions; print([m for m in {HEAVY!r} if m in sys.modules])"
    shown = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "SLUICE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.strip() == "[]"
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_package_is_refused_by_both_paths(tmp_path: Path) -> None:
    """Another project's `assets` in the working directory is named, and so is ours."""
    foreign = tmp_path / "assets" / "__init__.py"
    foreign.parent.mkdir()
    foreign.touch()
    shown = subprocess.run(
        [sys.executable, "-c", "import orchestration.definitions"],
        cwd=tmp_path,
        env={**os.environ, "SLUICE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode != 0
    assert "foreign-package" in shown.stderr
    assert str(foreign) in shown.stderr
    assert str(ROOT / "assets" / "__init__.py") in shown.stderr


def test_our_own_packages_are_accepted() -> None:
    """The guard is silent in the project itself, and would not be elsewhere."""
    refuse_foreign_packages()
    with pytest.raises(ConfigError, match="instead of"):
        refuse_foreign_packages(Path("/elsewhere"))


@pytest.mark.parametrize(
    "target", [["-m", "orchestration.definitions"], ["-w", str(ROOT / "workspace.yaml")]]
)
def test_dagster_validates_the_code_location(target: list[str], tmp_path: Path) -> None:
    """`dagster definitions validate` passes by module and by workspace.yaml, from any working directory."""
    subprocess.run(
        [sys.executable, "-m", "dagster", "definitions", "validate", *target],
        cwd=tmp_path,
        env={**os.environ, "SLUICE_HOME": str(tmp_path)},
        capture_output=True,
        check=True,
        timeout=120,
    )


def test_a_mirror_is_not_done_again_and_compacted_between_its_drains() -> None:
    """It is made anew instead of replayed or redriven; drains and compaction wait for each other."""
    mirror = PipelineConfig(name="m", topic="t", table="shop.m", layout=layout_named("mirror"))
    defs = build_definitions(config_of(mirror))
    Definitions.validate_loadable(defs)
    keys = {
        spec.key.to_user_string() for spec in defs.resolve_all_asset_specs() if spec.group_name == "replay"
    }
    assert keys == {"replay/rebuild_m"}
    pools = {
        each.op.name: each.op.pool for each in defs.resolve_asset_graph().assets_defs if each.is_executable
    }
    assert pools["upkeep_with_drains_m"] == pools["drain_m"] == "drain_shop.m"
    assert pools["upkeep_m"] == "upkeep_shop.m"


@pytest.mark.parametrize(("pipelines", "seconds"), [(1, (5, 60)), (999, (5, 60)), (1_000, (10, 120))])
def test_sensors_of_many_pipelines_tick_less_often(pipelines: int, seconds: tuple[int, int]) -> None:
    """A look at a thousand tables would otherwise begin again soon after it ends."""
    paces = [paced(watch, pipelines).minimum_interval_seconds for watch in (backlog_sensor, upkeep_sensor)]
    assert tuple(paces) == seconds

"""All that Dagster shows of a configuration, compared with what it showed before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestration.build import build_definitions
from spark_jobs.config.sections import HotSettings
from spark_jobs.config.settings import CatalogSettings, PipelineConfig, SluiceConfig, SparkSettings
from spark_jobs.config.suites import Expectation, Severity, Suite, When

if TYPE_CHECKING:
    from dagster import AssetChecksDefinition, AssetsDefinition, Definitions, JobDefinition

SNAPSHOT = Path(__file__).with_name("definitions.json")


def test_nothing_that_is_shown_changes_unnoticed() -> None:
    """Keys, groups, steps, pools, tags, jobs' contents, sensors and schedules are those of the snapshot."""
    shown = json.loads(json.dumps(_shown(build_definitions(_config())), default=str))
    assert shown == json.loads(SNAPSHOT.read_text())


def _config() -> SluiceConfig:
    suite = Suite(
        name="ids",
        severity=Severity.ERROR,
        when=When.GATE,
        expectations=(Expectation("ExpectColumnValuesToNotBeNull", {"column": "id"}),),
    )
    return SluiceConfig(
        home="/nowhere",
        state="/nowhere/log",
        catalog=CatalogSettings(properties={}),
        spark=SparkSettings(remote="sc://spark:15002"),
        pipelines=(
            PipelineConfig(
                name="a.b-1",
                topic="a.b",
                table="lake.ab",
                owners=("ops@x.org", "team:data"),
                quality=(suite,),
            ),
            PipelineConfig(name="c", topic="c", table="lake.us.c", hot=HotSettings.model_validate({})),
        ),
    )


def _shown(definitions: Definitions) -> dict[str, Any]:
    repository = definitions.get_repository_def()
    graph = repository.asset_graph
    return {
        "assets": {
            spec.key.to_user_string(): {
                "group": spec.group_name,
                "kinds": sorted(spec.kinds),
                "owners": list(spec.owners),
                "tags": {k: v for k, v in sorted(spec.tags.items()) if not k.startswith("dagster/kind")},
                "deps": sorted(dep.asset_key.to_user_string() for dep in spec.deps),
                "description": spec.description,
                "metadata": dict(spec.metadata),
                "step": _step(graph.get(spec.key).assets_def),
                "pools": sorted(graph.get(spec.key).pools or ()),
                "partitions": getattr(spec.partitions_def, "name", None),
                "backfill": str(graph.get(spec.key).backfill_policy),
                "checks": sorted(key.name for key in graph.get(spec.key).check_keys),
            }
            for spec in sorted(definitions.resolve_all_asset_specs(), key=lambda spec: spec.key)
        },
        "checks": {
            f"{key.asset_key.to_user_string()}:{key.name}": {
                "description": graph.get_check_spec(key).description,
                "metadata": dict(graph.get_check_spec(key).metadata),
                "step": _step(repository.asset_checks_defs_by_key[key]),
            }
            for key in sorted(graph.asset_check_keys, key=str)
        },
        "jobs": {job.name: _job(job) for job in repository.get_all_jobs()},
        "sensors": {
            sensor.name: {
                "jobs": sorted(target.job_name for target in sensor.targets),
                "seconds": sensor.minimum_interval_seconds,
                "status": sensor.default_status.value,
                "description": sensor.description,
            }
            for sensor in repository.sensor_defs
        },
        "schedules": {
            schedule.name: [
                schedule.job_name,
                schedule.cron_schedule,
                schedule.default_status.value,
                schedule.description,
            ]
            for schedule in repository.schedule_defs
        },
    }


def _job(job: JobDefinition) -> dict[str, Any]:
    return {
        "description": job.description,
        "tags": dict(sorted(job.tags.items())),
        "executor": job.executor_def.name,
        "steps": {
            node.name: [sorted(node.definition.input_dict), sorted(node.definition.output_dict)]
            for node in sorted(job.nodes, key=lambda node: node.name)
        },
    }


def _step(definition: AssetsDefinition | AssetChecksDefinition) -> str | None:
    return definition.node_def.name if definition.is_executable else None

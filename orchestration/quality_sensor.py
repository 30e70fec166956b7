"""The sensor that has suites judged: on what was committed since it last asked, and when a batch is held."""

import hashlib
import json
import time
from collections.abc import Sequence
from typing import Any

from dagster import (
    AssetCheckKey,
    AssetChecksDefinition,
    AssetSelection,
    DefaultSensorStatus,
    ResourceParam,
    RunRequest,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    define_asset_job,
    in_process_executor,
    sensor,
)

from assets.failures import NO_RETRY_TAGS
from assets.keys import table_key
from assets.limits import QUALITY_MAX_RUNTIME_SECONDS
from assets.quality_checks import TAG_SINCE, check_name
from orchestration.jobs import TAG_MAX_RUNTIME
from orchestration.run_requests import TAG_PIPELINE
from resources.sluice import Sluice
from spark_jobs.monitoring.survey import Surveyed
from spark_jobs.protocol.errors import SluiceError

JOB_NAME = "quality"
# A run imports Great Expectations for seconds; a steady flow is judged a few commits at a time.
SECONDS_BETWEEN_TICKS = 60


def quality_job(checks: Sequence[AssetChecksDefinition]) -> Any:
    """The job that judges suites; a person may launch it for any pipeline."""
    return define_asset_job(
        JOB_NAME,
        AssetSelection.checks(*checks),
        description="Judges the quality suites of the selected pipelines on what was committed.",
        tags={TAG_MAX_RUNTIME: str(QUALITY_MAX_RUNTIME_SECONDS), **NO_RETRY_TAGS},
        executor_def=in_process_executor,
    )


def quality_sensor(job: Any) -> SensorDefinition:
    """The sensor of ``job``. Its cursor is, by pipeline, the offsets up to which a run was asked for."""

    @sensor(
        name="quality_sensor",
        job=job,
        minimum_interval_seconds=SECONDS_BETWEEN_TICKS,
        default_status=DefaultSensorStatus.RUNNING,
        description="Asks for the quality suites of every pipeline that has committed, or holds a batch.",
    )
    def evaluate(context: SensorEvaluationContext, sluice: ResourceParam[Sluice]) -> SensorResult:
        asked: dict[str, Any] = json.loads(context.cursor) if context.cursor else {}
        requests = []
        for look in sluice.survey():
            if not isinstance(look, Surveyed) or look.table is None or not look.pipeline.quality:
                continue
            name, state = look.pipeline.name, _state(look, sluice)
            before = asked.get(name)
            if state is None or before == state:
                continue
            requests.append(_request(look, before, state))
            asked[name] = state
        return SensorResult(run_requests=requests, cursor=json.dumps(asked, sort_keys=True))

    return evaluate


def _state(look: Surveyed, sluice: Sluice) -> dict[str, Any] | None:
    """What there is to judge: where the table stands, and what is held; None before the first batch."""
    table = look.table
    if table is None or table.progress.last_drain is None:
        return None
    try:
        waits = look.source.lag(table.progress.next_offsets) > 0
        held = sluice.held(look, time.time_ns() // 1000) if look.pipeline.gates and waits else ()
    except SluiceError:
        held = ()
    offsets = {str(p): offset for p, offset in sorted(table.progress.next_offsets.items())}
    attempts = [each.attempt for each in held]
    return {
        "table": table.uuid,
        "generation": table.progress.generation,
        "offsets": offsets,
        "held": attempts,
    }


def _request(look: Surveyed, before: dict[str, Any] | None, state: dict[str, Any]) -> RunRequest:
    """From where the last one ended, in the same table and generation; else the last drain's batch."""
    places = ("table", "generation")
    is_same = before is not None and all(before[place] == state[place] for place in places)
    since = {TAG_SINCE: json.dumps(before["offsets"])} if before is not None and is_same else {}
    key = table_key(look.pipeline)
    return RunRequest(
        run_key=f"{look.pipeline.name}:{_short(state)}",
        asset_selection=[],
        asset_check_keys=[AssetCheckKey(key, check_name(suite)) for suite in look.pipeline.quality],
        tags={TAG_PIPELINE: look.pipeline.name, **since},
    )


def _short(state: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()[:16]

"""The sensor that starts quality suites: after commits, and while a batch waits for a decision."""

import json
import time
from typing import Any

from dagster import AssetCheckKey, ResourceParam, RunRequest, SensorEvaluationContext, SensorResult

from assets.checks import TAG_SINCE, check_name
from assets.pipeline_asset import QUALITY, table_key
from orchestration.jobs import watching
from orchestration.run_requests import TAG_PIPELINE, short_hash
from resources.sluice import Sluice
from spark_jobs.monitoring.survey import Surveyed, waits
from spark_jobs.protocol.errors import SluiceError

# Importing Great Expectations takes seconds, so one run judges several commits of a steady flow.
SECONDS_BETWEEN_TICKS = 60


@watching(
    SECONDS_BETWEEN_TICKS,
    "Requests the quality suites of every pipeline with a new commit or a held batch.",
    job_name=QUALITY,
)
def quality_sensor(context: SensorEvaluationContext, sluice: ResourceParam[Sluice]) -> SensorResult:
    """Run one tick. The cursor stores, by pipeline, the state up to which a run was requested."""
    requested: dict[str, Any] = json.loads(context.cursor) if context.cursor else {}
    requests = []
    for look in sluice.surveyor.survey(lambda look: bool(look.pipeline.quality) and waits(look)):
        if not isinstance(look, Surveyed) or look.table is None or not look.pipeline.quality:
            continue
        name, state = look.pipeline.name, _state(look, sluice)
        before = requested.get(name)
        if state is None or before == state:
            continue
        requests.append(_request(look, before, state))
        requested[name] = state
    return SensorResult(run_requests=requests, cursor=json.dumps(requested, sort_keys=True))


def _state(look: Surveyed, sluice: Sluice) -> dict[str, Any] | None:
    """Return the state to judge: the table's offsets and held batches; None before the first batch."""
    table = look.table
    if table is None or table.progress.last_drain is None:
        return None
    try:
        waits = look.source.lag(table.progress.next_offsets) > 0
        held = sluice.surveyor.held(look, time.time_ns() // 1000) if look.pipeline.gates and waits else ()
    except SluiceError:
        held = ()
    return {
        "table": table.uuid,
        "generation": table.progress.generation,
        "offsets": {str(p): offset for p, offset in sorted(table.progress.next_offsets.items())},
        "held": [each.batch.attempt for each in held],
    }


def _request(look: Surveyed, before: dict[str, Any] | None, state: dict[str, Any]) -> RunRequest:
    """Return a request from the last one's end in the same table and generation, else for the last batch."""
    places = ("table", "generation")
    is_same = before is not None and all(before[place] == state[place] for place in places)
    since = {TAG_SINCE: json.dumps(before["offsets"])} if before is not None and is_same else {}
    key = table_key(look.pipeline)
    return RunRequest(
        run_key=f"{look.pipeline.name}:{short_hash(state)}",
        asset_selection=[],
        asset_check_keys=[AssetCheckKey(key, check_name(suite)) for suite in look.pipeline.quality],
        tags={TAG_PIPELINE: look.pipeline.name, **since},
    )

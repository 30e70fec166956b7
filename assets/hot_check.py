"""The check ``hot``: whether the running ``serve`` shows what Kafka has of a pipeline beyond its table."""

from collections.abc import Mapping
from typing import Any

from dagster import (
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetCheckSpec,
    MetadataValue,
    ResourceParam,
    multi_asset_check,
)

from assets.failures import named_failures
from assets.keys import step_name, table_key
from assets.limits import CHECKS, pool_of
from resources.sluice import Sluice
from servers.asking import followed
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.hot.told import State
from spark_jobs.protocol.errors import SluiceError

NAME = "hot"
RUNBOOK = "docs/OPERATIONS.md#check-hot"
_RUNBOOK = {"runbook": MetadataValue.url(f"/{RUNBOOK}")}
_WANT_A_PERSON = {State.BLOCKED, State.FAILED}


def hot_check(pipeline: PipelineConfig) -> AssetChecksDefinition | None:
    """Return the check of a pipeline that is ``hot``, None for others."""
    if pipeline.hot is None:
        return None

    @multi_asset_check(
        name=step_name("look_at_serve", pipeline.name),
        specs=[
            AssetCheckSpec(
                NAME,
                asset=table_key(pipeline),
                description="Answers with Kafka in them are fresh, by the `serve` that runs."
                f" When it fails: [{RUNBOOK}](/{RUNBOOK})",
            )
        ],
        pool=pool_of(pipeline, CHECKS),
    )
    def look_at_serve(sluice: ResourceParam[Sluice]) -> AssetCheckResult:
        with named_failures():
            return _judged(pipeline, sluice)

    return look_at_serve


def _judged(pipeline: PipelineConfig, sluice: Sluice) -> AssetCheckResult:
    try:
        every = followed(sluice.config) or ()
    except SluiceError as error:
        return _result(pipeline, AssetCheckSeverity.ERROR, error.message, mend=error.hint)
    seen = next((each for each in every if each["pipeline"] == pipeline.name), None)
    if seen is None:
        mend = f"./sluice up, or ./sluice serve {pipeline.name}"
        return _result(pipeline, AssetCheckSeverity.WARN, "no serve that runs follows it", mend=mend)
    state, reason = State(seen["state"]), seen["reason"] or {}
    severity = AssetCheckSeverity.ERROR if state in _WANT_A_PERSON else AssetCheckSeverity.WARN
    told = f"{state}: {reason['message']} [{reason['code']}]" if reason else state.value
    return _result(
        pipeline, severity, told, mend=reason.get("hint"), passed=state is State.LIVE, metadata=_shown(seen)
    )


def _shown(seen: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is plotted, and the watermark."""
    shown = {"rows": seen["hot_rows"], "bytes": seen["hot_bytes"], "watermark": seen["watermark"]}
    age_ms = seen["age_ms"]
    shown["age_seconds"] = None if age_ms is None else age_ms / 1000
    return {name: value for name, value in shown.items() if value is not None}


def _result(
    pipeline: PipelineConfig,
    severity: AssetCheckSeverity,
    told: str,
    *,
    mend: str | None,
    passed: bool = False,
    metadata: Mapping[str, Any] | None = None,
) -> AssetCheckResult:
    return AssetCheckResult(
        passed=passed,
        asset_key=table_key(pipeline),
        check_name=NAME,
        severity=severity,
        description=told,
        metadata={**({"what mends it": mend} if mend else {}), **_RUNBOOK, **(metadata or {})},
    )

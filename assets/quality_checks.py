"""A pipeline's quality suites as checks of its table; the heavy imports happen when they run."""

import json
from collections.abc import Iterator

from dagster import (
    AssetCheckExecutionContext,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSpec,
    MetadataValue,
    ResourceParam,
    TableRecord,
    TableSchema,
    multi_asset_check,
)

from assets.checks import check_result
from assets.pipeline_asset import QUALITY, named_failures, pool_of, step_name, table_key
from resources.sluice import Sluice
from resources.spark import SparkSessions
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.config.suites import Suite, When
from spark_jobs.protocol import mends
from spark_jobs.quality.results import SuiteResult

# Offsets by partition, JSON, from which on a run judges; without it the last drain's batch.
TAG_SINCE = ".dagster/sluice-since"
RUNBOOK = "docs/OPERATIONS.md#quality-and-held-batches"


def quality_checks(pipeline: PipelineConfig) -> AssetChecksDefinition | None:
    """Return all suites of one pipeline in one step: the rows are read once. None without suites."""
    if not pipeline.quality:
        return None

    @multi_asset_check(
        name=step_name("judge", pipeline.name),
        specs=[_spec(pipeline, suite) for suite in pipeline.quality],
        pool=pool_of(pipeline, QUALITY),
    )
    def judge_table(
        context: AssetCheckExecutionContext,
        sluice: ResourceParam[Sluice],
        spark: ResourceParam[SparkSessions],
    ) -> Iterator[AssetCheckResult]:
        from spark_jobs.quality.check import check_quality

        since = json.loads(context.run.tags.get(TAG_SINCE, "null"))
        with (
            named_failures(),
            sluice.connections(
                pipeline.name, spark, kind="quality", run_id=context.run.run_id
            ) as connections,
        ):
            offsets = None if since is None else {int(p): offset for p, offset in since.items()}
            judged = check_quality(pipeline, connections, since=offsets)
        for suite, result in zip(pipeline.quality, judged.suites, strict=True):
            yield _result(pipeline, suite, result, str(judged.ranges))

    return judge_table


def check_name(suite: Suite) -> str:
    """Return the check's name in Dagster: built-in checks have names of their own."""
    return f"quality_{suite.name}"


def _spec(pipeline: PipelineConfig, suite: Suite) -> AssetCheckSpec:
    is_gate = suite.when is When.GATE
    when = "before a batch is committed; fails while one is held" if is_gate else "on what was committed"
    return AssetCheckSpec(
        check_name(suite),
        asset=table_key(pipeline),
        description=f"The suite `{suite.name}`, judged {when}. When it fails: [{RUNBOOK}](/{RUNBOOK})",
        metadata={"expectations": "\n".join(map(str, suite.expectations)), "when": suite.when.value},
    )


def _result(pipeline: PipelineConfig, suite: Suite, result: SuiteResult, ranges: str) -> AssetCheckResult:
    is_held = suite.when is When.GATE and result.failed
    return check_result(
        pipeline,
        check_name(suite),
        suite.severity.name,
        "every expectation is met" if result.is_met else result.story,
        runbook=RUNBOOK,
        mend=None if result.is_met else _mend(pipeline, suite),
        passed=result.is_met,
        metadata={
            "rows": result.rows,
            "unexpected_rows": sum(each.unexpected for each in result.results),
            "offsets": "those of the held batch" if is_held else ranges,
            "expectations": _table(result),
        },
    )


def _mend(pipeline: PipelineConfig, suite: Suite) -> str:
    if suite.when is When.GATE:
        return mends.command("held list", pipeline.name)
    replay = mends.act("replay", pipeline.name, "--range P:START-END")
    return f"mend the records at their source, or the suite, then {replay}"


def _table(result: SuiteResult) -> MetadataValue:
    columns = {"expectation": "string", "met": "bool", "checked": "int", "unexpected": "int"}
    texts = ("found", "failing_rows", "error")
    return MetadataValue.table(
        [
            TableRecord(
                {
                    "expectation": each.expectation,
                    "met": each.is_met,
                    "checked": each.checked,
                    "unexpected": each.unexpected,
                    "found": each.observed or "",
                    "failing_rows": ", ".join(f"{r.partition}:{r.offset} ({r.value})" for r in each.examples),
                    "error": each.error or "",
                }
            )
            for each in result.results
        ],
        schema=TableSchema.from_name_type_dict(columns | dict.fromkeys(texts, "string")),
    )

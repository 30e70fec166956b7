"""The Dagster checks of a pipeline's table: built-in ones, quality suites, and ``hot``.

Dagster plots a check's numbers over its evaluations. ``hot`` passes if the running ``serve`` answers with the
records in Kafka that are not in the table yet. Heavy modules are imported when suites are judged.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from dagster import (
    AssetCheckEvaluation,
    AssetCheckExecutionContext,
    AssetCheckKey,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetCheckSpec,
    AssetExecutionContext,
    Failure,
    MetadataValue,
    ResourceParam,
    TableRecord,
    TableSchema,
    multi_asset_check,
)

from assets.pipeline_asset import QUALITY, named_failures, pool_of, step_name, table_key
from resources.sluice import Sluice
from resources.spark import SparkSessions
from servers.asking import followed
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.config.suites import Suite, When
from spark_jobs.health.judge import CheckResult, checks_of
from spark_jobs.hot.tail_status import State
from spark_jobs.monitoring.audit_notes import audit_newest, is_due
from spark_jobs.monitoring.checkup import Health
from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import SluiceError
from spark_jobs.quality.results import SuiteResult

TABLES_IN_STEP = 50
HOT = "hot"
HOT_RUNBOOK = "docs/runbook.md#check-hot"
_NEEDS_ACTION = {State.BLOCKED, State.FAILED}


def table_checks(pipelines: Iterable[PipelineConfig]) -> Iterator[AssetChecksDefinition]:
    """Yield the checks of many tables in one step, since they share one look; none of those that are off.

    Steps make up most of Dagster's time to load many pipelines.
    """
    checked = [pipeline for pipeline in pipelines if checks_of(pipeline)]
    for number, first in enumerate(range(0, len(checked), TABLES_IN_STEP)):
        yield _step_of(number, checked[first : first + TABLES_IN_STEP])


def _step_of(number: int, pipelines: Sequence[PipelineConfig]) -> AssetChecksDefinition:
    @multi_asset_check(
        name=f"check_tables_{number + 1}",
        specs=[spec for pipeline in pipelines for spec in _specs(pipeline)],
        can_subset=True,
    )
    def check_tables(
        context: AssetCheckExecutionContext,
        sluice: ResourceParam[Sluice],
        spark: ResourceParam[SparkSessions],
    ) -> Iterator[AssetCheckResult]:
        selected = context.selected_asset_check_keys
        tables, failures = {key.asset_key for key in selected}, []
        chosen = [pipeline for pipeline in pipelines if table_key(pipeline) in tables]
        with named_failures():
            looks = sluice.check_up(chosen)
        is_news = False
        for health in looks:
            try:
                with named_failures():
                    is_news |= _audit_when_due(context, sluice, spark, health)
            except Failure as failure:  # one table must not hide the others
                failures.append(failure)
        if is_news:
            with named_failures():
                looks = sluice.check_up(chosen)
        for health in looks:
            for result in health.results:
                key = AssetCheckKey(table_key(health.pipeline), result.name)
                # Without a table a check that cannot fail has not passed either: it gets no result.
                if key in selected and (health.table is not None or not result.passed):
                    yield _result(health.pipeline, result)
        if failures:
            raise failures[0]

    return check_tables


def _specs(pipeline: PipelineConfig) -> Iterator[AssetCheckSpec]:
    for check in checks_of(pipeline):
        yield AssetCheckSpec(
            check.name,
            asset=table_key(pipeline),
            description=f"{check.meaning} When it fails: [{check.runbook}](/{check.runbook})",
            metadata={"severity": pipeline.checks.severity_of(check).value},
        )


def judge_new_table(context: AssetExecutionContext, pipeline: PipelineConfig, sluice: Sluice) -> None:
    """Judge a table in the run that created it: the job ``checks`` may run five minutes later.

    A failed look is only logged, since the rows are in the table.
    """
    try:
        (health,) = sluice.check_up([pipeline])
    except SluiceError as error:
        context.log.warning("the checks of the new table failed to run: %s", error)
        return
    for result in health.results:
        context.log_event(AssetCheckEvaluation(**_result(pipeline, result)._asdict()))


def _result(pipeline: PipelineConfig, result: CheckResult) -> AssetCheckResult:
    return check_result(
        pipeline,
        result.name,
        result.severity.name,
        result.fact,
        runbook=result.runbook,
        mend=result.mend,
        passed=result.passed,
        metadata={name: float(number) for name, number in result.numbers.items()},
    )


def check_result(
    pipeline: PipelineConfig,
    name: str,
    severity: str,
    fact: str,
    *,
    runbook: str,
    mend: str | None,
    passed: bool = False,
    metadata: Mapping[str, Any] | None = None,
) -> AssetCheckResult:
    """Return the result of a check of the pipeline's table, with its fix and its runbook section."""
    return AssetCheckResult(
        passed=passed,
        asset_key=table_key(pipeline),
        check_name=name,
        severity=AssetCheckSeverity[severity],
        description=fact,
        metadata={
            **({"fix": mend} if mend else {}),
            "runbook": MetadataValue.url(f"/{runbook}"),
            **(metadata or {}),
        },
    )


def _audit_when_due(
    context: AssetCheckExecutionContext, sluice: Sluice, spark: SparkSessions, health: Health
) -> bool:
    """Compare the newest records with Kafka; if that fails, the result of the last audit remains."""
    facts, table = health.facts, health.table
    if table is None or facts.error is not None or not is_due(facts.audit, facts.now_ms):
        return False
    pipeline = health.pipeline
    try:
        with sluice.connections(
            pipeline.name, spark, kind="checks", run_id=context.run.run_id
        ) as connections:
            note = audit_newest(pipeline, connections, table.uuid)
    except SluiceError as error:
        context.log.warning("the hourly audit failed: %s", error)
        return False
    context.log.info("audited the newest %d offsets: %s", note.offsets, note)
    return True


def hot_check(pipeline: PipelineConfig) -> AssetChecksDefinition | None:
    """Return the check of a pipeline that is ``hot``, None for others."""
    if pipeline.hot is None:
        return None

    @multi_asset_check(
        name=step_name("look_at_serve", pipeline.name),
        specs=[
            AssetCheckSpec(
                HOT,
                asset=table_key(pipeline),
                description="The running `serve` answers with all records that Kafka has."
                f" When it fails: [{HOT_RUNBOOK}](/{HOT_RUNBOOK})",
            )
        ],
    )
    def look_at_serve(sluice: ResourceParam[Sluice]) -> AssetCheckResult:
        with named_failures():
            return _judged(pipeline, sluice)

    return look_at_serve


def _judged(pipeline: PipelineConfig, sluice: Sluice) -> AssetCheckResult:
    result = partial(check_result, pipeline, HOT, runbook=HOT_RUNBOOK)
    try:
        every = followed(sluice.config) or ()
    except SluiceError as error:
        return result("ERROR", error.message, mend=error.hint)
    seen = next((each for each in every if each["pipeline"] == pipeline.name), None)
    if seen is None:
        mend = f"./sluice up, or ./sluice serve {pipeline.name}"
        return result("WARN", "no running `serve` follows this pipeline", mend=mend)
    state, reason = State(seen["state"]), seen["reason"] or {}
    severity = "ERROR" if state in _NEEDS_ACTION else "WARN"
    fact = f"{state}: {reason['message']} [{reason['code']}]" if reason else state.value
    return result(
        severity, fact, mend=reason.get("hint"), passed=state is State.LIVE, metadata=_numbers(seen)
    )


def _numbers(seen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers to plot, and the watermark."""
    shown = {"rows": seen["hot_rows"], "bytes": seen["hot_bytes"], "watermark": seen["watermark"]}
    age_ms = seen["age_ms"]
    shown["age_seconds"] = None if age_ms is None else age_ms / 1000
    return {name: value for name, value in shown.items() if value is not None}


# A pipeline's quality suites as checks of its table; heavy modules are imported when they run.


# JSON: the offset of each partition at which a run starts to judge. Without it: the last drain's batch.
TAG_SINCE = ".dagster/sluice-since"
QUALITY_RUNBOOK = "docs/runbook.md#quality-and-held-batches"


def quality_checks(pipeline: PipelineConfig) -> AssetChecksDefinition | None:
    """Return all suites of one pipeline in one step, which reads the rows once; None without suites."""
    if not pipeline.quality:
        return None

    @multi_asset_check(
        name=step_name("judge", pipeline.name),
        specs=[_suite_spec(pipeline, suite) for suite in pipeline.quality],
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
            yield _suite_result(pipeline, suite, result, str(judged.ranges))

    return judge_table


def check_name(suite: Suite) -> str:
    """Return the check's name in Dagster: built-in checks have names of their own."""
    return f"quality_{suite.name}"


def _suite_spec(pipeline: PipelineConfig, suite: Suite) -> AssetCheckSpec:
    is_gate, runbook = suite.when is When.GATE, QUALITY_RUNBOOK
    when = (
        "before each commit; fails while a failed batch waits for a decision"
        if is_gate
        else "on committed rows"
    )
    return AssetCheckSpec(
        check_name(suite),
        asset=table_key(pipeline),
        description=f"Quality suite `{suite.name}`, judged {when}. When it fails: [{runbook}](/{runbook})",
        metadata={"expectations": "\n".join(map(str, suite.expectations)), "when": suite.when.value},
    )


def _suite_result(
    pipeline: PipelineConfig, suite: Suite, result: SuiteResult, ranges: str
) -> AssetCheckResult:
    is_held = suite.when is When.GATE and result.failed
    return check_result(
        pipeline,
        check_name(suite),
        suite.severity.name,
        "every expectation is met" if result.is_met else result.story,
        runbook=QUALITY_RUNBOOK,
        mend=None if result.is_met else _mend(pipeline, suite),
        passed=result.is_met,
        metadata={
            "rows": result.rows,
            "unexpected_rows": sum(each.unexpected for each in result.results),
            "offsets": "of the held batch" if is_held else ranges,
            "expectations": _table(result),
        },
    )


def _mend(pipeline: PipelineConfig, suite: Suite) -> str:
    if suite.when is When.GATE:
        return mends.command("held list", pipeline.name)
    again = pipeline.layout.read_again(pipeline.name, "P:START-END")
    return f"fix the records at their source, or the suite, then {again}"


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

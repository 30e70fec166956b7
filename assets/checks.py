"""The built-in checks of a pipeline's table; the numbers are plotted over their evaluations."""

from collections.abc import Iterator

from dagster import (
    AssetCheckEvaluation,
    AssetCheckExecutionContext,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetCheckSpec,
    AssetExecutionContext,
    MetadataValue,
    ResourceParam,
    multi_asset_check,
)

from assets.failures import named_failures
from assets.keys import step_name, table_key
from assets.limits import CHECKS, pool_of
from resources.sluice import Sluice
from resources.spark import SparkSessions
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.health.judge import CheckResult, checks_of
from spark_jobs.monitoring.audit_notes import audit_newest, is_due
from spark_jobs.monitoring.checkup import Health
from spark_jobs.protocol.errors import SluiceError


def table_checks(pipeline: PipelineConfig) -> AssetChecksDefinition | None:
    """Return a pipeline's checks, in one step as one look serves them all; None when all are off."""
    specs = [
        AssetCheckSpec(
            check.name,
            asset=table_key(pipeline),
            description=f"{check.meaning} When it fails: [{check.runbook}](/{check.runbook})",
            metadata={"severity": pipeline.checks.severity_of(check).value},
        )
        for check in checks_of(pipeline)
    ]
    if not specs:
        return None

    @multi_asset_check(
        name=step_name("check", pipeline.name),
        specs=specs,
        can_subset=True,
        pool=pool_of(pipeline, CHECKS),
    )
    def check_table(
        context: AssetCheckExecutionContext,
        sluice: ResourceParam[Sluice],
        spark: ResourceParam[SparkSessions],
    ) -> Iterator[AssetCheckResult]:
        with named_failures():
            health = sluice.check_up(pipeline)
            if _audit_when_due(context, sluice, spark, health):
                health = sluice.check_up(pipeline)
        selected = {key.name for key in context.selected_asset_check_keys}
        for result in health.results:
            # What no table can fail has not passed either: it stays unjudged.
            if result.name in selected and (health.table is not None or not result.passed):
                yield _result(pipeline, result)

    return check_table


def judge_new_table(context: AssetExecutionContext, pipeline: PipelineConfig, sluice: Sluice) -> None:
    """Judge a table in the run that filled it: the job ``checks`` may come five minutes later.

    A look that fails is told: the rows are in the table, whatever it says.
    """
    try:
        results = sluice.check_up(pipeline).results
    except SluiceError as error:
        context.log.warning("the new table could not be judged: %s", error)
        return
    for result in results:
        context.log_event(AssetCheckEvaluation(**_result(pipeline, result)._asdict()))


def _result(pipeline: PipelineConfig, result: CheckResult) -> AssetCheckResult:
    return AssetCheckResult(
        passed=result.passed,
        asset_key=table_key(pipeline),
        check_name=result.name,
        severity=AssetCheckSeverity[result.severity.name],
        description=result.fact,
        metadata={
            **({"what mends it": result.mend} if result.mend else {}),
            "runbook": MetadataValue.url(f"/{result.runbook}"),
            **{name: float(number) for name, number in result.numbers.items()},
        },
    )


def _audit_when_due(
    context: AssetCheckExecutionContext, sluice: Sluice, spark: SparkSessions, health: Health
) -> bool:
    """Compare the newest records with Kafka; when that cannot be done now, the older note stands."""
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
        context.log.warning("the hourly audit could not be made: %s", error)
        return False
    context.log.info("audited the newest %d offsets: %s", note.offsets, note)
    return True

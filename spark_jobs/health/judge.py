"""Judging a pipeline by the built-in checks that its configuration leaves on. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter

from spark_jobs.checks.check import Case, Check, Severity, Verdict
from spark_jobs.checks.facts import HealthFacts
from spark_jobs.checks.registry import BY_NAME, CHECKS
from spark_jobs.config.settings import PipelineConfig

_SAYS_NOTHING = PipelineConfig(name="n", topic="t", table="a.b")


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A check's verdict at the severity that the pipeline gives it; ``mend`` is empty when all is well."""

    name: str
    severity: Severity
    passed: bool
    fact: str
    numbers: dict[str, float] = field(default_factory=dict)
    mend: str = ""

    @property
    def is_failed_error(self) -> bool:
        """True if it wants a person now."""
        return not self.passed and self.severity is Severity.ERROR

    @property
    def runbook(self) -> str:
        """Where docs/runbook.md tells what to do."""
        return BY_NAME[self.name].runbook


def checks_of(pipeline: PipelineConfig) -> tuple[Check, ...]:
    """Return the checks that are not switched off, of a key only where it says something else than none."""
    on = (check for check in CHECKS if pipeline.checks.severity_of(check) is not Severity.OFF)
    return tuple(check for check in on if not check.only_with or _says(pipeline, check.only_with))


def _says(pipeline: PipelineConfig, key: str) -> bool:
    said = attrgetter(key)
    return bool(said(pipeline) != said(_SAYS_NOTHING))


def judge(pipeline: PipelineConfig, facts: HealthFacts) -> tuple[CheckResult, ...]:
    """Return the result of every check that is on, in their order."""
    return tuple(_result(pipeline, check, facts) for check in checks_of(pipeline))


def _result(pipeline: PipelineConfig, check: Check, facts: HealthFacts) -> CheckResult:
    verdict = _verdict(pipeline, check, facts)
    mend = "" if verdict.passed else verdict.mend
    severity = pipeline.checks.severity_of(check)
    return CheckResult(check.name, severity, verdict.passed, verdict.fact, verdict.numbers, mend)


def _verdict(pipeline: PipelineConfig, check: Check, facts: HealthFacts) -> Verdict:
    if not facts.is_known and not check.needs_no_kafka:
        reason, hint = (facts.error.message, facts.error.hint) if facts.error else ("no answer", "")
        return Verdict(passed=False, fact=f"cannot be judged: {reason}", mend=hint)
    case = Case(
        facts=facts,
        pipeline=pipeline.name,
        topic=pipeline.topic,
        freshness_seconds=pipeline.freshness_seconds,
        max_batch_records=pipeline.max_batch_records,
        dead_letters_stop_above=pipeline.dead_letters.stop_above,
        limit=pipeline.checks.limit_of(check),
        due_ms=pipeline.due_ms,
        table=pipeline.table,
        layout=pipeline.layout,
    )
    return check.judge(case)

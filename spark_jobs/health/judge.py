"""Judges a pipeline by the built-in checks that its configuration enables. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter

from spark_jobs.checks.check import Case, Check, Severity, Verdict
from spark_jobs.checks.facts import HealthFacts
from spark_jobs.checks.registry import BY_NAME, CHECKS
from spark_jobs.config.settings import PipelineConfig

_DEFAULTS = PipelineConfig(name="n", topic="t", table="a.b")


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A check's verdict with the pipeline's severity for it; ``mend`` is empty if it passed."""

    name: str
    severity: Severity
    passed: bool
    fact: str
    numbers: dict[str, float] = field(default_factory=dict)
    mend: str = ""

    @property
    def is_failed_error(self) -> bool:
        """True if the check failed with severity ``error``."""
        return not self.passed and self.severity is Severity.ERROR

    @property
    def runbook(self) -> str:
        """The check's section of the runbook."""
        return BY_NAME[self.name].runbook


def checks_of(pipeline: PipelineConfig) -> tuple[Check, ...]:
    """Return the pipeline's checks that are not off; those of a key only if the key is set."""
    on = (check for check in CHECKS if pipeline.checks.severity_of(check) is not Severity.OFF)
    return tuple(check for check in on if not check.only_with or _is_set(pipeline, check.only_with))


def _is_set(pipeline: PipelineConfig, key: str) -> bool:
    value = attrgetter(key)
    return bool(value(pipeline) != value(_DEFAULTS))


def judge(pipeline: PipelineConfig, facts: HealthFacts) -> tuple[CheckResult, ...]:
    """Return the result of every enabled check, in their order."""
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

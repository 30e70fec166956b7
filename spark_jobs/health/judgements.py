"""The built-in checks' judgements: from facts to passed or not, in one line, with what mends it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_jobs.config.check_names import DEFAULT_SEVERITIES, CheckName, Severity
from spark_jobs.config.quantities import spoken_duration
from spark_jobs.config.settings import DAY_SECONDS, CheckSetting
from spark_jobs.protocol import mends
from spark_jobs.protocol.batch import total

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.health.facts import AuditNote, HealthFacts, TableFacts

# A run's start and one retry fit in, whatever the freshness.
STALLED_AFTER_FRESHNESS = 5
STALLED_AFTER_SECONDS = 300
# A full batch starts a run at once, so more than two waiting means that arrivals are faster than drains.
LAG_BATCHES = 2
HEADROOM_SECONDS = DAY_SECONDS
HEADROOM_SHARE_OF_RETENTION = 0.25
DEAD_LETTER_SHARE = 0.01
LATELY_SECONDS = DAY_SECONDS


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One judgement: ``fact`` is the one line, ``mend`` the command to type (empty when all is well).

    ``numbers`` are plotted over time, so their names are stable; durations are in seconds.
    """

    name: CheckName
    severity: Severity
    passed: bool
    fact: str
    numbers: dict[str, float] = field(default_factory=dict)
    mend: str = ""

    @property
    def is_failed_error(self) -> bool:
        """Whether it wants a person now."""
        return not self.passed and self.severity is Severity.ERROR


@dataclass(frozen=True, slots=True)
class _Verdict:
    passed: bool
    fact: str
    numbers: dict[str, float]
    mend: str = ""


def severity_of(pipeline: PipelineConfig, name: CheckName) -> Severity:
    """How bad it is when this check fails for this pipeline."""
    return pipeline.checks.get(name, CheckSetting()).severity or DEFAULT_SEVERITIES[name]


def checks_of(pipeline: PipelineConfig) -> tuple[CheckName, ...]:
    """The checks that are not switched off."""
    return tuple(name for name in CheckName if severity_of(pipeline, name) is not Severity.OFF)


def limit_of(pipeline: PipelineConfig, name: CheckName) -> float | None:
    """The configured limit of a check."""
    return pipeline.checks.get(name, CheckSetting()).limit


def stalled_after_seconds(freshness_seconds: int) -> float:
    """How long nothing may be committed while records wait."""
    return float(max(STALLED_AFTER_SECONDS, STALLED_AFTER_FRESHNESS * freshness_seconds))


def judge(pipeline: PipelineConfig, facts: HealthFacts) -> tuple[CheckResult, ...]:
    """Every check that is on, in the order of their names' definition."""
    results = []
    for name in checks_of(pipeline):
        verdict = _JUDGES[name](pipeline, facts) if facts.is_known else _unknown(facts)
        mend = "" if verdict.passed else verdict.mend
        severity = severity_of(pipeline, name)
        results.append(CheckResult(name, severity, verdict.passed, verdict.fact, verdict.numbers, mend))
    return tuple(results)


def _unknown(facts: HealthFacts) -> _Verdict:
    reason, hint = (facts.error.message, facts.error.hint) if facts.error else ("no answer", "")
    return _Verdict(passed=False, fact=f"cannot be judged: {reason}", numbers={}, mend=hint)


def _complete(pipeline: PipelineConfig, facts: HealthFacts) -> _Verdict:
    if facts.table is None:
        return _no_table()
    verdicts = [_balanced(facts.table)]
    if facts.audit is not None:
        verdicts.append(_audited(facts.audit, facts.now_ms))
    return _Verdict(
        all(verdict.passed for verdict in verdicts),
        "; ".join(verdict.fact for verdict in verdicts),
        {name: number for verdict in verdicts for name, number in verdict.numbers.items()},
        mends.command("audit", pipeline.name),
    )


def _balanced(table: TableFacts) -> _Verdict:
    sums = total(batch.balance for batch in table.batches)
    unaccounted = sum(batch.unaccounted for batch in table.batches)
    removed = sum(removal.rows or 0 for removal in table.removals)
    numbers: dict[str, float] = {
        "batches": len(table.batches),
        "offsets": sums.offsets,
        "unaccounted": unaccounted,
        "holes": len(table.holes),
        "removed": removed,
    }
    batches = "1 batch balances" if len(table.batches) == 1 else f"{len(table.batches):,} batches balance"
    parts = [f"{batches} over {sums.offsets:,} offsets"]
    passed = not unaccounted and not table.holes
    if not passed:
        parts = [f"{unaccounted:,} offsets or rows are unaccounted for", *table.holes[:3]]
    if table.removals:
        newest = table.removals[-1]
        parts.append(f"another writer removed {removed:,} rows ({newest.operation} {newest.snapshot_id})")
    return _Verdict(passed, "; ".join(parts), numbers)


def _audited(note: AuditNote, now_ms: int) -> _Verdict:
    age = (now_ms - note.audited_at_ms) / 1000
    fact = (
        f"audit of the newest {note.offsets:,} offsets {spoken_duration(age)} ago: {note.missing:,} missing, "
        f"{note.duplicates:,} doubled, {note.differing:,} differing, {note.removed:,} removed"
    )
    numbers = {
        "audited_offsets": float(note.offsets),
        "missing": float(note.missing),
        "doubled": float(note.duplicates),
        "differing": float(note.differing),
        "audit_age_seconds": age,
    }
    return _Verdict(not (note.missing or note.duplicates or note.differing), fact, numbers)


def _fresh(pipeline: PipelineConfig, facts: HealthFacts) -> _Verdict:
    if facts.table is None:
        return _no_table(facts.waiting)
    limit = limit_of(pipeline, CheckName.FRESH) or stalled_after_seconds(pipeline.freshness_seconds)
    through = facts.valid_through_ms
    if through is None:
        # Before the first commit that reached an end, the table's age is the best bound there is.
        through = facts.table.committed_at_ms
    age = max(0.0, (facts.now_ms - through) / 1000)
    fact = (
        f"complete up to {spoken_duration(age)} ago" if facts.waiting else "complete up to now: nothing waits"
    )
    numbers = {"age_seconds": age, "limit_seconds": limit}
    return _Verdict(age <= limit, _within(fact, spoken_duration(limit)), numbers, _drain(pipeline, facts))


def _lag(pipeline: PipelineConfig, facts: HealthFacts) -> _Verdict:
    limit = limit_of(pipeline, CheckName.LAG) or LAG_BATCHES * pipeline.max_batch_records
    fact = f"{facts.waiting:,} records wait"
    if facts.waiting and len(facts.lag) > 1:
        most = max(facts.lag, key=lambda partition: facts.lag[partition])
        fact += f", {facts.lag[most]:,} of them in partition {most}"
    numbers: dict[str, float] = {"lag_records": facts.waiting, "limit_records": limit}
    return _Verdict(facts.waiting <= limit, _within(fact, f"{limit:,.0f}"), numbers, _drain(pipeline, facts))


def _stall(pipeline: PipelineConfig, facts: HealthFacts) -> _Verdict:
    limit = limit_of(pipeline, CheckName.STALL) or stalled_after_seconds(pipeline.freshness_seconds)
    table = facts.table
    quiet = (facts.now_ms - table.committed_at_ms) / 1000 if table is not None else 0.0
    numbers = {"seconds_since_commit": quiet, "lag_records": float(facts.waiting), "limit_seconds": limit}
    if facts.error is not None:
        return _Verdict(
            passed=False,
            fact=f"a drain would stop: {facts.error.message}",
            numbers=numbers,
            mend=facts.error.hint,
        )
    if facts.held:
        fact = f"{len(facts.held)} batches are held by a quality gate; later ones wait"
        return _Verdict(
            passed=False, fact=fact, numbers=numbers, mend=mends.command("held list", pipeline.name)
        )
    if table is None:
        return _no_table(facts.waiting)
    if table.paused is not None:
        fact = f"paused by {table.paused.actor}: {table.paused.reason}"
        return _Verdict(passed=True, fact=fact, numbers=numbers)
    if not facts.waiting:
        return _Verdict(passed=True, fact="nothing waits", numbers=numbers)
    fact = f"{facts.waiting:,} records wait, the last commit was {spoken_duration(quiet)} ago"
    return _Verdict(
        quiet <= limit, _within(fact, spoken_duration(limit)), numbers, mends.command("drain", pipeline.name)
    )


def _retention_headroom(pipeline: PipelineConfig, facts: HealthFacts) -> _Verdict:
    if facts.table is None:
        return _no_table(facts.waiting)
    left = facts.headroom_ms
    if left is None:
        is_unknown = facts.waiting and not facts.is_retention_known
        fact = (
            f"unknown: the settings of topic {pipeline.topic} cannot be read (DESCRIBE_CONFIGS)"
            if is_unknown
            else "nothing waits that Kafka would delete"
        )
        return _Verdict(passed=True, fact=fact, numbers={"lag_records": facts.waiting})
    seconds = left / 1000
    limit = limit_of(pipeline, CheckName.RETENTION_HEADROOM) or _headroom_limit_seconds(facts.retention_ms)
    fact = (
        f"Kafka may delete the next record in {spoken_duration(seconds)}"
        if seconds
        else ("Kafka may delete the next record now")
    )
    numbers = {"headroom_minutes": seconds / 60, "limit_minutes": limit / 60}
    return _Verdict(
        seconds >= limit,
        f"{fact} (at least {spoken_duration(limit)} wanted)",
        numbers,
        f"raise retention.ms of topic {pipeline.topic}, then {_drain(pipeline, facts)}",
    )


def _dead_letters(pipeline: PipelineConfig, facts: HealthFacts) -> _Verdict:
    if facts.table is None:
        return _no_table()
    since_ms = facts.now_ms - LATELY_SECONDS * 1000
    sums = total(b.balance for b in facts.table.batches if b.committed_at_ms >= since_ms)
    records = sums.rows + sums.dead_letters + sums.tombstones
    share = sums.dead_letters / records if records else 0.0
    limit = _dead_letter_limit(pipeline)
    numbers = {"dead_letters": float(sums.dead_letters), "records": float(records), "share": share}
    when = (
        "within a day" if facts.table.shows_history else "by the last commit, which is all the catalog shows"
    )
    fact = f"{sums.dead_letters:,} of the {records:,} records drained {when} ({share:.2%})"
    mend = mends.command("query", pipeline.name, "'SELECT * FROM dead_letters'")
    return _Verdict(share <= limit, _within(fact, f"{limit:.2%}"), numbers, mend)


def _schema(pipeline: PipelineConfig, facts: HealthFacts) -> _Verdict:
    table = facts.table
    if table is None:
        return _no_table()
    numbers: dict[str, float] = {"changes": len(table.schema_changes)}
    if not table.schema_changes:
        fact = "no column changed lately" if table.shows_history else "the catalog shows no earlier schema"
        return _Verdict(passed=True, fact=fact, numbers=numbers)
    told = ", ".join(table.schema_changes[:10])
    more = len(table.schema_changes) - 10
    fact = told + (f" and {more} more" if more > 0 else "")
    return _Verdict(passed=False, fact=fact, numbers=numbers, mend=mends.command("preview", pipeline.name))


def _dead_letter_limit(pipeline: PipelineConfig) -> float:
    chosen = (limit_of(pipeline, CheckName.DEAD_LETTERS), pipeline.dead_letters.stop_above)
    return next((share for share in chosen if share is not None), DEAD_LETTER_SHARE)


def _headroom_limit_seconds(retention_ms: int | None) -> float:
    """A day, but for topics that keep little: a quarter of what they keep."""
    if retention_ms is None:
        return float(HEADROOM_SECONDS)
    return min(HEADROOM_SECONDS, retention_ms / 1000 * HEADROOM_SHARE_OF_RETENTION)


def _drain(pipeline: PipelineConfig, facts: HealthFacts) -> str:
    is_paused = facts.table is not None and facts.table.paused is not None
    if is_paused:
        return mends.resume(pipeline.name)
    return mends.command("drain", pipeline.name)


def _no_table(waiting: int = 0) -> _Verdict:
    fact = f"no table yet, {waiting:,} records wait" if waiting else "no table yet"
    return _Verdict(passed=True, fact=fact, numbers={})


def _within(fact: str, limit: str) -> str:
    return f"{fact} (limit {limit})"


_JUDGES: dict[CheckName, Callable[[PipelineConfig, HealthFacts], _Verdict]] = {
    CheckName.COMPLETE: _complete,
    CheckName.FRESH: _fresh,
    CheckName.LAG: _lag,
    CheckName.STALL: _stall,
    CheckName.RETENTION_HEADROOM: _retention_headroom,
    CheckName.DEAD_LETTERS: _dead_letters,
    CheckName.SCHEMA: _schema,
}

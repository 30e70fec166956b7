"""``retention_headroom``: the time until Kafka may delete a record that waits. Pure."""

from __future__ import annotations

from spark_jobs.checks.check import (
    DAY_SECONDS,
    Case,
    Check,
    LimitKind,
    Severity,
    Verdict,
    drain_or_resume,
    no_table,
    spoken_duration,
)

HEADROOM_SECONDS = DAY_SECONDS
HEADROOM_SHARE_OF_RETENTION = 0.25


def judge(case: Case) -> Verdict:
    """Judge when Kafka may delete the first record that waits; passes if that cannot be known."""
    facts = case.facts
    if facts.table is None:
        return no_table(facts.waiting)
    left = facts.headroom_ms
    if left is None:
        is_unknown = facts.waiting and not facts.is_retention_known
        fact = (
            f"unknown: reading the settings of topic {case.topic} requires the right DESCRIBE_CONFIGS"
            if is_unknown
            else "Kafka is not about to delete a record that waits"
        )
        return Verdict(passed=True, fact=fact, numbers={"lag_records": facts.waiting})
    seconds = left / 1000
    # A day, or a share of the retention if that is shorter.
    kept_ms = facts.retention_ms
    share = HEADROOM_SECONDS if kept_ms is None else kept_ms / 1000 * HEADROOM_SHARE_OF_RETENTION
    limit = case.limit or float(min(HEADROOM_SECONDS, share))
    due = f"in {spoken_duration(seconds)}" if seconds else "now"
    fact = f"Kafka may delete the next record {due}"
    numbers = {"headroom_minutes": seconds / 60, "limit_minutes": limit / 60}
    return Verdict(
        seconds >= limit,
        f"{fact} (minimum {spoken_duration(limit)})",
        numbers,
        f"raise retention.ms of topic {case.topic}, then {drain_or_resume(case)}",
    )


CHECK = Check(
    "retention_headroom",
    place=5,
    meaning="Kafka keeps the records that wait for longer than the limit.",
    severity=Severity.ERROR,
    judge=judge,
    limit_text="Limit: minimum time; default: `1d`, or a quarter of `retention.ms` if that is less.",
    limit=LimitKind.DURATION,
)

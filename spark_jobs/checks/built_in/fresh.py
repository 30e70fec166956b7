"""``fresh``: the age of the oldest record that is not in the table. Pure."""

from __future__ import annotations

from spark_jobs.checks.check import (
    SCHEDULED_DRAIN_SECONDS,
    Case,
    Check,
    LimitKind,
    Severity,
    Verdict,
    drain_or_resume,
    no_table,
    seconds_late,
    spoken_duration,
    stalled_after_seconds,
)
from spark_jobs.protocol.source import held_back
from spark_jobs.protocol.texts import records_wait


def judge(case: Case) -> Verdict:
    """Judge the age of the oldest record that waits; an idle topic passes, however long it is silent."""
    facts = case.facts
    if facts.table is None:
        return no_table(facts.waiting)
    since = facts.oldest_since_ms
    age = (facts.now_ms - since) / 1000
    is_scheduled = case.due_ms(since) is not None
    default = SCHEDULED_DRAIN_SECONDS if is_scheduled else stalled_after_seconds(case.freshness_seconds)
    limit, late = case.limit or default, seconds_late(case, since)
    waiting = [records_wait(facts.waiting)] if facts.waiting else []
    waiting += [held_back(facts.undecided)] if facts.undecided else []
    fact = "; ".join(waiting) + f", the oldest for {spoken_duration(age)}" if waiting else "no record waits"
    numbers = {"age_seconds": age, "limit_seconds": limit}
    after = " after the schedule's tick" if is_scheduled else ""
    fact += f" (limit {spoken_duration(limit)}{after})"
    return Verdict(late <= limit, fact, numbers, drain_or_resume(case))


CHECK = Check(
    "fresh",
    place=2,
    meaning="No record of the topic has waited longer than the limit; an idle topic passes.",
    severity=Severity.ERROR,
    judge=judge,
    limit_text="Limit: age of the oldest record that waits; default: 5 times `freshness`, at least `5m`."
    " With `schedule`: time since the tick that should have drained it; default: `1h`.",
    limit=LimitKind.DURATION,
)

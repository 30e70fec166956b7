"""``fresh``: how old the newest record is up to which the table is complete. Pure."""

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


def judge(case: Case) -> Verdict:
    """Judge the age of what the table is complete up to; an idle topic has none."""
    facts = case.facts
    if facts.table is None:
        return no_table(facts.waiting)
    through = facts.drained_through_ms
    age = max(0.0, (facts.now_ms - through) / 1000)
    is_scheduled = case.due_ms(through) is not None
    default = SCHEDULED_DRAIN_SECONDS if is_scheduled else stalled_after_seconds(case.freshness_seconds)
    limit, late = case.limit or default, seconds_late(case, through)
    is_behind = facts.waiting or facts.undecided
    fact = f"complete up to {spoken_duration(age)} ago" if is_behind else "complete up to now: nothing waits"
    if facts.undecided:
        fact += f"; {held_back(facts.undecided)}"
    numbers = {"age_seconds": age, "limit_seconds": limit}
    after = " after the schedule's tick" if is_scheduled else ""
    fact += f" (limit {spoken_duration(limit)}{after})"
    return Verdict(late <= limit, fact, numbers, drain_or_resume(case))


CHECK = Check(
    "fresh",
    place=2,
    meaning="The table holds every record up to a moment ago; an idle topic counts as fresh.",
    severity=Severity.ERROR,
    judge=judge,
    limit_text="`limit`: its age; by default 5 times `freshness`, at least `5m`. With `schedule`: how long"
    " ago the tick was that should have drained it; by default `1h`.",
    limit=LimitKind.DURATION,
)

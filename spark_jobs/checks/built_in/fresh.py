"""``fresh``: how old the newest record is up to which the table is complete. Pure."""

from __future__ import annotations

from spark_jobs.checks.check import (
    Case,
    Check,
    LimitKind,
    Severity,
    Verdict,
    drain_or_resume,
    no_table,
    spoken_duration,
    stalled_after_seconds,
)
from spark_jobs.protocol.source import held_back


def judge(case: Case) -> Verdict:
    """Judge the age of what the table is complete up to; an idle topic has none."""
    facts = case.facts
    if facts.table is None:
        return no_table(facts.waiting)
    limit = case.limit or stalled_after_seconds(case.freshness_seconds)
    through = facts.valid_through_ms
    if through is None:
        # Before the first commit that reached an end, the table's age is the best bound there is.
        through = facts.table.committed_at_ms
    age = max(0.0, (facts.now_ms - through) / 1000)
    is_behind = facts.waiting or facts.undecided
    fact = f"complete up to {spoken_duration(age)} ago" if is_behind else "complete up to now: nothing waits"
    if facts.undecided:
        fact += f"; {held_back(facts.undecided)}"
    numbers = {"age_seconds": age, "limit_seconds": limit}
    fact += f" (limit {spoken_duration(limit)})"
    return Verdict(age <= limit, fact, numbers, drain_or_resume(case))


CHECK = Check(
    "fresh",
    place=2,
    meaning="The table holds every record up to a moment ago; an idle topic counts as fresh.",
    severity=Severity.ERROR,
    judge=judge,
    limit_text="`limit`: its age; by default 5 times `freshness`, at least `5m`.",
    limit=LimitKind.DURATION,
)

"""``lag``: the number of records that wait. Pure."""

from __future__ import annotations

from spark_jobs.checks.check import (
    SCHEDULED_DRAIN_SECONDS,
    Case,
    Check,
    LimitKind,
    Severity,
    Verdict,
    drain_or_resume,
    seconds_late,
)
from spark_jobs.protocol.texts import records_wait

# A full batch starts a run at once, so more than two waiting means that arrivals are faster than drains.
LAG_BATCHES = 2


def judge(case: Case) -> Verdict:
    """Judge the number of records that wait; the fact names the partition with the most."""
    facts = case.facts
    limit = case.limit or LAG_BATCHES * case.max_batch_records
    fact, mend = records_wait(facts.waiting), drain_or_resume(case)
    if facts.waiting and len(facts.lag) > 1:
        most = max(facts.lag, key=lambda partition: facts.lag[partition])
        fact += f", {facts.lag[most]:,} of them in partition {most}"
    numbers: dict[str, float] = {"lag_records": facts.waiting, "limit_records": limit}
    since = facts.oldest_since_ms
    # With a schedule: its tick is not due yet, or its drain still has time.
    is_left = case.due_ms(since) is not None and seconds_late(case, since) <= SCHEDULED_DRAIN_SECONDS
    return Verdict(facts.waiting <= limit or is_left, f"{fact} (limit {limit:,.0f})", numbers, mend)


CHECK = Check(
    "lag",
    place=3,
    meaning="No more records wait than the next runs take.",
    severity=Severity.WARN,
    judge=judge,
    limit_text="Limit: number of records that wait; default: twice `max_batch_records`. With `schedule` the"
    " check passes until an hour after the tick that should have drained them.",
    limit=LimitKind.COUNT,
)

"""``lag``: how many records wait. Pure."""

from __future__ import annotations

from spark_jobs.checks.check import Case, Check, LimitKind, Severity, Verdict, drain_or_resume

# A full batch starts a run at once, so more than two waiting means that arrivals are faster than drains.
LAG_BATCHES = 2


def judge(case: Case) -> Verdict:
    """Judge the records that wait in all partitions, naming the one with the most."""
    facts = case.facts
    limit = case.limit or LAG_BATCHES * case.max_batch_records
    fact = f"{facts.waiting:,} records wait"
    if facts.waiting and len(facts.lag) > 1:
        most = max(facts.lag, key=lambda partition: facts.lag[partition])
        fact += f", {facts.lag[most]:,} of them in partition {most}"
    numbers: dict[str, float] = {"lag_records": facts.waiting, "limit_records": limit}
    return Verdict(facts.waiting <= limit, f"{fact} (limit {limit:,.0f})", numbers, drain_or_resume(case))


CHECK = Check(
    "lag",
    place=3,
    meaning="Not much more waits than the next runs take.",
    severity=Severity.WARN,
    judge=judge,
    limit_text="`limit`: waiting records; by default twice `max_batch_records`.",
    limit=LimitKind.COUNT,
)

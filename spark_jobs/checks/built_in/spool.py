"""``spool``: the age of events on the gateway's disk that wait for Kafka, and its free space. Pure."""

from __future__ import annotations

from spark_jobs.checks.check import MINUTE_SECONDS, Case, Check, LimitKind, Severity, Verdict, spoken_duration
from spark_jobs.protocol.texts import count

OLDEST_SECONDS = 5 * MINUTE_SECONDS
# Above this share the gateway soon rejects batches with buffer_full.
USED_SHARE = 0.8


def judge(case: Case) -> Verdict:
    """Judge the spool of this machine's gateway."""
    spool = case.facts.spool
    if spool is None:
        return Verdict(passed=True, fact="no spool on this machine")
    if spool.unreadable:
        mend = "check the disk of the gateway's `spool.path` and its permissions"
        return Verdict(passed=False, fact=f"the spool cannot be read: {spool.unreadable}", mend=mend)
    limit = case.limit or OLDEST_SECONDS
    age = 0.0 if spool.oldest_ms is None else max(0.0, (case.facts.now_ms - spool.oldest_ms) / 1000)
    numbers = {"batches": float(spool.batches), "bytes": float(spool.bytes), "age_seconds": age}
    numbers["used_share"] = spool.used
    fact = "no batch waits on the gateway's disk"
    if spool.batches:
        fact = (
            f"{count(spool.batches, 'batch waits', 'batches wait')} on the gateway's disk for Kafka"
            f" ({spool.bytes:,} bytes), the oldest for {spoken_duration(age)}"
            f" (limit {spoken_duration(limit)})"
        )
    mend = (
        "make sure that Kafka answers and that the gateway runs (./sluice gateway): it sends them; if that"
        " gateway will not run again: ./sluice gateway --drain-spool"
    )
    is_roomy = spool.used <= USED_SHARE
    full = f"{spool.used:.0%} of spool.max is used"
    return Verdict(age <= limit and is_roomy, f"{fact}; {full}", numbers, mend)


CHECK = Check(
    "spool",
    place=10,
    meaning="Events on the gateway's disk reach Kafka within the limit, and the disk has space.",
    severity=Severity.ERROR,
    judge=judge,
    limit_text="Limit: age of the oldest batch on the gateway's disk; default: `5m`."
    " Only pipelines of the gateway's streams have it.",
    limit=LimitKind.DURATION,
    only_with="is_of_stream",
    needs_no_kafka=True,
)

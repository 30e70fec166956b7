"""``spool``: for how long events that the gateway took wait on its disk for Kafka, and its room. Pure."""

from __future__ import annotations

from spark_jobs.checks.check import MINUTE_SECONDS, Case, Check, LimitKind, Severity, Verdict, spoken_duration
from spark_jobs.protocol.texts import count

OLDEST_SECONDS = 5 * MINUTE_SECONDS
# From here on clients are soon told to wait.
USED_SHARE = 0.8


def judge(case: Case) -> Verdict:
    """Judge what lies in the spool of this machine's gateway."""
    spool = case.facts.spool
    if spool is None:
        return Verdict(passed=True, fact="no spool on this machine")
    if spool.unreadable:
        mend = "look at the disk of the gateway's `spool.path`, and who may read it"
        return Verdict(passed=False, fact=f"it cannot be read: {spool.unreadable}", mend=mend)
    limit = case.limit or OLDEST_SECONDS
    age = 0.0 if spool.oldest_ms is None else max(0.0, (case.facts.now_ms - spool.oldest_ms) / 1000)
    numbers = {"batches": float(spool.batches), "bytes": float(spool.bytes), "age_seconds": age}
    numbers["used_share"] = spool.used
    fact = "nothing waits on its disk"
    if spool.batches:
        fact = (
            f"{count(spool.batches, 'batch', 'batches')}, {spool.bytes:,} bytes, wait on its disk, the oldest"
            f" for {spoken_duration(age)} (limit {spoken_duration(limit)})"
        )
    mend = (
        "have Kafka answer, and the gateway run (./sluice gateway): it sends them; of one that will not come"
        " back: ./sluice gateway --drain-spool"
    )
    is_roomy = spool.used <= USED_SHARE
    return Verdict(age <= limit and is_roomy, f"{fact}; {spool.used:.0%} of its room is taken", numbers, mend)


CHECK = Check(
    "spool",
    place=10,
    meaning="What the gateway took while Kafka was away reaches Kafka soon, and its disk has room.",
    severity=Severity.ERROR,
    judge=judge,
    limit_text="Limit: the age of the oldest batch on the gateway's disk; by default `5m`."
    " Pipelines of the gateway's streams alone have it.",
    limit=LimitKind.DURATION,
    only_with="is_of_stream",
    needs_no_kafka=True,
)

"""``stall``: batches are committed while records wait. Pure."""

from __future__ import annotations

from spark_jobs.checks.check import (
    Case,
    Check,
    LimitKind,
    Severity,
    Verdict,
    no_table,
    seconds_late,
    spoken_duration,
    stalled_after_seconds,
)
from spark_jobs.protocol import mends
from spark_jobs.protocol.source import held_back
from spark_jobs.protocol.texts import count, records_wait


def judge(case: Case) -> Verdict:
    """Judge how long records wait without a commit, and what prevents the next commit."""
    facts = case.facts
    limit = case.limit or stalled_after_seconds(case.freshness_seconds)
    table = facts.table
    since = facts.now_ms if table is None else max(table.committed_at_ms, facts.oldest_since_ms)
    quiet = (facts.now_ms - since) / 1000
    numbers = {"seconds_without_commit": quiet, "lag_records": float(facts.waiting), "limit_seconds": limit}
    if (obstacle := _obstacle(case)) is not None:
        fact, mend = obstacle
        return Verdict(passed=False, fact=fact, numbers=numbers, mend=mend)
    if table is None:
        return no_table(facts.waiting)
    if table.paused is not None:
        fact = f"paused by {table.paused.actor}: {table.paused.reason}"
        return Verdict(passed=True, fact=fact, numbers=numbers)
    if not facts.waiting:
        nothing = Verdict(passed=True, fact="no record waits", numbers=numbers)
        return _open_transaction(case, limit, numbers) if facts.undecided else nothing
    fact = f"{records_wait(facts.waiting)}, without a commit for {spoken_duration(quiet)}"
    late = seconds_late(case, since)
    if case.due_ms(since) is not None:
        fact += (
            f", a scheduled drain is late by {spoken_duration(late)}"
            if late
            else ", no scheduled drain is due"
        )
    fact += f" (limit {spoken_duration(limit)})"
    return Verdict(late <= limit, fact, numbers, mends.command("drain", case.pipeline))


def _obstacle(case: Case) -> tuple[str, str] | None:
    """Return the reason why no drain can commit, and the command that fixes it."""
    facts = case.facts
    if facts.error is not None:
        return f"a drain would fail now: {facts.error.message}", facts.error.hint
    if facts.held:
        failed = count(len(facts.held), "batch", "batches")
        fact = f"{failed} failed a quality gate and must be decided on; later batches wait"
        return fact, mends.command("held list", case.pipeline)
    if facts.failure is not None and (facts.table is None or facts.table.paused is None):
        return facts.failure.message, facts.failure.hint
    return None


def _open_transaction(case: Case, limit: float, numbers: dict[str, float]) -> Verdict:
    """Judge how long a transaction has been open; passes if that cannot be known."""
    facts, fact = case.facts, held_back(case.facts.undecided)
    since_ms = facts.now_ms if facts.undecided_since_ms is None else facts.undecided_since_ms
    open_seconds = (facts.now_ms - since_ms) / 1000
    if open_seconds > 0:
        fact += f", the first for {spoken_duration(open_seconds)} (limit {spoken_duration(limit)})"
    mend = f"kafka-transactions.sh --bootstrap-server ... find-hanging --broker-id ...  # topic {case.topic}"
    return Verdict(open_seconds <= limit, fact, numbers, mend)


CHECK = Check(
    "stall",
    place=4,
    meaning="Batches are committed while records wait, and no open transaction holds records back for long.",
    severity=Severity.ERROR,
    judge=judge,
    limit_text="Limit: time without a commit while records wait; default: 5 times `freshness`, at least"
    " `5m`. With `schedule`: counted from the next tick.",
    limit=LimitKind.DURATION,
)

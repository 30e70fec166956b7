"""``stall``: whether batches are committed while records wait. Pure."""

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
    """Judge for how long records wait and no commit came, and what keeps the next one from coming."""
    facts = case.facts
    limit = case.limit or stalled_after_seconds(case.freshness_seconds)
    table = facts.table
    since = facts.now_ms if table is None else max(table.committed_at_ms, facts.oldest_since_ms)
    quiet = (facts.now_ms - since) / 1000
    numbers = {"seconds_without_commit": quiet, "lag_records": float(facts.waiting), "limit_seconds": limit}
    if (standing := _standing(case)) is not None:
        fact, mend = standing
        return Verdict(passed=False, fact=fact, numbers=numbers, mend=mend)
    if table is None:
        return no_table(facts.waiting)
    if table.paused is not None:
        fact = f"paused by {table.paused.actor}: {table.paused.reason}"
        return Verdict(passed=True, fact=fact, numbers=numbers)
    if not facts.waiting:
        nothing = Verdict(passed=True, fact="nothing waits", numbers=numbers)
        return _held_back(case, limit, numbers) if facts.undecided else nothing
    fact = f"{records_wait(facts.waiting)}, without a commit for {spoken_duration(quiet)}"
    late = seconds_late(case, since)
    if case.due_ms(since) is not None:
        fact += f", a schedule's tick has waited for {spoken_duration(late)}" if late else ", none is due"
    fact += f" (limit {spoken_duration(limit)})"
    return Verdict(late <= limit, fact, numbers, mends.command("drain", case.pipeline))


def _standing(case: Case) -> tuple[str, str] | None:
    """Return what keeps every drain from committing, and its mend."""
    facts = case.facts
    if facts.error is not None:
        return f"a drain would stop: {facts.error.message}", facts.error.hint
    if facts.held:
        held = f"{count(len(facts.held), 'batch is', 'batches are')} held by a quality gate; later ones wait"
        return held, mends.command("held list", case.pipeline)
    if facts.failure is not None and (facts.table is None or facts.table.paused is None):
        return facts.failure.message, facts.failure.hint
    return None


def _held_back(case: Case, limit: float, numbers: dict[str, float]) -> Verdict:
    """Judge how long a transaction has been open; passes when that cannot be known."""
    facts, fact = case.facts, held_back(case.facts.undecided)
    since_ms = facts.now_ms if facts.undecided_since_ms is None else facts.undecided_since_ms
    open_seconds = (facts.now_ms - since_ms) / 1000
    if open_seconds > 0:
        fact += f", the first of {spoken_duration(open_seconds)} ago (limit {spoken_duration(limit)})"
    mend = f"kafka-transactions.sh --bootstrap-server ... find-hanging --broker-id ...  # topic {case.topic}"
    return Verdict(open_seconds <= limit, fact, numbers, mend)


CHECK = Check(
    "stall",
    place=4,
    meaning="While records wait, batches are committed, and no transaction holds them back for long.",
    severity=Severity.ERROR,
    judge=judge,
    limit_text="Limit: how long records wait without one; by default 5 times `freshness`, at least `5m`."
    " With `schedule`: since the tick after it.",
    limit=LimitKind.DURATION,
)

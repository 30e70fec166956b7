"""``dead_letters``: which share of a day's records could not become rows. Pure."""

from __future__ import annotations

from spark_jobs.checks.check import LATELY_SECONDS, Case, Check, LimitKind, Severity, Verdict, no_table
from spark_jobs.protocol import mends
from spark_jobs.protocol.batch import total

DEAD_LETTER_SHARE = 0.01


def judge(case: Case) -> Verdict:
    """Judge the dead letters of the last day's batches."""
    facts = case.facts
    if facts.table is None:
        return no_table()
    since_ms = facts.now_ms - LATELY_SECONDS * 1000
    sums = total(b.balance for b in facts.table.batches if b.committed_at_ms >= since_ms)
    records = sums.records
    share = sums.dead_letters / records if records else 0.0
    chosen = (case.limit, case.dead_letters_stop_above)
    limit = next((share for share in chosen if share is not None), DEAD_LETTER_SHARE)
    numbers = {"dead_letters": float(sums.dead_letters), "records": float(records), "share": share}
    when = (
        "within a day" if facts.table.shows_history else "by the last commit, which is all the catalog shows"
    )
    fact = (
        f"{sums.dead_letters:,} of the {records:,} records drained {when} ({share:.2%}) (limit {limit:.2%})"
    )
    look = mends.command("query", case.pipeline, "'SELECT * FROM dead_letters'")
    name, *options = case.layout.dead_letters_anew
    again = mends.act(name, case.pipeline, *options)
    mend = f"{look}; once mended: {again}"
    return Verdict(share <= limit, fact, numbers, mend)


CHECK = Check(
    "dead_letters",
    place=6,
    meaning="Few of the lately drained records could not become rows.",
    severity=Severity.WARN,
    judge=judge,
    limit_text="Limit: their share of a day's records; by default `dead_letters.stop_above`, else `1%`.",
    limit=LimitKind.SHARE,
)

"""``dead_letters``: the share of a day's records that became dead letters. Pure."""

from __future__ import annotations

from spark_jobs.checks.check import LATELY_SECONDS, Case, Check, LimitKind, Severity, Verdict, no_table
from spark_jobs.protocol import mends
from spark_jobs.protocol.batch import total
from spark_jobs.protocol.texts import count

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
        "in the last 24 hours"
        if facts.table.shows_history
        else "by the last commit, the only one that the catalog returns"
    )
    fact = (
        f"{sums.dead_letters:,} of {count(records, 'record')} drained {when} became dead letters"
        f" ({share:.2%}, limit {limit:.2%})"
    )
    look = mends.command("query", case.pipeline, "'SELECT * FROM dead_letters'")
    name, *options = case.layout.dead_letter_commands
    again = mends.act(name, case.pipeline, *options)
    mend = f"{look}; after fixing the cause: {again}"
    return Verdict(share <= limit, fact, numbers, mend)


CHECK = Check(
    "dead_letters",
    place=6,
    meaning="Few of the records drained in the last 24 hours became dead letters.",
    severity=Severity.WARN,
    judge=judge,
    limit_text="Limit: share of a day's records; default: `dead_letters.stop_above`, else `1%`.",
    limit=LimitKind.SHARE,
)

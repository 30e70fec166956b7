"""``exact``: whether every change of a mirror's source is in it, by its own books. Pure."""

from __future__ import annotations

from spark_jobs.checks.check import Case, Check, Severity, Verdict, no_table
from spark_jobs.protocol import mends
from spark_jobs.protocol.texts import count


def judge(case: Case) -> Verdict:
    """Judge what was not folded into the mirror, ever since it was made or made anew."""
    table = case.facts.table
    if table is None:
        return no_table()
    told_again = sum(batch.balance.get("told_again", 0) for batch in table.batches)
    foreign = case.facts.audit.foreign if case.facts.audit else 0
    numbers = {
        "told_again": float(told_again),
        "foreign": float(foreign),
        "dead_letters": float(table.dead_letters),
        "skipped": float(table.skipped),
        "restarts": float(table.restarts),
    }
    if case.facts.error is not None and case.facts.error.code == "mirror-key-spelling":
        fact = case.facts.error.message
    elif foreign:
        fact = (
            f"{count(foreign, 'change')} of another source or table in its topic, as the last audit found:"
            " rows may be lost, or others'. A table with `layout: changes` keeps every event; else have each"
            " told into a topic of its own, and make this one anew"
        )
    elif table.restarts:
        fact = "its source began anew, which was accepted: rows that it has no more may be there"
    elif table.dead_letters or table.skipped:
        fact = (
            f"{count(table.dead_letters, 'dead letter')} and {count(table.skipped, 'skipped offset')}:"
            " rows of their keys may be wrong"
        )
    else:
        again = f"; {count(told_again, 'change')} told again in the kept batches, skipped"
        fact = "every change is in it" + (again if told_again else "")
        return Verdict(passed=True, fact=fact, numbers=numbers)
    return Verdict(passed=False, fact=fact, numbers=numbers, mend=mends.act("rebuild", case.pipeline))


CHECK = Check(
    "exact",
    place=9,
    meaning="Every change that was drained is in the mirror: none is a dead letter, none was skipped, the"
    " source did not begin anew, and no other source or table was in its topic.",
    severity=Severity.ERROR,
    judge=judge,
    only_with="layout.own_checks",
)

"""``exact``: every drained change of the source is in the mirror, by the mirror's own counts. Pure."""

from __future__ import annotations

from spark_jobs.checks.check import Case, Check, Severity, Verdict, no_table
from spark_jobs.protocol import mends
from spark_jobs.protocol.texts import count


def judge(case: Case) -> Verdict:
    """Judge the changes that were not applied to the mirror since it was created or rebuilt."""
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
            f"the last audit found {count(foreign, 'change')} of another source or table in the topic: rows"
            " may be missing, or belong to the other table. Send each table to its own topic and rebuild the"
            " mirror, or use `layout: changes`, which keeps every event"
        )
    elif table.restarts:
        fact = (
            "the source database was reset, which was accepted: the mirror may still have rows that the"
            " source no longer has"
        )
    elif table.dead_letters or table.skipped:
        fact = (
            f"{count(table.dead_letters, 'dead letter')} and {count(table.skipped, 'skipped offset')}:"
            " the rows of their keys may be wrong"
        )
    else:
        again = f"; {count(told_again, 'repeated change')} ignored in the kept batches"
        fact = "every drained change is in the mirror" + (again if told_again else "")
        return Verdict(passed=True, fact=fact, numbers=numbers)
    return Verdict(passed=False, fact=fact, numbers=numbers, mend=mends.act("rebuild", case.pipeline))


CHECK = Check(
    "exact",
    place=9,
    meaning="Every drained change is in the mirror: none is a dead letter, none was skipped, the source was"
    " not reset, and the topic has changes of one source and table only.",
    severity=Severity.ERROR,
    judge=judge,
    only_with="layout.own_checks",
)

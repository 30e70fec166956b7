"""``schema``: the table's columns have not changed in the last 24 hours. Pure."""

from __future__ import annotations

from spark_jobs.checks.check import Case, Check, Severity, Verdict, no_table
from spark_jobs.protocol import mends


def judge(case: Case) -> Verdict:
    """Judge the changes of columns in the last 24 hours."""
    table = case.facts.table
    if table is None:
        return no_table()
    numbers: dict[str, float] = {"changes": len(table.schema_changes)}
    if not table.schema_changes:
        unchanged = "no column changed in the last 24 hours"
        fact = unchanged if table.shows_history else "the catalog returns no earlier schema"
        return Verdict(passed=True, fact=fact, numbers=numbers)
    more = len(table.schema_changes) - 10
    fact = ", ".join(table.schema_changes[:10]) + (f" and {more} more" if more > 0 else "")
    return Verdict(passed=False, fact=fact, numbers=numbers, mend=mends.command("preview", case.pipeline))


CHECK = Check(
    "schema",
    place=7,
    meaning="The table's columns have not changed in the last 24 hours.",
    severity=Severity.WARN,
    judge=judge,
)

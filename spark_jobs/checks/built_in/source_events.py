"""``source_events``: each event of the gateway's sources is in the table once. Pure."""

from __future__ import annotations

from spark_jobs.checks.check import Case, Check, Severity, Verdict, no_table, spoken_duration
from spark_jobs.protocol import mends
from spark_jobs.protocol.texts import count


def judge(case: Case) -> Verdict:
    """Judge the last audit's counts by the sources' own event numbers."""
    facts = case.facts
    if facts.table is None:
        return no_table()
    note = facts.audit
    if note is None or note.source_events is None:
        return Verdict(passed=True, fact="no audit has looked at the events yet")
    found = note.source_events
    age = spoken_duration((facts.now_ms - note.audited_at_ms) / 1000)
    counts = f"{found.gaps:,} missing, {found.doubles:,} duplicated"
    fact = "; ".join((f"audit of {count(found.events, 'event')} {age} ago: {counts}", *found.examples))
    numbers = {"events": float(found.events), "missing": float(found.gaps), "doubled": float(found.doubles)}
    passed = not (found.gaps or found.doubles)
    return Verdict(passed, fact, numbers, mends.command("audit", case.pipeline))


CHECK = Check(
    "source_events",
    place=11,
    meaning="Each event of the gateway's sources is in the table once, by the sources' own event numbers.",
    severity=Severity.ERROR,
    judge=judge,
    only_with="has_source_events",
)

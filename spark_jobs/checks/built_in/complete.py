"""``complete``: every drained offset is accounted for, by the batches' counts and by the audit. Pure."""

from __future__ import annotations

from dataclasses import replace

from spark_jobs.checks.check import Case, Check, Severity, Verdict, no_table, spoken_duration
from spark_jobs.checks.facts import AuditNote, TableFacts
from spark_jobs.protocol import mends
from spark_jobs.protocol.batch import total
from spark_jobs.protocol.texts import count


def judge(case: Case) -> Verdict:
    """Judge the counts of the kept batches, and the last audit if there was one."""
    facts = case.facts
    if facts.table is None:
        return no_table()
    verdicts = [_balanced(facts.table)]
    if facts.audit is not None:
        verdicts.append(_audited(facts.audit, facts.now_ms))
    return Verdict(
        all(verdict.passed for verdict in verdicts),
        "; ".join(verdict.fact for verdict in verdicts),
        {name: number for verdict in verdicts for name, number in verdict.numbers.items()},
        _mend(case.pipeline, facts.audit),
    )


CHECK = Check(
    "complete",
    place=1,
    meaning="Every drained offset is accounted for, and the last audit found no missing record.",
    severity=Severity.ERROR,
    judge=judge,
)


def _mend(pipeline: str, note: AuditNote | None) -> str:
    """Return the audit's own command if only damaged files or rounded integers are wrong, else ``audit``."""
    if note is not None and note.mends and replace(note, rounded=0, damaged=()).is_clean:
        return note.mends[0]
    return mends.command("audit", pipeline)


def _balanced(table: TableFacts) -> Verdict:
    sums = total(batch.balance for batch in table.batches)
    unaccounted = sum(batch.unaccounted for batch in table.batches)
    removed = sum(removal.rows or 0 for removal in table.removals)
    numbers: dict[str, float] = {
        "batches": len(table.batches),
        "offsets": sums.offsets,
        "unaccounted": unaccounted,
        "holes": len(table.holes),
        "removed": removed,
    }
    offsets = count(sums.offsets, "offset")
    parts = [f"every offset is accounted for: {offsets} in {count(len(table.batches), 'batch', 'batches')}"]
    passed = not unaccounted and not table.holes
    if not passed:
        parts = [f"{unaccounted:,} offsets or rows are unaccounted for", *table.holes[:3]]
    if table.removals:
        newest = table.removals[-1]
        parts.append(
            f"another writer removed {count(removed, 'row')}"
            f" ({newest.operation}, snapshot {newest.snapshot_id})"
        )
    return Verdict(passed, "; ".join(parts), numbers)


def _audited(note: AuditNote, now_ms: int) -> Verdict:
    age = (now_ms - note.audited_at_ms) / 1000
    if note.damaged:
        files = count(len(note.damaged), "file")
        fact = f"{files} damaged, as found {spoken_duration(age)} ago: {'; '.join(note.damaged[:3])}"
        return Verdict(False, fact, {"damaged_files": float(len(note.damaged)), "audit_age_seconds": age})
    fact = (
        f"the audit {spoken_duration(age)} ago found no drained record yet"
        if not note.offsets
        else f"audit of the newest {note.offsets:,} offsets {spoken_duration(age)} ago: "
        f"{note.missing:,} missing, {note.duplicates:,} duplicated, {note.differing:,} different, "
        f"{note.rounded:,} rounded, "
        f"{note.removed:,} removed" + (f", {note.foreign:,} of another source" if note.foreign else "")
    )
    if note.outdated:
        fact += f", {note.outdated:,} written with an earlier configuration: {note.mends[-1]} applies today's"
    numbers = {
        "audited_offsets": float(note.offsets),
        "missing": float(note.missing),
        "doubled": float(note.duplicates),
        "differing": float(note.differing),
        "rounded": float(note.rounded),
        "outdated": float(note.outdated),
        "audit_age_seconds": age,
    }
    return Verdict(note.is_clean, fact, numbers)

"""``routes``: every value of a day's rows has a table listed under ``route.tables``. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter

from spark_jobs.checks.check import LATELY_SECONDS, Case, Check, Severity, Verdict, no_table
from spark_jobs.protocol.texts import count

MOST_SHOWN = 10
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_NOT_TEXT = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def judge(case: Case) -> Verdict:
    """Judge the values of the last day's batches; unlisted ones stay in the pipeline's own table."""
    facts = case.facts
    if facts.table is None:
        return no_table()
    since_ms = facts.now_ms - LATELY_SECONDS * 1000
    counted: Counter[str] = Counter()
    for batch in facts.table.batches:
        if batch.committed_at_ms >= since_ms:
            counted.update(batch.unlisted_values)
    rows = counted.total()
    if not rows:
        fact = "every value has a table under route.tables"
        return Verdict(passed=True, fact=fact, numbers={"unlisted_rows": 0.0})
    commonest = counted.most_common(MOST_SHOWN)
    values = ", ".join(f"{value!r} {number:,}" for value, number in commonest)
    more = f" and {len(counted) - len(commonest):,} others" if len(counted) > len(commonest) else ""
    lines = ", ".join(f"{_yaml_key(value)}: {case.table}" for value, _ in commonest)
    return Verdict(
        passed=False,
        fact=f"at least {count(rows, 'row')} with values that route.tables does not list stayed in"
        f" {case.table}: {values}{more}",
        numbers={"unlisted_rows": float(rows)},
        mend=f"add the values to route.tables, with this table or another: {lines}",
    )


def _yaml_key(value: str) -> str:
    """Return the value as a key of YAML."""
    is_plain = _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT
    return value if is_plain else json.dumps(value, ensure_ascii=False)


CHECK = Check(
    "routes",
    place=8,
    meaning="Every value of the rows drained in the last 24 hours has a table under `route.tables`.",
    severity=Severity.WARN,
    judge=judge,
    only_with="route",
)

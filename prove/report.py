"""What was found, for people on the terminal, for machines, and for docs/explanation/reliability.md."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from prove.scenario import LEFT, Outcome

INTRODUCTION = """\
# Reliability

What happens to a table when Sluice is killed at each point, and under each outcome of a commit. \
`./sluice prove` wrote this page: every row is a real pipeline over a real Kafka, with a table of its own, \
that was struck, started again in a new process, given more records and then audited against the topic, its \
metadata and its storage.

- **lost**, **doubled**: records that are not in the table exactly once and unchanged (dead letters included).
- **unreadable**: what the metadata names and cannot be read, or the log and the history do not agree on.
- **stray**: data files that nothing names and nobody promised.
- **left**: files whose promise is that orphan removal takes them days later, the row's verdict then. A \
compaction whose commit never landed leaves its own, which the row names: all dates are set back (in the \
object store, too), and orphan removal then takes these files and no other. A fold that died leaves one \
in the books, whose removal is a section of its own.
- **read again**: records that tasks of the runs that put things right took from Kafka a second time.
- **recovery**: seconds that run took, the start of its Python and Spark left out.

`./sluice prove --only NAME` runs one row (`*` matches anything), `./sluice prove --quick` a selection in a \
few minutes. Most run the job's code without a Spark server. The waits of the process that is struck are \
shortened, since the next run is what is looked at.
"""
COLUMNS = (
    "struck by",
    "promised",
    "verdict",
    "happened",
    "lost",
    "doubled",
    "unreadable",
    "stray",
    "left",
    "read again",
    "recovery",
)


def line(outcome: Outcome, number: int, of: int) -> str:
    """One line of progress."""
    return f"{number:>4}/{of}  {outcome.verdict:<8}  {outcome.seconds:5.1f} s  {outcome.name}"


def complaint(outcome: Outcome) -> str:
    """Why a promise was not kept, and the command that shows it again."""
    counts = outcome.findings
    if counts is None:
        what = outcome.failure.rstrip()
    else:
        what = (
            f"lost {counts.lost}, doubled {counts.doubled}, unreadable {counts.unreadable},"
            f" stray {counts.stray}, {LEFT} {counts.left}, read again {counts.read_again}: {counts.happened}"
            f"{counts.unkept and f'; {counts.unkept}'}"
        )
    return f"{outcome.name}: promised was: {outcome.promise}\n{what}\n{command_of(outcome)}"


def command_of(outcome: Outcome) -> str:
    """Return what runs the scenario once more, alone."""
    again = outcome.again or f"--only '{outcome.name}'"
    return f"  ./sluice prove {again}"


def totals(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the table's last line."""
    found = [outcome.findings for outcome in outcomes if outcome.findings]
    seconds = sorted(each.recovery_seconds for each in found)
    return {
        "scenarios": len(outcomes),
        "kept": sum(outcome.is_kept and not outcome.left_out for outcome in outcomes),
        "broken": sum(not outcome.is_kept for outcome in outcomes),
        "left_out": sum(bool(outcome.left_out) for outcome in outcomes),
        "lost": sum(each.lost for each in found),
        "doubled": sum(each.doubled for each in found),
        "unreadable": sum(each.unreadable for each in found),
        "stray": sum(each.stray for each in found),
        "left": sum(each.left for each in found),
        "recovery_p50_seconds": round(seconds[len(seconds) // 2], 2) if seconds else None,
        "recovery_worst_seconds": round(seconds[-1], 2) if seconds else None,
    }


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return all of it in two lines."""
    sums = totals(outcomes)
    history = f"{sums['kept']} kept, {sums['broken']} broken, {sums['left_out']} left out"
    counts = ", ".join(f"{name} {sums[name]}" for name in ("lost", "doubled", "unreadable", "stray"))
    times = f"recovery p50 {sums['recovery_p50_seconds']} s, slowest {sums['recovery_worst_seconds']} s"
    return f"{sums['scenarios']} scenarios: {history}\n{counts}; {LEFT} {sums['left']}; {times}"


def as_json(outcomes: Sequence[Outcome], machine: Mapping[str, Any]) -> str:
    """Return everything as one line."""
    return json.dumps(
        {
            "machine": machine,
            "totals": totals(outcomes),
            "scenarios": [{**asdict(each), "verdict": each.verdict} for each in outcomes],
        },
        separators=(",", ":"),
    )


def as_page(outcomes: Sequence[Outcome], made: str) -> str:
    """Return the page of reliability; ``made`` says how long it took, where, when and of what code."""
    head = f"{INTRODUCTION}\n{summary(outcomes)}; {made}.\n"
    return "\n".join((head, *_overview(outcomes), *_sections(outcomes)))


def _overview(outcomes: Sequence[Outcome]) -> Iterator[str]:
    names = ("scenarios", "kept", "broken", "left_out", "lost", "doubled", "unreadable", "stray", "left")
    yield _row(("what is struck", *(name.replace("_", " ") for name in names), "slowest recovery"))
    yield _row(["---"] * (len(names) + 2))
    for group, members in _by_group(outcomes).items():
        sums = totals(members)
        title = _title(group)
        link = "".join(c for c in title.lower() if c.isalnum() or c in " -").replace(" ", "-")
        slowest = sums["recovery_worst_seconds"]
        seconds = "" if slowest is None else f"{slowest:.1f} s"
        yield _row([f"[{title}](#{link})", *(str(sums[name]) for name in names), seconds])
    yield ""


def _sections(outcomes: Sequence[Outcome]) -> Iterator[str]:
    for group, members in _by_group(outcomes).items():
        yield f"## {_title(group)}\n"
        yield _row(COLUMNS)
        yield _row(["---"] * len(COLUMNS))
        yield from (_row(_cells(outcome)) for outcome in members)
        yield ""


def _by_group(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.group, []).append(outcome)
    return groups


def _title(group: str) -> str:
    return f"{group[0].upper()}{group[1:]}"


def _cells(outcome: Outcome) -> list[str]:
    found = outcome.findings
    if found is None:
        reason = outcome.left_out or "the case could not be made"
        return [outcome.title, outcome.promise, outcome.verdict, reason, *[""] * 7]
    counts = (found.lost, found.doubled, found.unreadable, found.stray, found.left, found.read_again)
    return [
        outcome.title,
        outcome.promise,
        outcome.verdict,
        found.happened,
        *map(str, counts),
        f"{found.recovery_seconds:.1f} s",
    ]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"

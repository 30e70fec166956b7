"""Results of scenarios: terminal lines, JSON, an HTML report, and counts for a page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from html import escape
from typing import Any

from prove.scenario import LEFT, Outcome

COLUMNS = (
    "name",
    "fault",
    "promise",
    "verdict",
    "what happened",
    "lost",
    "doubled",
    "unreadable",
    "stray",
    "left",
    "read again",
    "recovery",
)
MEANINGS = {
    "lost, doubled": "records that are not in the table exactly once and unchanged, dead letters included",
    "unreadable": "files that metadata names and that cannot be read, and contradictions of log and history",
    "stray": "data files that nothing names",
    "left": "files that orphan removal may take days later, as the row's promise allows",
    "read again": "records that the repairing runs read from Kafka a second time",
    "recovery": "seconds of the repairing runs, without the start of Python and Spark",
}
# By what a scenario's name holds, first match first.
KINDS = (
    ("random events against a live producer", r"/soak\b"),
    ("a run that sleeps while others act, and continues", r"^\w+/(zombie|beside|beside-redrive)/"),
    ("kill -9 of a process at a named point", r"/(\w+-)*kill-"),
    (
        "a commit that is cut off, refused, or answered late or wrongly",
        r"/(cut|disk|ended|failed|half|killed-after|landed|late|locked|refused)-",
    ),
    ("queries that include Kafka, during faults", r"^\w+/(fresh|followed|served)/"),
    ("hostile topics, records, tables, logs, stores, catalogs, clocks and machines", r""),
)
CATALOGS = {
    "sqlite": "SQLite, local folder",
    "postgres": "Postgres, local folder",
    "rest": "Iceberg's REST server, S3",
    "nessie": "Nessie, S3",
    "glue": "AWS Glue by moto, S3",
    "azure": "SQLite, Azure by Azurite",
    "gcs": "SQLite, Google by fake-gcs-server",
    "vended": "Iceberg's REST server by OAuth, vended S3 credentials",
    "secured": "SQLite; Kafka over TLS with rights on the topic alone",
}
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em;color-scheme:light dark}"
    "table{border-collapse:collapse;font-size:13px}td,th{border:1px solid #8884;padding:.3em .6em;"
    "text-align:left;vertical-align:top}.broken{background:#f004}"
)


def line(outcome: Outcome, number: int, of: int) -> str:
    """Return one line of progress."""
    return f"{number:>4}/{of}  {outcome.verdict:<8}  {outcome.seconds:5.1f} s  {outcome.name}"


def complaint(outcome: Outcome) -> str:
    """Return why a promise was broken, and the command that reproduces it."""
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
    """Return the command that repeats only this scenario."""
    again = outcome.again or f"--only '{outcome.name}'"
    return f"  ./sluice prove {again}"


def totals(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the sums of all counts."""
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
    """Return the totals in two lines."""
    sums = totals(outcomes)
    history = f"{sums['kept']} kept, {sums['broken']} broken, {sums['left_out']} left out"
    counts = ", ".join(f"{name} {sums[name]}" for name in ("lost", "doubled", "unreadable", "stray"))
    times = f"recovery p50 {sums['recovery_p50_seconds']} s, slowest {sums['recovery_worst_seconds']} s"
    return f"{sums['scenarios']} scenarios: {history}\n{counts}; {LEFT} {sums['left']}; {times}"


def as_json(outcomes: Sequence[Outcome], about: Mapping[str, Any]) -> str:
    """Return everything as one line; ``about`` describes the machine, or the run."""
    return json.dumps(
        {
            **about,
            "totals": totals(outcomes),
            "scenarios": [{**asdict(each), "verdict": each.verdict} for each in outcomes],
        },
        separators=(",", ":"),
    )


def kind_of(name: str) -> str:
    """Return the kind of fault in a scenario of this name."""
    return next(kind for kind, pattern in KINDS if re.search(pattern, name))


def _catalog_of(name: str) -> str:
    first = name.partition("/")[0]
    return CATALOGS.get(first, first)


def as_counts(outcomes: Sequence[Outcome], origin: str) -> str:
    """Return the counts for the docs page, in Markdown; ``origin`` describes the run."""
    kinds = _grouped(outcomes, lambda each: kind_of(each.name))
    catalogs = _grouped(outcomes, lambda each: _catalog_of(each.name))
    tables = (
        "\n".join(_count_table(title, groups)) for title, groups in (("fault", kinds), ("catalog", catalogs))
    )
    return "\n\n".join((summary(outcomes).replace("\n", "; ") + f". The run: {origin}.", *tables)) + "\n"


def as_html(outcomes: Sequence[Outcome], origin: str) -> str:
    """Return a self-contained page of all rows by group; ``origin`` describes the run."""
    groups = _grouped(outcomes, lambda each: each.group)
    return "".join(
        (
            "<!doctype html><html lang=en><meta charset=utf-8><title>Sluice: crash matrix</title>",
            f"<style>{_STYLE}</style><h1>Crash matrix</h1>",
            f"<p>{escape(summary(outcomes)).replace(chr(10), '<br>')}</p><p>{escape(origin)}</p><dl>",
            *(f"<dt>{escape(term)}<dd>{escape(meaning)}" for term, meaning in MEANINGS.items()),
            "</dl><ul>",
            *(
                f"<li><a href='#g{number}'>{escape(group)}</a>: {len(members)}"
                for number, (group, members) in enumerate(groups.items())
            ),
            "</ul>",
            *(_section(number, group, members) for number, (group, members) in enumerate(groups.items())),
            "</html>\n",
        )
    )


def _count_table(title: str, groups: Mapping[str, Sequence[Outcome]]) -> Iterator[str]:
    names = ("scenarios", "kept", "lost", "doubled", "unreadable", "stray", "left")
    yield f"| {title} | {' | '.join(names)} | slowest recovery |"
    yield f"|{'---|' * (len(names) + 2)}"
    for group, members in groups.items():
        sums = totals(members)
        slowest = sums["recovery_worst_seconds"]
        cells = (group, *(f"{sums[name]:,}" for name in names), "" if slowest is None else f"{slowest:.1f} s")
        yield f"| {' | '.join(cells)} |"


def _section(number: int, group: str, members: Iterable[Outcome]) -> str:
    heads = "".join(f"<th>{column}" for column in COLUMNS)
    rows = "".join(_html_row(each) for each in members)
    return f"<h2 id=g{number}>{escape(group)}</h2><table><tr>{heads}{rows}</table>"


def _html_row(outcome: Outcome) -> str:
    cells = "".join(f"<td>{escape(cell)}" for cell in _cells(outcome))
    return f"<tr>{cells}" if outcome.is_kept else f"<tr class=broken>{cells}"


def _grouped(outcomes: Sequence[Outcome], group_of: Callable[[Outcome], str]) -> dict[str, list[Outcome]]:
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(group_of(outcome), []).append(outcome)
    return groups


def _cells(outcome: Outcome) -> list[str]:
    found = outcome.findings
    about = [outcome.name, outcome.title, outcome.promise, outcome.verdict]
    if found is None:
        return [*about, outcome.left_out or "the case could not be made", *[""] * 7]
    counts = (found.lost, found.doubled, found.unreadable, found.stray, found.left, found.read_again)
    return [*about, found.happened, *map(str, counts), f"{found.recovery_seconds:.1f} s"]

"""``audit PIPELINE``: whether every drained record is in the table once, as it is in Kafka."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from cli import output
from cli.work import connections_for, load_pipeline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_jobs.audit import AuditResult

NUMBERS = (
    "records",
    "rows",
    "dead_letters",
    "tombstones",
    "missing",
    "duplicates",
    "differing",
    "snapshots",
    "lag",
)


@click.command("audit")
@click.argument("pipeline")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object as the last line.")
def command(pipeline: str, as_json: bool) -> int:
    """Compare PIPELINE's table with Kafka: missing, duplicated and differing records.

    Where Kafka no longer holds a range it is judged by offsets and counts. Exit code 1 when anything is off.
    """
    config, chosen = load_pipeline(pipeline)
    with connections_for(config, chosen, "audit") as connections:
        from spark_jobs.audit import audit  # noqa: PLC0415  (pyiceberg: not for `--help`)

        result = audit(chosen, connections)
    if as_json:
        output.json_line({**dataclasses.asdict(result), "records": result.records})
    else:
        print_audits([result])
    return 0 if result.is_clean else 1


def print_audits(results: Iterable[AuditResult]) -> None:
    """A table of audits, then one line of judgement each."""
    results = list(results)
    columns = ("pipeline", *NUMBERS)
    rows = [[getattr(result, column) for column in columns] for result in results]
    output.table(
        [column.replace("_", " ") for column in columns], rows, numbers=[n.replace("_", " ") for n in NUMBERS]
    )
    for result in results:
        output.say(f"{result.pipeline}: {verdict(result)}")


def verdict(result: AuditResult) -> str:
    """One line of judgement."""
    if not result.is_clean:
        return f"NOT exact: {', '.join(result.examples)} (partition:offset)"
    gone = (
        f"; {output.count(result.gone, 'offset')} that Kafka no longer holds were judged by counts"
        if result.gone
        else ""
    )
    return f"every record is in the table once, unchanged{gone}"

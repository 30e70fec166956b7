"""What is in the lake in the end, held against what was produced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.audit_metadata import audit_metadata
from spark_jobs.core.books import books_of
from spark_jobs.io.catalog import close_catalog

if TYPE_CHECKING:
    from prove.stage import Play


@dataclass(frozen=True, slots=True)
class Counts:
    """See ``Findings``; ``examples`` are the first findings in words."""

    lost: int
    doubled: int
    unreadable: int
    stray: int
    examples: tuple[str, ...]


def look(play: Play, *, of_earlier: int = 0) -> Counts:
    """Audit table, dead letters, metadata, books and storage.

    ``of_earlier`` are records of generations before the table's current one, which an audit does not judge.
    """
    lab, produced = play.lab, play.produced
    found = lab.audit()
    with lab.connections() as connections:
        metadata = audit_metadata(lab.pipeline, connections)
    rows = lab.rows().num_rows
    dead_letters = lab.rows(lab.tables[1]).num_rows
    excess = max(0, rows - produced.rows) + max(0, dead_letters - produced.dead_letters)
    lacking = max(0, produced.rows - rows) + max(0, produced.dead_letters - dead_letters)
    not_judged = produced.records - of_earlier - found.records
    lacking = max(lacking, found.missing + found.differing + found.lag, not_judged)
    stray = lab.stray_files()
    said = (*found.examples, *(f"{each.what} ({each.where})" for each in metadata.findings), *sorted(stray))
    return Counts(
        lost=lacking,
        doubled=max(excess, found.duplicates) + _entered_twice(play),
        unreadable=len(metadata.findings),
        stray=len(stray),
        examples=said[:3],
    )


def _entered_twice(play: Play) -> int:
    """Attempts that are in the books more than once."""
    books = books_of(play.lab.pipeline.table)
    with play.lab.connections() as connections:
        catalog = connections.open_catalog()
        is_there = catalog.table_exists(books)
        close_catalog(catalog)
    if not is_there:
        return 0
    attempts = play.lab.rows(books).column("attempt").to_pylist()
    return len(attempts) - len(set(attempts))

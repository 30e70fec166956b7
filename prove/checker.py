"""Compares the final contents of the lake with the produced records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prove.lab.pipeline_lab import named_files
from prove.scenario import Findings
from prove.workload import Workload
from spark_jobs.audit.metadata import audit_metadata
from spark_jobs.health.table_facts import main_history
from spark_jobs.lake.tables import summary_of
from spark_jobs.protocol.works.changes import REANCHOR

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of errors, see ``Findings``; ``examples`` describe the first of them.

    ``unreadable`` counts commits of main that neither log nor books know, too. ``orphans`` are files of the
    books that nothing names: a fold that died leaves them to orphan removal, nobody sweeps there.
    """

    lost: int
    doubled: int
    unreadable: int
    stray: int
    orphans: int
    examples: tuple[str, ...]

    def findings(self, *happened: str, **more: Any) -> Findings:
        """Return the counts with the events in ``happened``; ``more`` overrides fields."""
        counts = {name: getattr(self, name) for name in ("lost", "doubled", "unreadable", "stray")}
        return Findings("; ".join((*happened, *self.examples)), **{**counts, **more})


def check(workload: Workload, *, of_earlier: int = 0, may_be_outdated: bool = False) -> Counts:
    """Audit table, dead letters, metadata, books and storage.

    ``of_earlier`` are records of generations before the table's current one, which an audit does not judge.
    After a change of what is made of records what was there before ``may_be_outdated``.
    """
    lab, produced = workload.lab, workload.contents
    audited = lab.audit()
    with lab.connections() as connections:
        metadata = audit_metadata(lab.pipeline, connections)
    books = lab.books()
    findings = [f"{each.what} ({each.where})" for each in metadata.findings]
    findings += () if books is None else _find_damaged(books)
    booked = [] if books is None else books.scan().to_arrow().column("attempt").to_pylist()
    forgotten = _committed(lab.table()) - _logged(workload) - set(booked)
    findings += (f"neither log nor books know {attempt}" for attempt in sorted(forgotten))
    rows = sum(lab.rows(name).num_rows for name in (lab.pipeline.table, *lab.routed))
    dead_letters = lab.rows(lab.tables[1]).num_rows
    # What is no row by its kind (a JSON null among changes) is passed over, and counted by the audit.
    passed = sum(audited.passed.values())
    excess = max(0, rows - produced.rows) + max(0, dead_letters - produced.dead_letters)
    lacking = max(0, produced.rows - rows) + max(0, produced.dead_letters - dead_letters - passed)
    not_judged = produced.records - of_earlier - audited.records
    wrong = audited.missing + audited.differing + audited.rounded + audited.foreign
    wrong += 0 if may_be_outdated else audited.outdated
    lacking = max(lacking, wrong + audited.lag, not_judged)
    stray = lab.stray_files()
    return Counts(
        lost=lacking,
        doubled=max(excess, audited.duplicates) + len(booked) - len(set(booked)),
        unreadable=len(findings),
        stray=len(stray),
        orphans=len(lab.books_orphans()),
        examples=(*audited.examples, *findings, *sorted(stray))[:3],
    )


def _find_damaged(table: Table) -> Iterator[str]:
    """Return files of any snapshot that are missing or have another size; their lists must be readable."""
    for path, size in named_files(table).items():
        file = table.io.new_input(path)
        if not file.exists() or len(file) != size:
            yield f"not there as the metadata says ({path})"


def _committed(table: Table) -> set[str]:
    """Return the attempts whose commits main shows; an anchor's snapshot has no run and is not logged."""
    commits = map(summary_of, main_history(table))
    return {each.attempt for each in commits if each.attempt and each.kind != REANCHOR.name}


def _logged(workload: Workload) -> set[str]:
    table_uuid = str(workload.lab.table().metadata.table_uuid)
    with workload.lab.connections() as connections:
        return {attempt.uuid for attempt in connections.txlog.attempts(table_uuid)}

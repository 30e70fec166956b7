"""Audit what holds a table together: its files, its log, the offsets from commit to commit. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from spark_jobs.audit.files import audit_files, audit_new_files
from spark_jobs.audit.findings import Finding, MetadataAudit, log_findings
from spark_jobs.books.history import lines_of
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.tables import tables_as_one
from spark_jobs.health.table_facts import main_history, table_facts
from spark_jobs.lake.tables import progress_of, summary_of
from spark_jobs.protocol import mends
from spark_jobs.txlog.entries import Attempt

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections

MAX_FINDINGS = 1_000
# Upkeep may delete, while this reads, what the metadata it began with names.
_TRIES = 3


def audit_metadata(
    pipeline: PipelineConfig,
    connections: Connections,
    *,
    pages: bool = False,
    on_progress: Callable[[MetadataAudit], None] = lambda _counts: None,
) -> MetadataAudit:
    """Look at every file the metadata names, and hold the log and the kept snapshots against each other.

    Of data files the footers are read; with ``pages`` all of them, page by page against their checksums.
    Beside live drains and upkeep it begins anew when the table changed while something was found. Raises
    ``RetryableError`` when catalog or log cannot be read.
    """
    for tries_left in reversed(range(_TRIES)):
        tables = _load(pipeline, connections)
        attempts = connections.txlog.attempts(str(tables[0].metadata.table_uuid)) if tables else ()
        tables = _load(pipeline, connections)  # after the log: what landed in between is no contradiction
        found = MetadataAudit(pipeline.name, pipeline.table, attempts=len(attempts))
        found.snapshots = sum(len(table.metadata.snapshots) for table in tables)
        found.findings += _lost_log(pipeline, connections, tables[0]) if tables else ()
        found.findings += islice(
            _findings(pipeline, tables, attempts, found, on_progress, pages=pages), MAX_FINDINGS
        )
        if not found.findings or not tries_left or _places(_load(pipeline, connections)) == _places(tables):
            break
    return found


def _findings(
    pipeline: PipelineConfig,
    tables: list[Table],
    attempts: tuple[Attempt, ...],
    counts: MetadataAudit,
    on_progress: Callable[[MetadataAudit], None],
    *,
    pages: bool,
) -> Iterator[Finding]:
    for table in tables:
        yield from audit_files(table, counts, on_progress, pages=pages)
    if tables:
        yield from _commit_findings(pipeline, tables[0])
        attempts_of_main = (summary_of(snapshot).attempt for snapshot in main_history(tables[0]))
        in_history = {attempt for attempt in attempts_of_main if attempt}
        yield from log_findings(pipeline.name, attempts, progress_of(tables[0]), in_history)


def _lost_log(pipeline: PipelineConfig, connections: Connections, table: Table) -> Iterator[Finding]:
    """Name the last drain where neither log nor books know it: what lay under ``state:`` is gone."""
    last = progress_of(table).last_drain
    if last is not None and all(line.entry.attempt != last.attempt for line in lines_of(table, connections)):
        what = "the table's last drain is in neither the log nor the books"
        yield Finding(what, f"attempt {last.attempt}", mends.command("check", pipeline.name))


def damage_since(pipeline: PipelineConfig, connections: Connections, since_ms: int) -> list[Finding]:
    """Return what is wrong with the files that commits since then added to the table or its dead letters."""
    tables = _load(pipeline, connections)
    found = (each for table in tables for each in audit_new_files(table, pipeline.name, since_ms))
    return list(islice(found, MAX_FINDINGS))


def _commit_findings(pipeline: PipelineConfig, table: Table) -> Iterator[Finding]:
    """Batches that do not balance, and commits that do not begin where the one before ended."""
    facts = table_facts(table, schema_since_ms=0)
    progress = progress_of(table)
    for batch in facts.batches:
        if batch.unaccounted:
            # Of the last commits: older ones are not told any more.
            ranges = str(progress.ranges_of(batch.attempt))
            yield Finding(
                f"{batch.unaccounted:,} of its {batch.offsets:,} offsets or rows are unaccounted for",
                f"attempt {batch.attempt}",
                mends.read_again(pipeline.name, ranges, is_mirror=progress.is_mirror)
                if ranges
                else mends.command("audit", pipeline.name),
            )
    for hole in facts.holes:
        brings = "rebuild" if progress.is_mirror else "replay"
        mend = f"{mends.command('audit', pipeline.name)} names the records, ./sluice {brings} brings them"
        yield Finding("the offsets are not contiguous", hole, mend)


def _load(pipeline: PipelineConfig, connections: Connections) -> list[Table]:
    """Return the table and all beside it; empty before the first drain."""
    tables = tables_as_one(connections, pipeline.table)
    return [] if tables is None else list(tables.every)


def _places(tables: list[Table]) -> list[str]:
    return [table.metadata_location for table in tables]

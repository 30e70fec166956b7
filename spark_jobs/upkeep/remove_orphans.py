"""Orphan removal: Iceberg lists files, Sluice excludes protected ones and deletes the rest.

The order is what makes it safe: first the listing, then the log, then the metadata. An attempt that lands in
between is unfinished in the log or named by the metadata, never neither.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from spark_jobs.connections.connect import load_fresh
from spark_jobs.lake.catalog import released
from spark_jobs.lake.named_files import named_of
from spark_jobs.lake.tables import delete_file, locations_of, locations_of_others
from spark_jobs.protocol.errors import fault
from spark_jobs.storage.azure import AZURE_SCHEMES
from spark_jobs.storage.create_only import list_files, modified_us
from spark_jobs.storage.paths import is_local, normalise_path
from spark_jobs.upkeep.kind import UpkeepOutcome
from spark_jobs.upkeep.orphans import OrphanFacts, Verdicts, judge_orphans, overlaps

if TYPE_CHECKING:
    from spark_jobs.upkeep.table_work import TableWork


def remove_orphans(work: TableWork) -> UpkeepOutcome:
    """Delete old files below the table's location that nothing refers to.

    A rehearsal does everything but the deleting. Safe to repeat and beside drains. Raises ``ConfigError``
    (``shared-location``) when another table of the catalog lies in, at or around the location, and every
    other kind of ``SluiceError``.
    """
    if work.figures.keeps_garbage:
        return UpkeepOutcome(note="gc.enabled is false: files stay, unless the catalog collects them itself")
    _refuse_shared(work)
    work.say(f"{work.identifier}: listing files that no snapshot names")
    listed = _list_files(work)
    work.connections.fail_points.reach("orphans.after-listing")
    verdicts = _judge(work, listed)
    if not work.is_rehearsal:
        for path in verdicts.deletable:
            work.connections.fail_points.reach("orphans.before-delete")
            delete_file(work.table, path)
    name, verb = ("deletable", "to delete") if work.is_rehearsal else ("deleted", "deleted")
    work.say(f"{work.identifier}: {len(listed):,} found, {len(verdicts.deletable):,} {verb}")
    counts = {name: len(verdicts.deletable)}
    return UpkeepOutcome(counts | {f"kept_{reason}": number for reason, number in verdicts.kept.items()})


def _refuse_shared(work: TableWork) -> None:
    with released(work.connections.open_catalog()) as catalog:
        others = locations_of_others(catalog, work.identifier)
    if shared := overlaps(locations_of(work.table), others):
        raise fault(
            "shared-location",
            others=", ".join(shared),
            table=".".join(work.table.name()),
            location=work.table.location(),
        )


def _list_files(work: TableWork) -> dict[str, int | None]:
    """Return the files that Iceberg's procedure lists, with their modification times.

    On Azure all old files: Iceberg 1.12 lists them without their container (apache/iceberg#17247).
    """
    if work.table.location().startswith(AZURE_SCHEMES):
        files = list_files(work.table.location(), work.table.io.properties)
        return {file.location: file.modified_us for file in files if file.modified_us < _before_us(work)}
    older_than = dt.datetime.fromtimestamp(_before_us(work) / 1e6, dt.UTC)
    rows = work.rows(
        "remove_orphan_files",
        older_than=older_than,
        dry_run=True,
        # On a local disk this forks an `ls` per file, and fails when a drain deletes one in between.
        prefix_listing=not is_local(work.table.location()),
        equal_schemes={"s3a": "s3", "s3n": "s3"},
    )
    paths = [row["orphan_file_location"] for row in rows]
    return modified_us(paths, work.table.io.properties)


def _judge(work: TableWork, listed: dict[str, int | None]) -> Verdicts:
    paths = frozenset(map(normalise_path, listed))
    # The log of all tables is the data table's.
    data = load_fresh(work.connections, work.pipeline_tables[0])
    unfinished = work.connections.txlog.begun(str(data.metadata.table_uuid)) if data else {}
    tables = [table for name in work.pipeline_tables if (table := load_fresh(work.connections, name))]
    named = frozenset[str]().union(*(named_of(table, paths) for table in tables))
    return judge_orphans(listed, OrphanFacts(named, unfinished, _before_us(work)))


def _before_us(work: TableWork) -> int:
    return work.connections.now_us() - work.settings.orphans_older_than_seconds * 1_000_000

"""Loading tables, and what their properties and snapshots say of Sluice's commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

from spark_jobs.config.settings import DEAD_LETTERS_SUFFIX
from spark_jobs.lake.catalog_errors import catalog_error, refuse_remote_signing
from spark_jobs.protocol.commit_summary import CommitSummary
from spark_jobs.protocol.errors import ConfigError, SluiceError, SourceChanged
from spark_jobs.protocol.progress import Progress, has_progress, progress_from_properties

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


def load_table(catalog: Catalog, identifier: str) -> Table | None:
    """Return the table as it is now, or None when there is none.

    Raises ``ConfigError`` for a table that Sluice did not make or that its catalog signs for,
    ``SourceChanged`` for one without a snapshot, ``RetryableError`` when the catalog does not answer.
    """
    try:
        table = catalog.load_table(identifier)
    except (NoSuchTableError, NoSuchNamespaceError):
        return None
    except Exception as error:
        raise catalog_error(error, "could not load the table", table=identifier) from error
    if not has_progress(table.metadata.properties):
        raise ConfigError(
            "a table of this name exists and was not made by Sluice",
            code="foreign-table",
            hint="Give the pipeline another `table`, or rename the one that is there.",
            table=identifier,
        )
    if table.metadata.current_snapshot_id is None:
        raise no_snapshot(table)
    refuse_remote_signing(table.io.properties, table=identifier)  # a REST server says it with each table
    return table


def is_no_table_of_ours(error: SluiceError) -> bool:
    """True if the name is another's, or of a table without a row: not if it could not be looked at."""
    return error.code in {"foreign-table", "no-snapshot"}


def dead_letters_of(identifier: str) -> str:
    """Return the name of a table's dead-letter table."""
    return identifier + DEAD_LETTERS_SUFFIX


def progress_of(table: Table) -> Progress:
    """Return the table's progress; raises ``CorruptLog``."""
    return progress_from_properties(table.metadata.properties, table=".".join(table.name()))


def summary_of(snapshot: Snapshot | None) -> CommitSummary:
    """Return what a snapshot's summary says beside its operation."""
    return CommitSummary(snapshot.summary.additional_properties if snapshot and snapshot.summary else {})


def snapshot_of(table: Table, attempt: str) -> int | None:
    """Return the id of the snapshot that the attempt's commit made.

    None when it has expired, or the catalog shows no history.
    """
    snapshots = reversed(table.metadata.snapshots)
    return next((s.snapshot_id for s in snapshots if summary_of(s).attempt == attempt), None)


def no_snapshot(table: Table) -> SourceChanged:
    """Return the error for a table whose first snapshot is missing."""
    return SourceChanged(
        "the table has no snapshot: it was not made by Sluice, or its snapshots were removed",
        code="no-snapshot",
        hint="Roll it back to a snapshot if there is one, or drop it and let the next run make it again.",
        table=".".join(table.name()),
    )

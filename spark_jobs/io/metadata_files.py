"""Every file that a table's metadata names, of those asked about: metadata, manifests, statistics, data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.core.errors import RetryableError
from spark_jobs.core.progress import has_progress
from spark_jobs.core.storage_paths import comparable
from spark_jobs.io.tables import progress_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table


def named_of(table: Table, asked: frozenset[str]) -> frozenset[str]:
    """Those of ``asked`` (spelled by ``comparable``) that the loaded metadata names in any way.

    Raises ``RetryableError`` when a manifest cannot be read: then nothing is known.
    """
    if not asked:
        return frozenset()
    try:
        return frozenset(name for path in _named(table) if (name := comparable(path)) in asked)
    except OSError as error:
        raise RetryableError(
            f"a manifest of the table could not be read: {error}",
            code="manifest-unreadable",
            hint="It may have been expired just now; the next run tries again. Nothing was deleted.",
            table=".".join(table.name()),
        ) from error


def _named(table: Table) -> Iterator[str]:
    metadata = table.metadata
    yield table.metadata_location
    yield from (entry.metadata_file for entry in metadata.metadata_log)
    yield from (file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics))
    if has_progress(metadata.properties) and (owed := progress_of(table).pending_dead_letters) is not None:
        yield from (file["path"] for file in owed.files)
    seen: set[str] = set()
    for snapshot in metadata.snapshots:
        yield snapshot.manifest_list
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path in seen:
                continue
            seen.add(manifest.manifest_path)
            yield manifest.manifest_path
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            yield from (entry.data_file.file_path for entry in entries)

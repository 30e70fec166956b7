"""Which files the snapshots of a table name: what must never be deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.core.errors import RetryableError
from spark_jobs.io.data_files import normalise_path

if TYPE_CHECKING:
    from pyiceberg.table import Table


def named_among(table: Table, paths: frozenset[str]) -> frozenset[str]:
    """Those of the normalised ``paths`` that any snapshot of the table's loaded metadata names.

    Reads each manifest once. Raises ``RetryableError`` when one cannot be read: then nothing is known.
    """
    named: set[str] = set()
    seen: set[str] = set()
    if not paths:
        return frozenset()
    try:
        for snapshot in table.metadata.snapshots:
            for manifest in snapshot.manifests(table.io):
                if manifest.manifest_path in seen:
                    continue
                seen.add(manifest.manifest_path)
                for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                    path = normalise_path(entry.data_file.file_path)
                    if path in paths:
                        named.add(path)
    except OSError as error:
        raise RetryableError(
            f"a manifest of the table could not be read: {error}",
            code="manifest-unreadable",
            hint="It may have been expired just now; the next run tries again. Nothing was deleted.",
            table=".".join(table.name()),
        ) from error
    return frozenset(named)

"""Finds files that a table's metadata refers to, which must never be deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.progress import has_progress
from spark_jobs.storage.errors import manifests_readable
from spark_jobs.storage.paths import normalise_path

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table


def named_of(table: Table, paths: frozenset[str]) -> frozenset[str]:
    """Return those of ``paths``, as ``normalise_path`` writes them, that the loaded metadata names.

    As metadata, manifest, statistics or data of any snapshot, or as owed to another table. Raises as
    ``manifests_readable`` when a manifest cannot be read: then nothing is known.
    """
    if not paths:
        return frozenset()
    with manifests_readable(table):
        return frozenset(name for path in _all_paths(table) if (name := normalise_path(path)) in paths)


def _all_paths(table: Table) -> Iterator[str]:
    metadata = table.metadata
    yield table.metadata_location
    yield from (entry.metadata_file for entry in metadata.metadata_log)
    yield from (file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics))
    if has_progress(metadata.properties):
        yield from (file.path for file in progress_of(table).pending_files)
    yield from (snapshot.manifest_list for snapshot in metadata.snapshots)
    for manifest in _manifests(table):
        yield manifest.manifest_path
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            yield entry.data_file.file_path


def _manifests(table: Table) -> Iterator[ManifestFile]:
    """Yield each manifest once: snapshots share most of them."""
    seen: set[str] = set()
    for snapshot in table.metadata.snapshots:
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                yield manifest


def unnamed_files(found: Iterable[str], named: frozenset[str]) -> tuple[str, ...]:
    """Return files that a sweep may delete: named after the attempt, and in or pending for no table.

    ``named`` must come from metadata loaded after the offsets had passed; both in one spelling.
    """
    return tuple(path for path in found if path not in named)

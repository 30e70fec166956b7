"""Which files the metadata of a table names, of those asked about: what must never be deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


from typing import TYPE_CHECKING

from spark_jobs.lake.data_files import normalise_path
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.progress import has_progress
from spark_jobs.storage.errors import manifests_readable
from spark_jobs.storage.paths import comparable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table


def named_among(table: Table, paths: frozenset[str]) -> frozenset[str]:
    """Those of the normalised ``paths`` of data files that any snapshot of the loaded metadata names.

    Raises as ``manifests_readable`` when a manifest cannot be read: then nothing is known.
    """
    if not paths:
        return frozenset()
    with manifests_readable(table):
        named = (normalise_path(path) for each in _manifests(table) for path in _data_paths(table, each))
        return frozenset(path for path in named if path in paths)


def named_of(table: Table, asked: frozenset[str]) -> frozenset[str]:
    """Those of ``asked`` (spelled by ``comparable``) that the loaded metadata names in any way.

    As metadata, manifest, statistics or data, or as owed to the dead-letter table. Raises as ``named_among``.
    """
    if not asked:
        return frozenset()
    with manifests_readable(table):
        return frozenset(name for path in _all_paths(table) if (name := comparable(path)) in asked)


def _all_paths(table: Table) -> Iterator[str]:
    metadata = table.metadata
    yield table.metadata_location
    yield from (entry.metadata_file for entry in metadata.metadata_log)
    yield from (file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics))
    if has_progress(metadata.properties) and (owed := progress_of(table).pending_dead_letters) is not None:
        yield from (file.path for file in owed.files)
    yield from (snapshot.manifest_list for snapshot in metadata.snapshots)
    for manifest in _manifests(table):
        yield manifest.manifest_path
        yield from _data_paths(table, manifest)


def _manifests(table: Table) -> Iterator[ManifestFile]:
    """Each once: snapshots share most of theirs."""
    seen: set[str] = set()
    for snapshot in table.metadata.snapshots:
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                yield manifest


def _data_paths(table: Table, manifest: ManifestFile) -> Iterator[str]:
    for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
        yield entry.data_file.file_path


def unnamed_files(found: Iterable[str], *, named: frozenset[str], owed: frozenset[str]) -> tuple[str, ...]:
    """The files a sweep may delete: found under the attempt's prefix, in no snapshot, owed to no table.

    All are normalised paths; ``named`` must come from metadata loaded after the offsets had passed.
    """
    return tuple(path for path in found if path not in named and path not in owed)

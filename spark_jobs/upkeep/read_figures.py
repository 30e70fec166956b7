"""Reads a table's figures from its metadata, one manifest in memory at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestFile

from spark_jobs.health.table_facts import shows_history
from spark_jobs.storage.errors import manifests_readable
from spark_jobs.upkeep.figures import MEDIUM, MIB, MIN_FILES_TO_MERGE, SMALL, TableFigures

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

# Half of what Iceberg makes a manifest when it rewrites them.
SMALL_MANIFEST_BYTES = 4 * MIB


def table_figures(table: Table) -> TableFigures:
    """Return the figures of the loaded metadata.

    Raises ``RetryableError`` when a manifest cannot be read: upkeep may have replaced it just now.
    """
    return snapshot_figures(table.metadata, file_figures(table))


def snapshot_figures(metadata: TableMetadata, files: TableFigures) -> TableFigures:
    """Return ``files``, of the same main snapshot, with figures that need no manifest."""
    held = {ref.snapshot_id for ref in metadata.refs.values()}
    expirable = [s.timestamp_ms for s in metadata.snapshots if s.snapshot_id not in held]
    return replace(
        files,
        snapshots=len(metadata.snapshots),
        expirable_snapshots=len(expirable),
        oldest_expirable_ms=min(expirable, default=None),
        shows_history=shows_history(metadata),
        keeps_garbage=metadata.properties.get("gc.enabled", "true").lower() == "false",
    )


def file_figures(table: Table) -> TableFigures:
    """Return the counts of main's files and manifests only. Raises as ``table_figures``."""
    count = _Count(table.metadata)
    snapshot = table.metadata.current_snapshot()
    with manifests_readable(table):
        for manifest in snapshot.manifests(table.io) if snapshot else ():
            count.add_manifest(manifest)
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                count.add_file(entry.data_file)
    return count.figures()


@dataclass(slots=True)
class _Count:
    """Sums in progress, by figure; ``small`` and ``medium`` are by partition."""

    metadata: TableMetadata
    small: Counter[Hashable] = field(default_factory=Counter)
    medium: Counter[Hashable] = field(default_factory=Counter)
    sums: Counter[str] = field(default_factory=Counter)

    def add_manifest(self, manifest: ManifestFile) -> None:
        self.sums["manifests"] += 1
        self.sums["manifest_bytes"] += manifest.manifest_length
        is_current = manifest.partition_spec_id == self.metadata.default_spec_id
        is_small = manifest.manifest_length < SMALL_MANIFEST_BYTES
        self.sums["small_manifests"] += is_current and is_small and manifest.content is ManifestContent.DATA

    def add_file(self, file: DataFile) -> None:
        if file.content is not DataFileContent.DATA:
            self.sums["delete_files"] += 1
            is_of_positions = file.content is DataFileContent.POSITION_DELETES
            self.sums["deleted_rows"] += file.record_count if is_of_positions else 0
            return
        self.sums["data_files"] += 1
        self.sums["rows"] += file.record_count
        self.sums["bytes"] += file.file_size_in_bytes
        partition = (file.spec_id, *(file.partition[n] for n in range(len(file.partition))))
        if file.file_size_in_bytes < SMALL.below_bytes:
            self.small[partition] += 1
        elif file.file_size_in_bytes < MEDIUM.below_bytes:
            self.medium[partition] += 1

    def figures(self) -> TableFigures:
        sums: dict[str, Any] = self.sums
        return TableFigures(
            **sums,
            small_files=self.small.total(),
            medium_files=self.medium.total(),
            mergeable_small_files=_mergeable(self.small),
            mergeable_medium_files=_mergeable(self.medium),
        )


def _mergeable(by_partition: Counter[Hashable]) -> int:
    return sum(files for files in by_partition.values() if files >= MIN_FILES_TO_MERGE)

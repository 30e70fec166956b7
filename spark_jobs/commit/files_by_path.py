"""Data files dropped by their paths, and others added, in one snapshot.

PyIceberg finds the manifests of dropped files by their partitions' values, and so never finds some: there is
no comparison with NaN, and none with a value of a column that is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pyiceberg.manifest import ManifestContent
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _OverwriteFiles

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.table.update.snapshot import UpdateSnapshot


class FilesByPath(_OverwriteFiles):
    """An overwrite that looks into each manifest of data files of a spec that a dropped file has."""

    def __init__(self, update: UpdateSnapshot) -> None:
        super().__init__(
            operation=Operation.OVERWRITE,
            transaction=update._transaction,  # noqa: SLF001  (no public way to a producer)
            io=update._io,  # noqa: SLF001
            snapshot_properties=update._snapshot_properties,  # noqa: SLF001
        )

    def schema(self) -> Schema:
        """Return the table's, with the columns of past specs that are gone: values are written by type."""
        metadata = self._transaction.table_metadata
        schema = metadata.schema()
        needed = {each.source_id for spec in metadata.partition_specs for each in spec.fields}
        gone = needed.difference(schema._lazy_id_to_field)  # noqa: SLF001  (no public way)
        past = {id_: each.find_field(id_) for each in metadata.schemas for id_ in gone & set(each.field_ids)}
        lost = [each.model_copy(update={"name": f"{each.name}-{id_}"}) for id_, each in past.items()]
        return Schema(*schema.fields, *lost, schema_id=schema.schema_id) if lost else schema

    def _build_delete_files_partition_predicate(self) -> None:
        """Do without one."""

    def _build_manifest_evaluator(self, spec_id: int) -> Callable[[ManifestFile], bool]:
        is_needed = any(file.spec_id == spec_id for file in self._deleted_data_files)
        return lambda manifest: is_needed and manifest.content is ManifestContent.DATA


def exchange_files(update: UpdateSnapshot, dropped: Iterable[DataFile], added: Iterable[DataFile]) -> int:
    """Make the snapshot; returns its id."""
    with FilesByPath(update) as producer:
        for file in dropped:
            producer.delete_data_file(file)
        for file in added:
            producer.append_data_file(file)
    return producer.snapshot_id

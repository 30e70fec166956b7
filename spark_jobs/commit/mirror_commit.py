"""The commit of a mirror's batch: its event files, and one file of deleted positions.

Everything is looked up in the table as it was loaded, and again after every conflict, for an adopted batch
too: the log knows files, never positions, which a compaction moves.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
)
from pyiceberg.table.locations import load_location_provider
from pyiceberg.typedef import Record

from spark_jobs.commit.replace import FilesByPath
from spark_jobs.commit.swap import Swap, stage
from spark_jobs.formats.connect.keys import Spelling
from spark_jobs.lake.data_files import to_data_file
from spark_jobs.mirror.fold import FILE, ROW, Folded, fold
from spark_jobs.mirror.keys import each_once, other_among, other_in
from spark_jobs.mirror.live_rows import events_of, locate
from spark_jobs.protocol.cdc import Cdc
from spark_jobs.schema.iceberg_types import ROW_ID
from spark_jobs.storage.errors import storage_error

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Summary
    from pyiceberg.table.update.snapshot import UpdateSnapshot

    from spark_jobs.protocol.batch import WrittenFile
    from spark_jobs.protocol.progress import Progress


# Whoever reads a data file reads them all: from so many on they become one.
MOST_DELETE_FILES = 8
# A drain has looked closer, by its configuration.
_KEYS = Spelling(are_texts=True)


def stage_mirror(
    table: Table, attempt: str, files: Sequence[WrittenFile], progress: Progress, summary: Mapping[str, str]
) -> Swap:
    """Stage one snapshot in which each key of the batch has the row of its newest event, or none.

    ``progress`` is the batch's but for ``cdc``. Raises ``CorruptLog`` where a key has two rows, and as
    storage does.
    """
    folded = fold(events_of(table, files), progress.cdc or Cdc())
    is_spelled = folded.cdc.is_spelled or (other_in(table, _KEYS) is None and _is_spelled(folded))
    located = locate(table, folded.changed_keys, folded.cut)
    is_merged = located.delete_files >= MOST_DELETE_FILES or bool(located.whole)
    dead = _positions(files, folded.dead)
    deletes = _together(located.found, dead, *([located.deleted] if is_merged else ()))
    delta = _delta(table, attempt, files, deletes, located.whole, drops_deletes=is_merged)
    return stage(table, delta, replace(progress, cdc=replace(folded.cdc, is_spelled=is_spelled)), summary)


def stage_rebuilt(
    table: Table, attempt: str, files: Sequence[WrittenFile], progress: Progress, summary: Mapping[str, str]
) -> Swap:
    """Stage one snapshot that replaces the whole table by these files' events.

    ``progress`` says where they begin. Raises as storage does.
    """
    folded = fold(events_of(table, files), progress.cdc or Cdc())
    there = [task.file for task in table.scan().plan_files()]
    delta = _delta(table, attempt, files, _positions(files, folded.dead), there, drops_deletes=True)
    cdc = replace(folded.cdc, is_spelled=_is_spelled(folded))
    return stage(table, delta, replace(progress, cdc=cdc), summary)


def _is_spelled(folded: Folded) -> bool:
    """True if all keys of the batch have their canonical spelling, unlike those of an early version."""
    return other_among(folded.events.column(ROW_ID), _KEYS) is None


def _delta(
    table: Table,
    attempt: str,
    files: Sequence[WrittenFile],
    deletes: Mapping[str, NDArray[np.int64]],
    dropped: Sequence[DataFile],
    *,
    drops_deletes: bool,
) -> RowDelta:
    """Write the deleted positions under a new name that the attempt's sweep finds."""
    name = f"{attempt}-deletes-{uuid.uuid4().hex[:8]}.parquet"
    added = [to_data_file(file, table.metadata) for file in files]
    return RowDelta(added, write_position_deletes(table, deletes, name), dropped, drops_deletes)


def _positions(files: Sequence[WrittenFile], events: pa.Table) -> dict[str, NDArray[np.int64]]:
    """Return the positions of these events' rows, by data file."""
    numbers, rows = events.column(FILE).to_numpy(), events.column(ROW).to_numpy()
    return {files[number].path: rows[numbers == number] for number in each_once(numbers).tolist()}


def _together(*positions: Mapping[str, NDArray[np.int64]]) -> dict[str, NDArray[np.int64]]:
    paths = {path for each in positions for path in each}
    return {path: np.concatenate([each[path] for each in positions if path in each]) for path in paths}


# One snapshot that adds data files and the positions of deleted rows: format 2's position deletes.
#
# PyIceberg 0.12 reads them and has no way to commit them: its manifests are of data alone.


_PATH_ID, _POSITION_ID = 2147483546, 2147483545  # of every table: the format's reserved ids
_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(_PATH_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(_POSITION_ID)}),
    ]
)


@dataclass(frozen=True, slots=True)
class RowDelta:
    """Files that a snapshot adds and removes, and the file of deleted positions, if any.

    With ``drops_deletes`` every delete file that the table had goes: what of them is still meant is in the
    new.
    """

    added: Sequence[DataFile]
    deletes: DataFile | None = None
    dropped: Sequence[DataFile] = ()
    drops_deletes: bool = False

    def __call__(self, update: UpdateSnapshot) -> int:
        """Build the snapshot and return its id."""
        with _RowDeltaFiles(self, update) as producer:
            for file in self.dropped:
                producer.delete_data_file(file)
            for file in self.added:
                producer.append_data_file(file)
        return producer.snapshot_id


def write_position_deletes(
    table: Table, positions: Mapping[str, NDArray[np.int64]], file_name: str
) -> DataFile | None:
    """Write the positions of deleted rows by data file, with paths as in its manifest; None if empty.

    An empty file of deletes breaks readers. Raises ``RetryableError`` when storage fails, ``ConfigError``
    when it refuses.
    """
    paths = sorted(path for path, rows in positions.items() if len(rows))
    if not paths:
        return None
    rows = [each_once(positions[path]) for path in paths]
    numbers = np.repeat(np.arange(len(paths), dtype=np.int32), [len(each) for each in rows])
    of_rows = pa.DictionaryArray.from_arrays(pa.array(numbers), pa.array(paths)).cast(pa.string())
    deletes = pa.Table.from_arrays([of_rows, pa.array(np.concatenate(rows))], schema=_SCHEMA)
    buffer = io.BytesIO()
    pq.write_table(deletes, buffer, compression="zstd", write_page_checksum=True)
    metadata = table.metadata
    locations = load_location_provider(metadata.location, metadata.properties)
    output = table.io.new_output(locations.new_data_location(file_name))
    try:
        with output.create() as stream:
            stream.write(buffer.getvalue())
    except OSError as error:
        raise storage_error(error, "writing deleted positions", file=output.location) from error
    file = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=output.location,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(deletes),
        file_size_in_bytes=buffer.tell(),
        # Readers leave out by them what is of other data files: they are of the whole path, never cut.
        lower_bounds={_PATH_ID: paths[0].encode()},
        upper_bounds={_PATH_ID: paths[-1].encode()},
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
    )
    file.spec_id = metadata.default_spec_id
    return file


class _DeletesWriter(ManifestWriterV2):
    """Writer for a manifest of delete files."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _RowDeltaFiles(FilesByPath):
    """An overwrite with delete files, which have their own manifests and count in the summary."""

    def __init__(self, delta: RowDelta, update: UpdateSnapshot) -> None:
        super().__init__(update)
        self._delta = delta
        self._old_deletes = self._deletes_there() if delta.drops_deletes else []

    def _manifests(self) -> list[ManifestFile]:
        manifests = super()._manifests()
        if self._delta.drops_deletes:
            manifests = [each for each in manifests if each.content is not ManifestContent.DELETES]
        entries = [(entry, ManifestEntryStatus.DELETED) for entry in self._old_deletes]
        if self._delta.deletes is not None:
            entries.append(
                (ManifestEntry.from_args(data_file=self._delta.deletes), ManifestEntryStatus.ADDED)
            )
        return [*manifests, *([self._deletes_manifest(entries)] if entries else [])]

    def _summary(self, snapshot_properties: dict[str, str]) -> Summary:  # type: ignore[override]
        added, dropped = self._added_data_files, self._deleted_data_files
        if self._delta.deletes is not None:
            self._added_data_files = [*added, self._delta.deletes]
        self._deleted_data_files = {*dropped, *(entry.data_file for entry in self._old_deletes)}
        try:
            return super()._summary(snapshot_properties)
        finally:
            self._added_data_files, self._deleted_data_files = added, dropped

    def _deletes_there(self) -> list[ManifestEntry]:
        snapshot = self._transaction.table_metadata.snapshot_by_name(self._target_branch)
        return [
            entry
            for manifest in (snapshot.manifests(self._io) if snapshot else ())
            if manifest.content is ManifestContent.DELETES
            for entry in manifest.fetch_manifest_entry(self._io, discard_deleted=True)
        ]

    def _deletes_manifest(self, entries: Sequence[tuple[ManifestEntry, ManifestEntryStatus]]) -> ManifestFile:
        spec = self._transaction.table_metadata.spec()
        output = self.new_manifest_output()
        with _DeletesWriter(spec, self.schema(), output, self._snapshot_id, self._compression) as writer:
            for entry, status in entries:
                is_new = status is ManifestEntryStatus.ADDED
                writer.add_entry(
                    ManifestEntry.from_args(
                        status=status,
                        snapshot_id=self._snapshot_id,
                        sequence_number=None if is_new else entry.sequence_number,
                        file_sequence_number=None if is_new else entry.file_sequence_number,
                        data_file=entry.data_file,
                    )
                )
        return writer.to_manifest_file()

"""Audit of a table's files, log and offsets from commit to commit. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, FileFormat, ManifestFile, read_manifest_list

from spark_jobs.audit.findings import Finding, MetadataAudit, log_findings
from spark_jobs.books.history import lines_of
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import tables_as_one
from spark_jobs.health.table_facts import main_history, table_facts
from spark_jobs.lake.data_files import whole_number
from spark_jobs.lake.tables import progress_of, summary_of
from spark_jobs.protocol import mends
from spark_jobs.schema.iceberg_types import GENERATION, OFFSET, PARTITION
from spark_jobs.txlog.entries import Attempt

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

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
    """Check every file in the metadata, and compare log and kept snapshots.

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
    """Yield the last drain if neither log nor batch history has it: the content of ``state:`` was lost."""
    last = progress_of(table).last_drain
    if last is not None and all(line.entry.attempt != last.attempt for line in lines_of(table, connections)):
        what = "the table's last drain is in neither the log nor the batch history"
        yield Finding(what, f"attempt {last.attempt}", mends.command("check", pipeline.name))


def damage_since(pipeline: PipelineConfig, connections: Connections, since_ms: int) -> list[Finding]:
    """Return damage in files that later commits added to the table or its dead letters."""
    tables = _load(pipeline, connections)
    found = (each for table in tables for each in audit_new_files(table, pipeline.name, since_ms))
    return list(islice(found, MAX_FINDINGS))


def _commit_findings(pipeline: PipelineConfig, table: Table) -> Iterator[Finding]:
    """Yield batches with unaccounted offsets, and commits that do not begin at the previous end."""
    facts = table_facts(table, schema_since_ms=0)
    progress = progress_of(table)
    for batch in facts.batches:
        if batch.unaccounted:
            # Of the last commits: older ones are not told any more.
            ranges = str(progress.ranges_of(batch.attempt))
            yield Finding(
                f"{batch.unaccounted:,} of its {batch.offsets:,} offsets or rows are unaccounted for",
                f"attempt {batch.attempt}",
                progress.table_layout.read_again(pipeline.name, ranges)
                if ranges
                else mends.command("audit", pipeline.name),
            )
    for hole in facts.holes:
        names, brings = mends.command("audit", pipeline.name), progress.table_layout.rewrite_commands[0]
        mend = f"{names} names the records, ./sluice {brings} brings them"
        yield Finding("the offsets are not contiguous", hole, mend)


def _load(pipeline: PipelineConfig, connections: Connections) -> list[Table]:
    """Return the table and its related tables; empty before the first drain."""
    tables = tables_as_one(connections, pipeline.table)
    return [] if tables is None else list(tables.every)


def _places(tables: list[Table]) -> list[str]:
    return [table.metadata_location for table in tables]


# Every file that a table's metadata names: it is there, has its size, reads, and is what is said of it.
#
# Manifests are read one after the other, past PyIceberg's cache. Data files are looked at side by side, their
# footers only.


READERS = 8
_SIDE_BY_SIDE = 256
_PAGE_ROWS = 10_000
# Whatever a damaged Avro or Parquet file makes its reader stumble over.
_UNREADABLE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    EOFError,
    IndexError,
    AssertionError,
    pa.ArrowException,
)


def audit_files(
    table: Table, counts: MetadataAudit, on_progress: Callable[[MetadataAudit], None], *, pages: bool
) -> Iterator[Finding]:
    """Return damage in the table's files, main's first. Updates ``counts``.

    With ``pages`` every page of a data file is read and held against its checksum, if it has one.
    """
    pipeline, main = counts.pipeline, table.metadata.current_snapshot_id
    yield from _look_at(table, table.metadata_location, None, _roll_back(table, pipeline, None))
    counts.metadata_files += 1
    seen_manifests: set[str] = set()
    seen_files: set[int] = set()
    with ThreadPoolExecutor(READERS) as readers:
        for snapshot in sorted(
            table.metadata.snapshots, key=lambda each: (each.snapshot_id != main, -each.timestamp_ms)
        ):
            is_main = snapshot.snapshot_id == main
            mend = _roll_back(table, pipeline, snapshot) if is_main else _expire(pipeline)
            manifests, found = _manifests_of(table, snapshot, mend)
            counts.metadata_files += 1
            yield from found
            for manifest in manifests:
                if manifest.manifest_path in seen_manifests:
                    continue
                seen_manifests.add(manifest.manifest_path)
                counts.metadata_files += 1
                files, found = _files_of(table, manifest, mend)
                yield from found
                fresh = (f for f in files if hash(f.file_path) not in seen_files)
                look = partial(_look_at_file, table, pipeline, is_main=is_main, pages=pages)
                while some := list(islice(fresh, _SIDE_BY_SIDE)):
                    seen_files.update(hash(file.file_path) for file in some)
                    for findings in readers.map(look, some):
                        yield from findings
                    counts.data_files += len(some)
                    counts.data_bytes += sum(file.file_size_in_bytes for file in some)
                    on_progress(counts)


def audit_new_files(table: Table, pipeline: str, since_ms: int) -> Iterator[Finding]:
    """Return damage in data files that later snapshots added; reads footers only."""
    with ThreadPoolExecutor(READERS) as readers:
        for snapshot in table.metadata.snapshots:
            if snapshot.timestamp_ms < since_ms:
                continue
            mend = _roll_back(table, pipeline, snapshot)
            manifests, found = _manifests_of(table, snapshot, mend)
            yield from found
            look = partial(_look_at_file, table, pipeline, is_main=True, pages=False)
            for manifest in manifests:
                if manifest.added_snapshot_id == snapshot.snapshot_id and manifest.has_added_files():
                    files, found = _files_of(table, manifest, mend)
                    yield from found
                    yield from chain.from_iterable(readers.map(look, files))


def _manifests_of(table: Table, snapshot: Snapshot, mend: str) -> tuple[list[ManifestFile], list[Finding]]:
    try:
        return list(read_manifest_list(table.io.new_input(snapshot.manifest_list))), []
    except _UNREADABLE as error:
        what = _trouble("the manifest list", error)
        return [], [Finding(f"{what} (snapshot {snapshot.snapshot_id})", snapshot.manifest_list, mend)]


def _files_of(table: Table, manifest: ManifestFile, mend: str) -> tuple[list[DataFile], list[Finding]]:
    found = list(_look_at(table, manifest.manifest_path, manifest.manifest_length, mend))
    if found:
        return [], found
    try:
        entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    except _UNREADABLE as error:
        return [], [Finding(_trouble("the manifest", error), manifest.manifest_path, mend)]
    said = (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
    if said != len(entries):
        what = f"the manifest has {len(entries)} files, but its list has {said}"
        found.append(Finding(what, manifest.manifest_path, mend))
    return [entry.data_file for entry in entries], found


def _look_at(table: Table, path: str, size_bytes: int | None, mend: str) -> Iterator[Finding]:
    try:
        there = len(table.io.new_input(path))
    except _UNREADABLE as error:
        yield Finding(_trouble("the file", error), path, mend)
        return
    if size_bytes is not None and there != size_bytes:
        yield Finding(f"the file has {there} bytes, but the metadata has {size_bytes}", path, mend)


def _look_at_file(
    table: Table, pipeline: str, file: DataFile, *, is_main: bool, pages: bool
) -> list[Finding]:
    mend = _replay(table, pipeline, file) if is_main else _expire(pipeline)
    found = list(_look_at(table, file.file_path, file.file_size_in_bytes, mend))
    if found or file.file_format is not FileFormat.PARQUET:
        return found
    try:
        with table.io.new_input(file.file_path).open() as stream:
            rows = pq.read_metadata(stream).num_rows
    except _UNREADABLE as error:
        return [Finding(_trouble("the file's footer", error), file.file_path, mend)]
    if rows == file.record_count:
        return _look_at_pages(table, file, mend) if pages else []
    return [
        Finding(f"the file has {rows} rows, but the manifest has {file.record_count}", file.file_path, mend)
    ]


def _look_at_pages(table: Table, file: DataFile, mend: str) -> list[Finding]:
    """Read every page once; a wrong checksum or failed decompression is damage."""
    try:
        with table.io.new_input(file.file_path).open() as stream:
            for _ in pq.ParquetFile(stream, page_checksum_verification=True).iter_batches(_PAGE_ROWS):
                pass
    except _UNREADABLE as error:
        return [Finding(_trouble("a page of the file", error), file.file_path, mend)]
    return []


def _trouble(what: str, error: Exception) -> str:
    state = "is gone" if isinstance(error, FileNotFoundError) else f"cannot be read: {type(error).__name__}"
    return f"{what} {state}"


def _replay(table: Table, pipeline: str, file: DataFile) -> str:
    """Return the command that reads the rows again; without offsets, or an earlier topic: a rollback."""
    schema, progress = table.schema(), progress_of(table)
    again = progress.table_layout.read_again
    if "replay" in progress.table_layout.refused:
        return again(pipeline)
    ids = [schema.find_field(name).field_id for name in (PARTITION, OFFSET, GENERATION)]
    lower, upper = file.lower_bounds or {}, file.upper_bounds or {}
    if not set(ids) <= lower.keys() & upper.keys():
        return _roll_back(table, pipeline, table.metadata.current_snapshot())
    (first, start, _), (last, end, born) = (
        [whole_number(bounds[field_id]) for field_id in ids] for bounds in (lower, upper)
    )
    if born != progress.generation:
        return _roll_back(table, pipeline, table.metadata.current_snapshot())
    return again(pipeline, " ".join(f"{p}:{start}-{end + 1}" for p in range(first, last + 1)))


def _roll_back(table: Table, pipeline: str, snapshot: Snapshot | None) -> str:
    current = snapshot or table.metadata.current_snapshot()
    parent = current.parent_snapshot_id if current else None
    if parent is None or table.metadata.snapshot_by_id(parent) is None:
        return "restore the file from a backup of the lake"
    return mends.act("rollback", pipeline, f"--to {parent}", quote='"')


def _expire(pipeline: str) -> str:
    """Return the advice for a file that only earlier states need: let them expire."""
    return mends.command("upkeep", pipeline)

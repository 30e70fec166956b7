"""Commits of a data table's pending files, dead letters and routed rows, under the batch's attempt."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pyiceberg.table.snapshots import ancestors_of

from spark_jobs.commit.anchor import check_properties
from spark_jobs.commit.columns_commit import commit_columns
from spark_jobs.commit.replace import (
    ReplacedOffsets,
    Rewriter,
    affected_files,
    rewritten_prefix,
    stage_replace,
)
from spark_jobs.commit.swap import CatalogAccess, Committed, Swap, land, stage_append
from spark_jobs.commit.sweep import sweep_prefix
from spark_jobs.commit.table_creation import (
    COMMENT,
    create_dead_letter_table,
    create_routed_table,
    refuse_other_origin,
)
from spark_jobs.lake.catalog import released
from spark_jobs.lake.coordinates import Coordinates
from spark_jobs.lake.data_files import to_data_file
from spark_jobs.lake.dead_letter_files import leaving, read_dead_letters
from spark_jobs.lake.file_rows import rows_of_file
from spark_jobs.lake.tables import (
    data_location,
    dead_letters_of,
    is_no_table_of_ours,
    load_table,
    progress_of,
)
from spark_jobs.protocol.batch import WrittenFile
from spark_jobs.protocol.commit_summary import offsets_summary
from spark_jobs.protocol.errors import (
    CommitConflict,
    ConfigError,
    CorruptLog,
    SluiceError,
    SourceChanged,
    fault,
)
from spark_jobs.protocol.progress import PREFIX, PendingDeadLetters, Progress
from spark_jobs.protocol.source import is_stale, with_dead_letters
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.column_source import lacking
from spark_jobs.schema.evolution import Evolution
from spark_jobs.schema.iceberg_types import GENERATION, OFFSET, PARTITION
from spark_jobs.storage.errors import storage_error
from spark_jobs.storage.paths import is_inside

if TYPE_CHECKING:
    from pyiceberg.table import Table


# Dead letters that a debt puts back into their table, beside the files it names.


def restore_dead_letters(
    connections: CatalogAccess, table: Table, generation: int, pending: PendingDeadLetters, rewriter: Rewriter
) -> Iterator[WrittenFile]:
    """Write restored dead letters, except those that already exist. Raises as ``read_dead_letters``."""
    schema = arrow_schema(table.schema())
    for kept in pending.returned:
        letters = read_dead_letters(connections.state, kept)
        there = rows_at(table, ReplacedOffsets(generation, Coordinates.of_rows(letters)))
        missing = letters.filter(pa.array(~Coordinates.of_rows(there).holds(letters)))
        columns = [
            missing.column(field.name).cast(field.type)
            if field.name in missing.column_names
            else pa.nulls(len(missing), field.type)
            for field in schema
        ]
        yield from rewriter.write(table, kept.name, pa.Table.from_arrays(columns, schema=schema))


def rows_at(table: Table, places: ReplacedOffsets) -> pa.Table:
    """Return the coordinates of the rows at these places. Raises as ``affected_files``."""
    columns = table.schema().select(GENERATION, PARTITION, OFFSET)
    found = [arrow_schema(columns).empty_table()]
    try:
        for task in affected_files(table, places):
            rows = rows_of_file(table.io, task, columns)
            found += [each.filter(pa.array(places.holds(each))) for each in rows]
    except OSError as error:
        raise storage_error(error, "reading coordinates", table=".".join(table.name())) from error
    return pa.concat_tables(found)


_log = logging.getLogger(__name__)

MOST_COMMITS_AT_ONCE = 4


@dataclass(frozen=True)
class _PendingCommit:
    """Pending files of the data table with ``progress`` for one table."""

    identifier: str
    progress: Progress
    pending: PendingDeadLetters
    summary: Mapping[str, str]
    rewriter: Rewriter
    lost: dict[str, int] = field(default_factory=dict, kw_only=True)
    fail_point: ClassVar[str] = "dead-letters"

    @property
    def attempt(self) -> str:
        """Attempt of the batch of these dead letters or rows."""
        return self.pending.attempt

    def stage(self, table: Table, connections: CatalogAccess) -> Swap:
        """Stage it on the table just loaded."""
        check_properties(table)
        pending = self.pending
        advanced = _advanced(table, self.progress, pending)
        generation = self.progress.generation
        back = restore_dead_letters(connections, table, generation, pending, self.rewriter)
        files = [to_data_file(file, table.metadata) for file in (*self._pending(table), *back)]
        full = {**self.summary, **offsets_summary(pending.attempt, pending.ranges)}
        if not pending.replaces:
            return stage_append(table, files, advanced, full)
        replaced = ReplacedOffsets(generation, leaving(connections.state, pending))
        return stage_replace(table, replaced, files, progress=advanced, summary=full, rewriter=self.rewriter)

    def _pending(self, table: Table) -> Iterator[WrittenFile]:
        """Return the files to commit: the table's own, and copies of files that belong to another table.

        They were written for a table that was dropped since, or for one that still has them under another
        name. Either may purge them, as orphan removal of another engine may those of the table's own, and a
        table that names a file which is gone is unreadable. One that was partitioned anew since is given
        copies, too.
        """
        folder = data_location(table)
        for file in self.pending.files:
            is_own = is_inside(file.path, folder)
            if not table.io.new_input(file.path).exists():
                _log.warning(
                    "%d rows in %s of attempt %s were deleted before they were added; %s does not have them",
                    *(file.rows, file.path, self.attempt, self.identifier),
                )
                self.lost.update({file.path: file.rows} if is_own else {})
            elif is_own and file.spec_id == table.metadata.default_spec_id:
                yield file
            else:
                yield from self.rewriter.copy(table, file)


@dataclass(frozen=True)
class _RouteCommit(_PendingCommit):
    """Rows for the table that is ``routed_from`` the data table, by its uuid."""

    routed_from: str
    fail_point: ClassVar[str] = "routes"

    def stage(self, table: Table, connections: CatalogAccess) -> Swap:
        """Stage it on the table just loaded, if that is the routed table."""
        refuse_other_origin(table, self.routed_from)
        _refuse_rolled_back(table)
        return super().stage(table, connections)


def _refuse_rolled_back(table: Table) -> None:
    """Raise ``SourceChanged`` if main was set back while the last commit exists: its rows would be lost."""
    anchor = progress_of(table).anchor
    main = ancestors_of(table.metadata.current_snapshot(), table.metadata)
    is_kept = anchor is not None and table.metadata.snapshot_by_id(anchor) is not None
    if is_kept and all(snapshot.snapshot_id != anchor for snapshot in main):
        raise fault("table-rolled-back.beside", anchor=anchor, table=".".join(table.name()))


def commit_pending(
    connections: CatalogAccess, data_table: str, progress: Progress, summary: Mapping[str, str]
) -> Committed | None:
    """Commit the pending files of ``progress`` of ``data_table`` to their tables, exactly once.

    Returns the commit of the dead letters, None when none are owed. Raises ``CommitConflict`` for a stale
    caller: a table is past the starts of what it is owed, or in a later epoch; ``CorruptLog`` when somebody
    set the dead-letter table's properties by hand, or deleted what is owed, once the rest of it is in;
    ``ConfigError`` (``route-stands-still``) for another table that takes nothing. The rest as ``land``. What
    one does not take the others get all the same.
    """
    routes = progress.owed_routes
    if routes is None:
        return _commit_dead_letters(connections, data_table, progress, summary)
    with released(connections.open_catalog()) as catalog:
        own = load_table(catalog, data_table)
    if own is None:
        raise _moved(data_table, progress.pending_dead_letters)
    uuid = str(own.metadata.table_uuid)
    intents = [
        _RouteCommit(table, progress, pending, summary, Rewriter(pending.attempt), uuid)
        for table, pending in sorted(routes.by_table.items())
    ]
    with ThreadPoolExecutor(MOST_COMMITS_AT_ONCE) as pool:
        commits = [pool.submit(_commit_routed, connections, own, intent) for intent in intents]
        committed = _commit_dead_letters(connections, data_table, progress, summary)
    for each in commits:
        each.result()
    return committed


def _commit_dead_letters(
    connections: CatalogAccess, data_table: str, progress: Progress, summary: Mapping[str, str]
) -> Committed | None:
    pending = progress.pending_dead_letters
    if pending is None:
        return None
    identifier = dead_letters_of(data_table)
    _ensure_dead_letter_table(connections, data_table, progress)
    return _land_and_sweep(
        connections, _PendingCommit(identifier, progress, pending, summary, Rewriter(pending.attempt))
    )


def _commit_routed(connections: CatalogAccess, own: Table, intent: _RouteCommit) -> None:
    """Commit to one routed table. Raises ``ConfigError`` (``route-stands-still``) with the fix."""
    identifier = intent.identifier
    try:
        if not intent.pending.replaces and _has_landed(connections, intent):
            return
        if intent.pending.files:
            _ensure_routed_table(connections, own, intent)
        elif not _is_routed_from(connections, intent):
            return  # it has no row that could have to go
        _land_and_sweep(connections, intent)
    except (ConfigError, CorruptLog, SourceChanged) as error:
        if intent.lost:
            raise
        away = f"{identifier.rpartition('.')[2]}_old"
        # What is owed names the table: another one in the file would not pay it.
        mend = "" if error.code == "not-routed-from" else f"{error.hint} Or "
        raise fault(
            "route-stands-still",
            why=error.message,
            advice=mend,
            r="r" if mend else "R",
            away=away,
            table=".".join(own.name()),
            routed=identifier,
            attempt=intent.attempt,
        ) from error


def _land_and_sweep(connections: CatalogAccess, intent: _PendingCommit) -> Committed:
    try:
        committed = land(connections, intent)
    except CommitConflict:
        _sweep_rewritten(connections, intent)
        raise
    _sweep_rewritten(connections, intent)
    if intent.lost:
        ranges = " ".join(map(str, intent.pending.ranges))
        again = intent.progress.table_layout.read_again("PIPELINE", ranges)
        raise fault(
            "owed-rows-lost",
            rows=sum(intent.lost.values()),
            files=", ".join(intent.lost),
            again=again,
            table=intent.identifier,
            attempt=intent.attempt,
        )
    return committed


def _sweep_rewritten(connections: CatalogAccess, intent: _PendingCommit) -> None:
    """Delete copies of the same rows by other runs: one has landed, so no other can."""
    if not (intent.pending.replaces or intent.rewriter.has_written):
        return
    with released(connections.open_catalog()) as catalog:
        table = load_table(catalog, intent.identifier)
        if table is not None:
            sweep_prefix(table, rewritten_prefix(intent.attempt, table))


def _ensure_dead_letter_table(connections: CatalogAccess, data_table: str, progress: Progress) -> None:
    """Create the dead-letter table if it is missing and the caller is not stale."""
    with released(connections.open_catalog()) as catalog:
        if load_table(catalog, dead_letters_of(data_table)) is not None:
            return
        data = load_table(catalog, data_table)
        if data is None or progress_of(data).pending_dead_letters != progress.pending_dead_letters:
            raise _moved(dead_letters_of(data_table), progress.pending_dead_letters)
        create_dead_letter_table(catalog, data_table, {}, progress)


def _has_landed(connections: CatalogAccess, intent: _PendingCommit) -> bool:
    """True if the commit has landed; every data commit checks this while the files are pending."""
    with released(connections.open_catalog()) as catalog:
        table = load_table(catalog, intent.identifier)
    return table is not None and progress_of(table).has_landed(intent.attempt)


def _is_routed_from(connections: CatalogAccess, intent: _RouteCommit) -> bool:
    """True if the name belongs to a table for our routed rows; other tables contain none of them."""
    with released(connections.open_catalog()) as catalog:
        try:
            table = load_table(catalog, intent.identifier)
        except (ConfigError, SourceChanged) as error:
            if not is_no_table_of_ours(error):
                raise
            return False
        return table is not None and progress_of(table).routed_from == intent.routed_from


def _ensure_routed_table(connections: CatalogAccess, own: Table, intent: _RouteCommit) -> None:
    """Create the routed table if it is missing and the caller is not stale.

    It gets every column if rows must be copied from an earlier one.
    """
    with released(connections.open_catalog()) as catalog:
        is_current = progress_of(own).owed_routes == intent.progress.owed_routes
        if not is_current and load_table(catalog, intent.identifier) is None:
            raise _moved(intent.identifier, intent.pending)
        as_own = {n: each for n, each in own.properties.items() if not n.startswith(PREFIX) and n != COMMENT}
        table = create_routed_table(catalog, intent.identifier, own, properties=as_own)
    if all(is_inside(file.path, data_location(table)) for file in intent.pending.files):
        return

    def lacks(table: Table) -> Evolution:
        every = (each for each in lacking(own.schema(), table.schema()).values() if each is not None)
        return reduce(Evolution.then, every, Evolution())

    commit_columns(connections.open_catalog, intent.identifier, lacks, connections.fail_points)


def _advanced(table: Table, progress: Progress, pending: PendingDeadLetters) -> Progress:
    """Return the progress of the receiving table after the commit."""
    before = progress_of(table)
    if is_stale(before, progress, pending):
        raise _moved(".".join(table.name()), pending)
    return with_dead_letters(before, progress, pending)


def _moved(identifier: str, pending: PendingDeadLetters | None) -> SluiceError:
    return fault("dead-letters-moved", table=identifier, attempt=pending and pending.attempt)

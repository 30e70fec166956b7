"""The commit of the dead letters that a data table owes: under the batch's protocol, into their own table."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from spark_jobs.commit.anchor import check_properties
from spark_jobs.commit.birth import create_dead_letter_table
from spark_jobs.commit.landing import Committed, land
from spark_jobs.commit.moved_letters import returning
from spark_jobs.commit.replace import ReplacedOffsets, Rewriter, kept_prefix, stage_replace
from spark_jobs.commit.swap import stage_append
from spark_jobs.commit.sweep import sweep_prefix
from spark_jobs.lake.catalog import released
from spark_jobs.lake.data_files import to_data_file
from spark_jobs.lake.kept_letters import leaving
from spark_jobs.lake.locations import data_location
from spark_jobs.lake.tables import dead_letters_of, load_table, progress_of
from spark_jobs.protocol.batch import WrittenFile
from spark_jobs.protocol.commit_summary import offsets_summary
from spark_jobs.protocol.errors import CommitConflict
from spark_jobs.protocol.fences import is_stale, with_dead_letters
from spark_jobs.protocol.progress import PendingDeadLetters, Progress
from spark_jobs.storage.paths import is_inside

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.commit.landing import CatalogAccess
    from spark_jobs.commit.swap import Swap

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _DeadLetterCommit:
    """What the data table with ``progress`` owes."""

    identifier: str
    progress: Progress
    pending: PendingDeadLetters
    summary: Mapping[str, str]
    rewriter: Rewriter
    fail_point: ClassVar[str] = "dead-letters"

    @property
    def attempt(self) -> str:
        """That of the batch whose dead letters they are."""
        return self.pending.attempt

    def stage(self, table: Table, connections: CatalogAccess) -> Swap:
        """Stage it on the table just loaded."""
        check_properties(table)
        pending = self.pending
        advanced = _advance_dead_letters(table, self.progress, pending)
        generation = self.progress.generation
        back = returning(connections, table, generation, pending, self.rewriter)
        files = [to_data_file(file, table.metadata) for file in (*self._owed(table), *back)]
        full = {**self.summary, **offsets_summary(pending.attempt, pending.ranges)}
        if not pending.replaces:
            return stage_append(table, files, advanced, full)
        replaced = ReplacedOffsets(generation, leaving(connections.state, pending))
        return stage_replace(table, replaced, files, progress=advanced, summary=full, rewriter=self.rewriter)

    def _owed(self, table: Table) -> Iterator[WrittenFile]:
        """Return what to name: files of the table's own, and copies of what is left of those that are not.

        They were written for a dead-letter table that was dropped since, or for one that still has them
        under the earlier name of a data table that was renamed. Either may purge them, and a table that names
        a file which is gone is unreadable.
        """
        folder = data_location(table)
        for file in self.pending.files:
            if is_inside(file.path, folder):
                yield file
            elif table.io.new_input(file.path).exists():
                yield from self.rewriter.copy(table, file)
            else:
                _log.warning(
                    "the %d dead letters in %s of attempt %s were deleted together with the table they were"
                    " written for; %s is without them",
                    *(file.rows, file.path, self.attempt, self.identifier),
                )


def commit_dead_letters(
    connections: CatalogAccess, data_table: str, progress: Progress, summary: Mapping[str, str]
) -> Committed | None:
    """Bring what ``progress`` of the table ``data_table`` owes into its dead-letter table, once.

    Returns None when nothing is owed. Raises ``CommitConflict`` for a stale caller: the dead-letter table
    is past the starts of what it owes, or in a later epoch; ``CorruptLog`` when somebody set that table's
    properties by hand. The rest as ``land``.
    """
    pending = progress.pending_dead_letters
    if pending is None:
        return None
    identifier = dead_letters_of(data_table)
    _ensure_dead_letter_table(connections, data_table, progress)
    intent = _DeadLetterCommit(identifier, progress, pending, summary, Rewriter(pending.attempt))
    try:
        committed = land(connections, intent)
    except CommitConflict:
        _sweep_rewritten(connections, intent)
        raise
    _sweep_rewritten(connections, intent)
    return committed


def _sweep_rewritten(connections: CatalogAccess, intent: _DeadLetterCommit) -> None:
    """Delete what other runs wrote again of the same rows: now that one has landed, no other ever will."""
    if not (intent.pending.replaces or intent.rewriter.has_written):
        return
    with released(connections.open_catalog()) as catalog:
        table = load_table(catalog, intent.identifier)
        if table is not None:
            sweep_prefix(table, kept_prefix(intent.attempt))


def _ensure_dead_letter_table(connections: CatalogAccess, data_table: str, progress: Progress) -> None:
    """Make the dead-letter table where it is missing, for a caller that is not stale: nothing tells later."""
    with released(connections.open_catalog()) as catalog:
        if load_table(catalog, dead_letters_of(data_table)) is not None:
            return
        data = load_table(catalog, data_table)
        if data is None or progress_of(data).pending_dead_letters != progress.pending_dead_letters:
            raise _moved(dead_letters_of(data_table), progress.pending_dead_letters)
        create_dead_letter_table(catalog, data_table, {}, progress)


def _advance_dead_letters(table: Table, progress: Progress, pending: PendingDeadLetters) -> Progress:
    """Return the dead-letter table's progress after the commit."""
    before = progress_of(table)
    if is_stale(before, progress, pending):
        raise _moved(".".join(table.name()), pending)
    return with_dead_letters(before, progress, pending)


def _moved(dead_letters: str, pending: PendingDeadLetters | None) -> CommitConflict:
    return CommitConflict(
        "the dead-letter table is past the batch whose dead letters were to be added",
        code="dead-letters-moved",
        hint="Another run committed them or went on; nothing was deleted. Run again.",
        table=dead_letters,
        attempt=pending and pending.attempt,
    )

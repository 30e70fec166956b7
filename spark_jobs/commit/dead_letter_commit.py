"""The commit of the dead letters that a data table owes: under the batch's protocol, into their own table."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from spark_jobs.commit.anchor import check_properties
from spark_jobs.commit.birth import create_dead_letter_table
from spark_jobs.commit.dead_letters import is_stale, with_dead_letters
from spark_jobs.commit.landing import Committed, Intent, land
from spark_jobs.commit.replace import Rewriter, kept_prefix, stage_replace
from spark_jobs.commit.replacing import ReplacedOffsets
from spark_jobs.commit.swap import stage_append
from spark_jobs.commit.sweep import sweep_prefix
from spark_jobs.lake.catalog import close_catalog
from spark_jobs.lake.data_files import to_data_file
from spark_jobs.lake.tables import dead_letters_of, load_table, progress_of
from spark_jobs.protocol.commit_summary import offsets_summary
from spark_jobs.protocol.errors import CommitConflict
from spark_jobs.protocol.offsets import OffsetRanges

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from spark_jobs.commit.swap import Swap
    from spark_jobs.protocol.fail_points import FailPoints
    from spark_jobs.protocol.progress import PendingDeadLetters, Progress
    from spark_jobs.protocol.written_file import WrittenFile

_log = logging.getLogger(__name__)


def commit_dead_letters(
    open_catalog: Callable[[], Catalog],
    identifier: str,
    progress: Progress,
    summary: Mapping[str, str],
    fail_points: FailPoints,
) -> Committed | None:
    """Bring what ``progress`` of the data table ``identifier`` owes into its dead-letter table, once.

    Returns None when nothing is owed. Raises ``CommitConflict`` for a stale caller: the dead-letter table
    is past the starts of what it owes, or in a later epoch; ``CorruptLog`` when somebody set that table's
    properties by hand. The rest as ``commit_batch``.
    """
    pending = progress.pending_dead_letters
    if pending is None:
        return None
    is_new = _ensure_dead_letter_table(open_catalog, identifier, progress)
    rewriter = Rewriter(pending.attempt)

    def stage(table: Table) -> Swap:
        check_properties(table)
        advanced = _advance_dead_letters(table, progress, pending)
        owed = _surviving(table, pending) if is_new else pending.files
        files = [to_data_file(file, table.metadata) for file in owed]
        ranges = OffsetRanges.between(pending.starts, pending.ends)
        full = {**summary, **offsets_summary(pending.attempt, ranges)}
        if not pending.replaces:
            return stage_append(table, files, advanced, full)
        replaced = ReplacedOffsets.of(progress.generation, ranges)
        return stage_replace(table, replaced, files, progress=advanced, summary=full, rewriter=rewriter)

    intent = Intent(dead_letters_of(identifier), pending.attempt, "dead-letters", stage)
    try:
        committed = land(open_catalog, intent, fail_points)
    except CommitConflict:
        _sweep_rewritten(open_catalog, identifier, pending)
        raise
    _sweep_rewritten(open_catalog, identifier, pending)
    return committed


def _sweep_rewritten(
    open_catalog: Callable[[], Catalog], identifier: str, pending: PendingDeadLetters
) -> None:
    """Several runs may have written the same rows again: now that one has landed, no other ever will."""
    if not pending.replaces:
        return
    catalog = open_catalog()
    try:
        table = load_table(catalog, dead_letters_of(identifier))
        if table is not None:
            sweep_prefix(table, kept_prefix(pending.attempt))
    finally:
        close_catalog(catalog)


def _ensure_dead_letter_table(
    open_catalog: Callable[[], Catalog], identifier: str, progress: Progress
) -> bool:
    """Whether the dead-letter table had to be made."""
    catalog = open_catalog()
    try:
        is_missing = load_table(catalog, dead_letters_of(identifier)) is None
        if is_missing:
            create_dead_letter_table(catalog, identifier, {}, progress)
    finally:
        close_catalog(catalog)
    return is_missing


def _surviving(table: Table, pending: PendingDeadLetters) -> tuple[WrittenFile, ...]:
    """The files that are still there: who dropped the dead-letter table may have purged them with it.

    A commit that names a file which is gone would make the new table unreadable.
    """
    there = tuple(file for file in pending.files if table.io.new_input(file.path).exists())
    if len(there) < len(pending.files):
        _log.warning(
            "%d dead-letter files of attempt %s were deleted together with the dead-letter table %s",
            len(pending.files) - len(there),
            pending.attempt,
            ".".join(table.name()),
        )
    return there


def _advance_dead_letters(table: Table, progress: Progress, pending: PendingDeadLetters) -> Progress:
    """The dead-letter table's progress after the commit."""
    there = progress_of(table)
    if is_stale(there, progress, pending):
        raise CommitConflict(
            "the dead-letter table is past the batch whose dead letters were to be added",
            code="dead-letters-moved",
            hint="Another run committed them or went on; nothing was deleted. Run again.",
            table=".".join(table.name()),
            attempt=pending.attempt,
        )
    return with_dead_letters(there, progress, pending)

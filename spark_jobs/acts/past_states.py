"""Earlier states of a table in its snapshots: progress at the time, and later changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import Snapshot, ancestors_of

from spark_jobs.commit.anchor import is_harmless, may_be_meant
from spark_jobs.lake.tables import keeps_history, progress_of, summary_of
from spark_jobs.protocol.cdc import Cdc
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.offsets import OffsetRange, merge
from spark_jobs.protocol.progress import CommitRecord, LastDrain
from spark_jobs.protocol.works.changes import RETYPE
from spark_jobs.protocol.works.replay import REPLAY

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass(frozen=True, slots=True)
class EarlierState:
    """State of the table at a snapshot.

    ``last_drain`` is the last drained batch by then, and ``last_drain_offsets`` what it brought; None when
    there was none or its snapshot has expired.
    ``replays_since`` are the batch ids of the replays that landed after it, ``replayed_since`` their offsets;
    ``redrives_since`` counts the commits that took dead letters out as rows after it;
    ``is_before_retype`` if a column was given another type since; ``cdc`` is a mirror's.
    """

    snapshot_id: int
    committed_at_ms: int
    generation: int
    next_offsets: dict[int, int]
    last_drain: LastDrain | None
    last_drain_offsets: CommitRecord | None
    data_files: int
    replays_since: tuple[str, ...]
    replayed_since: tuple[OffsetRange, ...]
    redrives_since: int
    is_before_retype: bool
    cdc: Cdc | None = None


def state_at(table: Table, snapshot_id: int) -> EarlierState:
    """Return the state at a snapshot that main or the last commit descends from.

    Raises ``ConfigError``: ``no-history`` on a catalog that shows none, ``no-such-snapshot``, and
    ``not-our-snapshot`` when another writer added rows by then; what it took out or changed is as it is.
    """
    after = [summary_of(snapshot) for snapshot in _after(table, snapshot_id)]
    replays = [summary for summary in after if summary.work is REPLAY]
    target = table.metadata.snapshot_by_id(snapshot_id)
    for snapshot in _ancestors(table, snapshot_id):
        if not is_harmless(snapshot) and not may_be_meant(snapshot):
            raise _not_ours(table, snapshot)
        if (last := summary_of(snapshot)).has_progress:
            break
    else:
        raise _not_ours(table, target)
    return EarlierState(
        snapshot_id,
        target.timestamp_ms if target else 0,
        last.generation,
        last.next_offsets,
        *_last_drain(table, snapshot_id),
        summary_of(target).count("total-data-files"),
        tuple(summary.batch_id for summary in replays),
        merge(r for summary in replays for r in summary.ranges),
        sum(summary.letters is not None for summary in after),
        any(summary.work is RETYPE for summary in after),
        last.cdc,
    )


def snapshot_at(table: Table, at_ms: int) -> int:
    """Return the last ancestor of main before or at a time (milliseconds since the epoch).

    Raises ``ConfigError`` (``no-such-snapshot``) when all of them are later.
    """
    for snapshot in _ancestors(table, table.metadata.current_snapshot_id):
        if snapshot.timestamp_ms <= at_ms:
            return snapshot.snapshot_id
    raise _no_such_snapshot(table, "of that time")


def _after(table: Table, snapshot_id: int) -> list[Snapshot]:
    """Return later snapshots up to the last commit or, for a compaction after it, up to main."""
    if not keeps_history(table):
        raise fault(
            "no-history",
            again=progress_of(table).table_layout.read_again("PIPELINE", "P:START-END"),
            table=".".join(table.name()),
        )
    for head in (progress_of(table).anchor, table.metadata.current_snapshot_id):
        since: list[Snapshot] = []
        for snapshot in _ancestors(table, head):
            if snapshot.snapshot_id == snapshot_id:
                return since
            since.append(snapshot)
    raise _no_such_snapshot(table, str(snapshot_id))


def _ancestors(table: Table, snapshot_id: int | None) -> Iterable[Snapshot]:
    """Yield the snapshot, its parent, and so on as far as they are kept; nothing for None."""
    metadata = table.metadata
    return ancestors_of(None if snapshot_id is None else metadata.snapshot_by_id(snapshot_id), metadata)


def _last_drain(table: Table, snapshot_id: int) -> tuple[LastDrain | None, CommitRecord | None]:
    for snapshot in _ancestors(table, snapshot_id):
        summary = summary_of(snapshot)
        if summary.drained:
            attempt = summary.attempt or ""
            last = LastDrain(
                attempt, snapshot.timestamp_ms, summary.records, summary.bytes_read, summary.valid_through_ms
            )
            return last, CommitRecord(attempt, summary.ranges)
    return None, None


def _no_such_snapshot(table: Table, which: str) -> SluiceError:
    kept = [f"{s.snapshot_id}" for s in table.metadata.snapshots[-5:]]
    return fault("no-such-snapshot.main", which=which, kept=", ".join(kept), table=".".join(table.name()))


def _not_ours(table: Table, snapshot: Snapshot | None) -> SluiceError:
    return fault(
        "not-our-snapshot", snapshot=snapshot.snapshot_id if snapshot else "?", table=".".join(table.name())
    )

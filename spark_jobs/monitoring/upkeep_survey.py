"""Input of decisions about upkeep: a pipeline's log and its tables' figures.

Figures are kept between looks: manifests are read only if a table has grown.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.books.entries import books_of
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.notices.notice import owes_notice
from spark_jobs.protocol.progress import progress_from_properties
from spark_jobs.protocol.work import Settler
from spark_jobs.recovery.decide import attempts_of
from spark_jobs.txlog.entries import Attempt, is_waiting
from spark_jobs.upkeep.figures import TableFigures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

    from spark_jobs.txlog.store import TxlogStore


@dataclass(frozen=True, slots=True)
class UpkeepState:
    """A pipeline's transaction log and tables.

    ``finished`` is the number of attempts that a checkpoint may move into the books, ``unfinished`` are those
    that a drain has to settle. ``figures`` are of the table, its dead-letter table and the books; empty
    without tables. With a webhook, ``without_notice`` finished attempts have no mark of their notice, and
    ``oldest_owed`` is the oldest with a pending one.
    """

    pipeline: PipelineConfig
    finished: int = 0
    unfinished: tuple[Attempt, ...] = ()
    figures: tuple[TableFigures, ...] = ()
    without_notice: int = 0
    oldest_owed: Attempt | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    table_uuid: str
    snapshot_id: int | None
    figures: TableFigures


class FigureCache:
    """Figures by table; thread-safe if each thread reads tables of its own."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def figures(self, identifier: str, table: Table, compact_above: int) -> TableFigures:
        """Return the table's figures; file counts may lag by up to half of ``compact_above`` new files."""
        from spark_jobs.upkeep.read_figures import (  # noqa: PLC0415  (imports the lake)
            file_figures,
            snapshot_figures,
        )

        known = self._known.get(identifier)
        if known is None or not _is_still_good(known, table, compact_above):
            metadata = table.metadata
            known = _Known(str(metadata.table_uuid), metadata.current_snapshot_id, file_figures(table))
            self._known[identifier] = known
        return snapshot_figures(table.metadata, known.figures)


def _is_still_good(known: _Known, table: Table, compact_above: int) -> bool:
    if known.table_uuid != str(table.metadata.table_uuid):
        return False
    if known.snapshot_id == table.metadata.current_snapshot_id:
        return True
    snapshot = table.metadata.current_snapshot()
    files = snapshot.summary["total-data-files"] if snapshot and snapshot.summary else None
    return 0 <= int(files or 0) - known.figures.data_files < compact_above / 2


def upkeep_state(
    log: TxlogStore, figures: FigureCache, now_us: int, pipeline: PipelineConfig, data: Table | None
) -> UpkeepState:
    """Return the state of a pipeline and its table; ``now_us`` is since the epoch."""
    from spark_jobs.connections.connect import load_routed  # noqa: PLC0415  (pyiceberg, never at import)
    from spark_jobs.lake.tables import load_table  # noqa: PLC0415

    if data is None:
        return UpkeepState(pipeline)
    uuid, load = str(data.metadata.table_uuid), partial(load_table, data.catalog)
    beside = (pipeline.dead_letter_table, books_of(pipeline.table))
    tables = {pipeline.table: data} | {name: load(name) for name in beside} | load_routed(load, data)
    without_notice, oldest_owed = _owed_notices(log, pipeline, uuid)
    return UpkeepState(
        pipeline,
        finished=len(log.finished(uuid)),
        unfinished=_attempts_for_drains(log.unfinished(uuid, now_us=now_us), data),
        figures=tuple(
            figures.figures(name, table, pipeline.upkeep.compact_above)
            for name, table in tables.items()
            if table is not None
        ),
        without_notice=without_notice,
        oldest_owed=oldest_owed,
    )


def _attempts_for_drains(unfinished: Sequence[Attempt], data: Table) -> tuple[Attempt, ...]:
    """Return the attempts that a drain's recovery settles: neither replays nor held batches.

    Drains of a paused pipeline settle nothing.
    """
    progress = progress_from_properties(data.properties, table=".".join(data.name()))
    if progress.paused is not None:
        return ()
    attempts = attempts_of(Settler.DRAIN, unfinished)
    return tuple(attempt for attempt in attempts if not is_waiting(attempt, progress))


def _owed_notices(store: TxlogStore, pipeline: PipelineConfig, uuid: str) -> tuple[int, Attempt | None]:
    """Return the number of attempts without a mark of their notice, and the oldest pending one."""
    if pipeline.notify.webhook is None:
        return 0, None
    unmarked = store.without_notice(uuid)
    return len(unmarked), next(filter(owes_notice, store.read_each(uuid, unmarked)), None)

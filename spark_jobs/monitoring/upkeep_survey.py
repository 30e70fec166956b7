"""The figures that decide about upkeep, kept between looks: manifests are read only if a table has grown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.txlog.entries import Attempt
from spark_jobs.upkeep.figures import TableFigures

if TYPE_CHECKING:
    from pyiceberg.table import Table


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

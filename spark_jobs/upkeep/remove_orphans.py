"""Orphan removal: Iceberg lists, Sluice takes out what log and fresh metadata protect, and deletes.

The order is what makes it safe: first the listing, then the log, then the metadata. An attempt that lands in
between is unfinished in the log or named by the metadata, never neither.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.connections.tables import load_fresh
from spark_jobs.lake.catalog import close_catalog
from spark_jobs.lake.catalog_tables import drop_stillborn, locations_of, locations_of_others
from spark_jobs.lake.locations import delete_file
from spark_jobs.lake.named_files import named_of
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.storage.file_listing import modified_us
from spark_jobs.storage.paths import is_local, normalise_path
from spark_jobs.upkeep.conditions import UpkeepKind
from spark_jobs.upkeep.orphans import OrphanFacts, Unfinished, judge_orphans, overlaps
from spark_jobs.upkeep.upkeep import Done, tables_of, tidy_tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table

    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections
    from spark_jobs.upkeep.orphans import Verdicts
    from spark_jobs.upkeep.upkeep import TableWork, UpkeepResult

# Making a table takes a second; after a day nobody is still at it.
STILLBORN_AFTER_SECONDS = 24 * 3600


def remove_orphans(
    pipeline: PipelineConfig,
    connections: Connections,
    *,
    dry_run: bool = False,
    say: Callable[[str], None] = lambda _line: None,
) -> UpkeepResult:
    """Delete files below the tables' locations that nothing needs and that are old enough.

    With ``dry_run`` everything but the deleting. Safe to repeat and beside drains. Raises ``ConfigError``
    (``shared-location``) when another table of the catalog lies in, at or around the location, and every
    other kind of ``SluiceError``.
    """
    return tidy_tables(
        UpkeepKind.ORPHANS,
        pipeline,
        connections,
        lambda hand: _Removal(hand, tables_of(pipeline), dry_run=dry_run).run(),
        say,
    )


@dataclass(frozen=True, slots=True)
class _Removal:
    """Orphan removal of one table; ``names`` are the pipeline's tables, its own first."""

    hand: TableWork
    names: tuple[str, ...]
    dry_run: bool

    def run(self) -> Done:
        hand = self.hand
        if hand.figures.keeps_garbage:
            return Done(
                note="the catalog keeps history of its own (gc.enabled is false) and collects it itself"
            )
        stillborn = self._check_catalog()
        hand.say(f"{hand.identifier}: listing files that no snapshot names")
        listed = self._listed()
        hand.connections.fail_points.reach("orphans.after-listing")
        verdicts = self._judge(listed)
        if not self.dry_run:
            for path in verdicts.deletable:
                hand.connections.fail_points.reach("orphans.before-delete")
                delete_file(hand.table, path)
        deletable = "to delete" if self.dry_run else "deleted"
        hand.say(f"{hand.identifier}: {len(listed):,} found, {len(verdicts.deletable):,} {deletable}")
        counts = {
            "deletable" if self.dry_run else "deleted": len(verdicts.deletable),
            "dropped_tables": stillborn,
        }
        return Done(counts | {f"kept_{reason}": number for reason, number in verdicts.kept.items()})

    def _check_catalog(self) -> int:
        """Refuse a shared location; drop tables that dead creators left, returning how many."""
        catalog = self.hand.connections.open_catalog()
        try:
            others = locations_of_others(catalog, self.hand.identifier)
            if shared := overlaps(locations_of(self.hand.table), others):
                raise _shared(self.hand.table, shared)
            if self.dry_run:
                return 0
            before_ms = self._now_us() // 1000 - STILLBORN_AFTER_SECONDS * 1000
            return len(drop_stillborn(catalog, self.hand.identifier, before_ms=before_ms))
        finally:
            close_catalog(catalog)

    def _listed(self) -> dict[str, int | None]:
        """What Iceberg's procedure lists, with the time each file was modified."""
        older_than = dt.datetime.fromtimestamp(self._before_us() / 1e6, dt.UTC)
        rows = self.hand.rows(
            "remove_orphan_files",
            older_than=older_than,
            dry_run=True,
            # On a local disk this forks an `ls` per file, and fails when a drain deletes one in between.
            prefix_listing=not is_local(self.hand.table.location()),
            equal_schemes={"s3a": "s3", "s3n": "s3"},
        )
        paths = [row["orphan_file_location"] for row in rows]
        return modified_us(paths, self.hand.table.io.properties)

    def _judge(self, listed: dict[str, int | None]) -> Verdicts:
        asked = frozenset(map(normalise_path, listed))
        # The log of all tables is the data table's.
        unfinished = self._unfinished()
        tables = [table for name in self.names if (table := load_fresh(self.hand.connections, name))]
        named = frozenset[str]().union(*(named_of(table, asked) for table in tables))
        return judge_orphans(listed, OrphanFacts(named, unfinished, self._before_us()))

    def _unfinished(self) -> tuple[Unfinished, ...]:
        data = load_fresh(self.hand.connections, self.names[0])
        if data is None:
            return ()
        begun = self.hand.connections.txlog.begun(str(data.metadata.table_uuid))
        return tuple(Unfinished(attempt, since_us) for attempt, since_us in begun.items())

    def _now_us(self) -> int:
        return self.hand.connections.now_us()

    def _before_us(self) -> int:
        return self._now_us() - self.hand.settings.orphans_older_than_seconds * 1_000_000


def _shared(table: Table, others: tuple[str, ...]) -> ConfigError:
    return ConfigError(
        f"the table's location overlaps with that of {', '.join(others)}",
        code="shared-location",
        hint="Nothing was deleted. Give each table its own location: what one does not name is the other's.",
        table=".".join(table.name()),
        location=table.location(),
    )

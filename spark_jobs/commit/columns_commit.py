"""A table's columns made to fit new schemas: columns, their types, and whose they are, in one commit.

An empty snapshot goes with it, since what is kept of columns is progress. Neither offsets nor any batch in
flight is touched: files are written for columns that stay.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.commit.anchor import check_anchor
from spark_jobs.commit.swap import send, stage_change
from spark_jobs.lake.catalog import released
from spark_jobs.lake.catalog_errors import catalog_error, staging
from spark_jobs.lake.evolution import MAX_TRIES, evolve_table, not_seen, refuse_held, table_gone
from spark_jobs.lake.tables import load_table, progress_of
from spark_jobs.schema.evolution import Evolution, bind

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table, Transaction

    from spark_jobs.commit.swap import Swap
    from spark_jobs.protocol.fail_points import FailPoints


def commit_columns(
    open_catalog: Callable[[], Catalog],
    identifier: str,
    lacks: Callable[[Table], Evolution],
    fail_points: FailPoints,
) -> Table:
    """Give the table what it ``lacks``, which is asked of it as it is, and return it as it is then.

    Safe to repeat, and beside others that do the same: who comes second decides by what the first left.
    Raises ``RetryableError`` when other changes keep coming first or the catalog does not answer, as
    ``check_anchor`` does, and what ``lacks`` raises.
    """
    failure: Exception | None = None
    for attempt in range(MAX_TRIES):
        time.sleep(0.05 * attempt)
        with released(open_catalog()) as catalog:
            table = load_table(catalog, identifier)
            if table is None:
                raise table_gone(identifier)
            evolution = lacks(table)
            if not evolution:
                return table
            if not evolution.bindings and not evolution.widenings and not evolution.docs:
                additions = [(path, kind) for path, kind, _ in evolution.additions]
                return evolve_table(open_catalog, identifier, additions)
            check_anchor(table)
            refuse_held(table, (path for path, _, _ in evolution.additions))
            with staging(table):
                staged = _staged(table, evolution)
            fail_points.reach("columns.before-swap")
            failure = _try(catalog, table, staged)
            fail_points.reach("columns.after-swap")
    if failure is None:
        raise not_seen(identifier)
    raise catalog_error(failure, "would not take the table's new columns", table=identifier) from failure


def _try(catalog: Catalog, table: Table, swap: Swap) -> Exception | None:
    """Send the change once; whether it landed is seen on the table itself."""
    try:
        send(catalog, table, swap)
    except Exception as error:  # noqa: BLE001  (the outcome is unknown whatever it was: look again)
        return error
    return None


def _staged(table: Table, evolution: Evolution) -> Swap:
    change = partial(_change, evolution)
    rehearsal = table.transaction()
    change(rehearsal)  # the ids that the new columns get are those of the commit
    progress = progress_of(table)
    bound = bind(progress.columns, evolution.bindings, rehearsal.table_metadata.schema())
    return stage_change(table, change, replace(progress, columns=bound), {})


def _change(evolution: Evolution, transaction: Transaction) -> None:
    waiting = evolution.additions
    while waiting:
        # What goes into a column that is new itself waits until that is there.
        new = {path for path, _, _ in waiting}
        now = [each for each in waiting if not any(each[0][:size] in new for size in range(1, len(each[0])))]
        with transaction.update_schema() as update:
            for path, kind, doc in now:
                update.add_column(path, kind, doc=doc)
        waiting = [each for each in waiting if each not in now]
    # One schema may bring a column, and the next widen it. With nothing to do a schema would be sent that a
    # server has, which it refuses.
    if evolution.widenings or evolution.docs:
        with transaction.update_schema() as update:
            for path, kind in evolution.widenings.items():
                update.update_column(path, kind)
            for path, told in evolution.docs.items():
                update.update_column(path, doc=told)

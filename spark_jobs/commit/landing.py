"""Getting one swap into a table and finding out whether it landed.

What a catalog answers proves nothing: a 409 may follow a commit that landed, a 504 may land seconds later, a
SQLite connection shows rows that were never committed. The only witness is ``sluice.last-commits``, read
through a new catalog object. Nothing here deletes a manifest or a data file.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyiceberg.exceptions import CommitFailedException

from spark_jobs.commit.swap import Swap, send
from spark_jobs.lake.catalog import released
from spark_jobs.lake.catalog_errors import refused_commit, staging
from spark_jobs.lake.tables import load_table, progress_of, snapshot_of
from spark_jobs.protocol.errors import CommitStateUnknown, SluiceError, fault, first_line
from spark_jobs.protocol.fail_points import FailPoints
from spark_jobs.protocol.progress import Progress
from spark_jobs.schema.additions import refuse_newer_format

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from spark_jobs.storage.create_only import CreateOnlyStore

MAX_CONFLICTS = 20
FIRST_PAUSE_SECONDS = 0.02
LONGEST_PAUSE_SECONDS = 1.0
# A gateway's 504 was seen to land 2 s later; what lands after these is settled by the next recovery.
READ_BACK_PAUSES_SECONDS: tuple[float, ...] = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit that is in the table.

    ``progress`` and ``metadata`` are the table's when that was established; ``retries`` how often another
    writer's commit came first.
    """

    snapshot_id: int
    progress: Progress
    metadata: TableMetadata
    retries: int


class CatalogAccess(Protocol):
    """What a commit needs of a job's connections."""

    @property
    def open_catalog(self) -> Callable[[], Catalog]:
        """Gives a new catalog object every time."""

    @property
    def state(self) -> CreateOnlyStore:
        """What lies under ``state:``."""

    @property
    def fail_points(self) -> FailPoints:
        """Where tests let it die."""


class Intent(Protocol):
    """What should land: plain values that become a swap on whatever the table is by then."""

    @property
    def identifier(self) -> str:
        """Name of the table."""

    @property
    def attempt(self) -> str:
        """The uuid by which the table knows whether it has landed."""

    @property
    def fail_point(self) -> str:
        """What places on the commit's way are called by."""

    def stage(self, table: Table, connections: CatalogAccess) -> Swap:
        """Write the manifests for the table just loaded; raise when the commit is wrong by now."""


def land(connections: CatalogAccess, intent: Intent) -> Committed:
    """Commit, or find that the attempt has landed already; return the commit that landed.

    While only main moves (compaction, another writer) the same files are staged again on the new main.
    Raises what ``stage`` raises, ``CommitStateUnknown`` when a swap was sent and cannot be found, and
    ``RetryableError`` when none was sent or each met another writer's commit.
    """
    fail_points = connections.fail_points
    retries = 0
    is_sent = False
    while True:
        failure: Exception | None = None
        with _loaded(connections, intent, is_sent=is_sent) as (catalog, table):
            if (landed := _landed(table, intent.attempt, retries)) is not None:
                return landed
            refuse_newer_format(table)
            if retries > MAX_CONFLICTS:
                raise fault(
                    "commit-crowded-out",
                    tries=MAX_CONFLICTS + 1,
                    table=intent.identifier,
                    attempt=intent.attempt,
                )
            with staging(table):
                swap = intent.stage(table, connections)
            fail_points.reach(f"{intent.fail_point}.before-swap")
            is_sent = True
            try:
                metadata = send(catalog, table, swap)
            except CommitFailedException:
                pass  # it may have landed all the same: the table that is loaded next tells
            except Exception as error:  # noqa: BLE001  (whatever it was, it may have landed)
                failure = error
            else:
                fail_points.reach(f"{intent.fail_point}.after-swap")
                return Committed(swap.snapshot_id, swap.progress, metadata, retries)
        if failure is not None:
            return _read_back(connections, intent, failure, retries)
        _pause(retries)
        retries += 1


@contextmanager
def _loaded(connections: CatalogAccess, intent: Intent, *, is_sent: bool) -> Iterator[tuple[Catalog, Table]]:
    """Give the table through a new catalog object; once a swap was sent, not to see it leaves it unknown."""
    with ExitStack() as stack:
        try:
            catalog = stack.enter_context(released(connections.open_catalog()))
            table = load_table(catalog, intent.identifier)
        except SluiceError as error:
            raise (_unknown(intent, error) if is_sent else error) from error
        if table is None:
            raise fault("table-gone.during-commit", table=intent.identifier)
        yield catalog, table


def _read_back(connections: CatalogAccess, intent: Intent, failure: Exception, retries: int) -> Committed:
    """Look for the attempt a few times; a catalog that is away is asked again like one that shows nothing.

    What is not seen then is unknown; a refusal is told as the one it is, and settled like all else.
    """
    is_seen = False
    for pause in READ_BACK_PAUSES_SECONDS:
        time.sleep(pause)
        with suppress(CommitStateUnknown), _loaded(connections, intent, is_sent=True) as (_, table):
            if (landed := _landed(table, intent.attempt, retries)) is not None:
                return landed
            is_seen = True
    told = refused_commit(failure, table=intent.identifier, attempt=intent.attempt) if is_seen else None
    raise (told or _unknown(intent, failure)) from failure


def _landed(table: Table, attempt: str, retries: int) -> Committed | None:
    progress = progress_of(table)
    if not progress.has_landed(attempt):
        return None
    # A catalog without history shows the newest snapshot only, which is or descends from the attempt's.
    snapshot_id = snapshot_of(table, attempt) or table.metadata.current_snapshot_id
    if snapshot_id is None:
        raise AssertionError("a loaded table has a snapshot")
    return Committed(snapshot_id, progress, table.metadata, retries)


def _pause(retries: int) -> None:
    longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2**retries)
    time.sleep(longest * random.uniform(0.5, 1.0))  # noqa: S311  (spreads competing writers, guards nothing)


def _unknown(intent: Intent, failure: Exception) -> SluiceError:
    return fault(
        "commit-state-unknown", why=first_line(failure), table=intent.identifier, attempt=intent.attempt
    )

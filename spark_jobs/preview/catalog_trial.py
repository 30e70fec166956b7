"""Tests on scratch tables what a catalog keeps and compares; leaves nothing behind.

A catalog's documents do not tell: each test makes the calls that commits make, and reads the answer back.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, fields
from threading import Barrier
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NamespaceNotEmptyError, NoSuchTableError
from pyiceberg.schema import Schema
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, SetPropertiesUpdate
from pyiceberg.types import LongType, NestedField

from spark_jobs.commit.swap import Swap, send, stage_append, stage_creation
from spark_jobs.commit.table_creation import TABLE_PROPERTIES, create_namespace
from spark_jobs.lake.catalog import catalog_error, released
from spark_jobs.lake.tables import delete_file
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.progress import Progress
from spark_jobs.storage.create_only import list_files
from spark_jobs.storage.paths import is_local, normalise_path

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

_SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))
# These are values of 5 kB: Hive's metastore cuts them off at 4,000 characters.
_OFFSETS = {partition: 10**9 + partition for partition in range(300)}
_PROGRESS = Progress("sluice-check", 0, _OFFSETS, starts=_OFFSETS).with_attempt("first")
_SUMMARY = {"sluice-check": "kept"}
_OTHERS_PROPERTY = "sluice-check.beside"
_WITHOUT_SNAPSHOT, _AT_ONCE = "_unborn", "_twins"
ROUNDS = 3  # of commits at once: a catalog that does not compare loses one in nearly every round


@dataclass(frozen=True, slots=True)
class Answers:
    """Results of a catalog's tests; commits need the first four."""

    keeps_properties: bool
    compares_main: bool
    compares_at_once: bool
    creates_once: bool
    compares_null: bool
    keeps_summaries: bool
    shows_history: bool

    def __str__(self) -> str:
        missing = [each.name.replace("_", " ") for each in fields(self) if not getattr(self, each.name)]
        return f"all but: {', '.join(missing)}" if missing else "all that is tested"


def refuse_unfit(answers: Answers, **where: object) -> None:
    """Raise ``ConfigError`` for a catalog that would lose commits."""
    if not answers.keeps_properties:
        raise fault("catalog-keeps-no-properties", **where)
    if not (answers.compares_main and answers.compares_at_once and answers.creates_once):
        raise fault("catalog-swaps-without-comparing", **where)


def try_catalog(open_catalog: Callable[[], Catalog], namespace: str) -> Answers:
    """Test the catalog on scratch tables in the namespace, which is created if it does not exist."""
    scratch = _Scratch(open_catalog, f"{namespace}.sluice_check_{uuid.uuid4().hex[:8]}")
    try:
        with released(open_catalog()) as catalog:
            is_new = not catalog.namespace_exists(namespace)
            create_namespace(catalog, scratch.name)
        try:
            return _answers(scratch)
        finally:
            scratch.remove()
            if is_new:
                with released(open_catalog()) as catalog, suppress(NamespaceNotEmptyError):
                    catalog.drop_namespace(namespace)
    except SluiceError:
        raise
    except Exception as error:
        raise catalog_error(error, "could not be tested on a scratch table", table=scratch.name) from error


@dataclass(frozen=True, slots=True)
class _Scratch:
    """The tables of a trial; every access is by a new catalog object."""

    open_catalog: Callable[[], Catalog]
    name: str
    begun: list[Table] = field(default_factory=list)

    def begin(self, suffix: str = "") -> tuple[Table, Swap]:
        """Stage a table that does not exist yet."""
        with released(self.open_catalog()) as catalog:
            creation = catalog.create_table_transaction(
                self.name + suffix, _SCHEMA, properties=TABLE_PROPERTIES
            )
            table, swap = stage_creation(creation, _PROGRESS)
            self.begun.append(table)
            return table, swap

    def load(self, suffix: str = "") -> Table:
        with released(self.open_catalog()) as catalog:
            return catalog.load_table(self.name + suffix)

    def is_accepted(self, table: Table, swap: Swap) -> bool:
        """Send the commit; a refusal may be any exception."""
        with released(self.open_catalog()) as catalog:
            try:
                send(catalog, table, swap)
            except Exception:  # noqa: BLE001  (each catalog and driver has its own)
                return False
        return True

    def remove(self) -> None:
        tables = [*self.begun]
        with released(self.open_catalog()) as catalog:
            for suffix in ("", _WITHOUT_SNAPSHOT, _AT_ONCE):
                with suppress(NoSuchTableError):
                    tables.append(catalog.load_table(self.name + suffix))
                    catalog.drop_table(self.name + suffix)
        for table in tables:
            _delete_files(table)


def _answers(scratch: _Scratch) -> Answers:
    with released(scratch.open_catalog()) as catalog:
        send(catalog, *scratch.begin())
    return Answers(
        keeps_properties=_keeps_properties(scratch),
        compares_main=_compares_main(scratch),
        compares_at_once=all(_compares_at_once(scratch, str(number)) for number in range(ROUNDS)),
        creates_once=_creates_once(scratch),
        compares_null=_compares_null(scratch),
        keeps_summaries=_keeps_summaries(scratch),
        shows_history=len(scratch.load().metadata.snapshots) > 1,
    )


def _keeps_properties(scratch: _Scratch) -> bool:
    """True if all properties of a commit are read back, which no catalog knows and some are long."""
    table = scratch.load()
    swap = stage_append(table, (), _PROGRESS.with_attempt("second"), {})
    return scratch.is_accepted(table, swap) and _is_shown(swap, scratch.load())


def _keeps_summaries(scratch: _Scratch) -> bool:
    table = scratch.load()
    is_accepted = scratch.is_accepted(table, stage_append(table, (), _PROGRESS, _SUMMARY))
    snapshot = scratch.load().current_snapshot()
    summary = snapshot.summary if snapshot else None
    return is_accepted and summary is not None and _SUMMARY.items() <= summary.additional_properties.items()


def _compares_main(scratch: _Scratch) -> bool:
    """True if a commit is refused that was staged before another one landed."""
    table = scratch.load()
    first, stale = (stage_append(table, (), _PROGRESS, {}) for _ in range(2))
    return scratch.is_accepted(table, first) and not scratch.is_accepted(table, stale)


def _compares_at_once(scratch: _Scratch, number: str) -> bool:
    """True if nothing that was accepted is lost, of two commits and another engine's at the same time.

    PyIceberg itself refuses what is stale when it begins, whether or not the catalog compares.
    """
    table = scratch.load()
    swaps = [stage_append(table, (), _PROGRESS, {}) for _ in range(2)]
    others = Swap(
        (AssertTableUUID(uuid=table.metadata.table_uuid),),
        (SetPropertiesUpdate(updates={_OTHERS_PROPERTY: number}),),
        snapshot_id=0,
        progress=_PROGRESS,
    )
    start = Barrier(3)

    def is_accepted(swap: Swap) -> bool:
        start.wait()
        return scratch.is_accepted(table, swap)

    with ThreadPoolExecutor(3) as threads:
        *accepted, has_set = threads.map(is_accepted, (*swaps, others))
    now = scratch.load()
    is_set = now.metadata.properties.get(_OTHERS_PROPERTY) == number
    landed = [swap for swap, accepted in zip(swaps, accepted, strict=True) if accepted]
    return all(_is_shown(swap, now) for swap in landed) and (is_set or not has_set)


def _creates_once(scratch: _Scratch) -> bool:
    """True if one of two creators at once creates the table, and a later one is refused."""
    begun = [scratch.begin(_AT_ONCE) for _ in range(2)]
    late = scratch.begin(_AT_ONCE)
    start = Barrier(2)

    def is_accepted(creation: tuple[Table, Swap]) -> bool:
        start.wait()
        return scratch.is_accepted(*creation)

    with ThreadPoolExecutor(2) as threads:
        accepted = list(threads.map(is_accepted, begun))
    is_late_refused = not scratch.is_accepted(*late)
    main = scratch.load(_AT_ONCE).metadata.current_snapshot_id
    created = [swap.snapshot_id for (_, swap), is_first in zip(begun, accepted, strict=True) if is_first]
    return created == [main] and is_late_refused


def _compares_null(scratch: _Scratch) -> bool:
    """True if a second first snapshot is refused; Sluice never depends on it."""
    with released(scratch.open_catalog()) as catalog:
        name = scratch.name + _WITHOUT_SNAPSHOT
        table = catalog.create_table(name, _SCHEMA, properties=TABLE_PROPERTIES)
    first, second = (_first_snapshot(table) for _ in range(2))
    return scratch.is_accepted(table, first) and not scratch.is_accepted(table, second)


def _first_snapshot(table: Table) -> Swap:
    """Return a snapshot of a table without one, compared with null, as no commit of Sluice is."""
    transaction = table.transaction()
    with transaction.update_snapshot().fast_append() as append:
        pass
    no_main = AssertRefSnapshotId.model_validate({"ref": MAIN_BRANCH, "snapshot-id": None})
    updates = transaction._updates  # noqa: SLF001  (see swap.py)
    return Swap((no_main,), updates, append.snapshot_id, _PROGRESS)


def _is_shown(swap: Swap, table: Table) -> bool:
    return swap.progress.to_properties().items() <= table.metadata.properties.items()


def _delete_files(table: Table) -> None:
    for file in list_files(table.location(), table.io.properties):
        delete_file(table, file.location)
    if is_local(table.location()):
        shutil.rmtree(normalise_path(table.location()), ignore_errors=True)

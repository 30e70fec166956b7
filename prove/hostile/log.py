"""Hostile logs: a dead run's log objects are truncated, overwritten or deleted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from prove.hostile.case import ADOPTED, Case, History, interrupt, repair, scenarios
from prove.workload import BATCH, REST, SQLITE, Workload
from spark_jobs.txlog.entries import PHASE_NUMBERS, Phase

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    Damage = Callable[[FileIO, str], object]

FOUND = "the dead run's commit is found, nothing is read again"
READ_AGAIN = "the range is read and committed again"
ON_REST = frozenset({"files-garbage", "files-truncated", "files-gone", "begin-gone", "landed-garbage"})


@dataclass(frozen=True, slots=True)
class Damaged:
    """A log object of ``phase`` of a run that died at ``point`` suffers ``damage``."""

    name: str
    title: str
    phase: Phase
    damage: Damage
    point: str = "drain.after-parquet-written"
    promise: str = ADOPTED
    may_read_again: tuple[int, ...] = (0,)

    def case(self) -> Case:
        """Return it as a hostile case."""
        return Case(
            self.name,
            self.title,
            self.promise,
            self._inject,
            catalogs=(SQLITE, REST) if self.name in ON_REST else (SQLITE,),
            may_read_again=self.may_read_again,
        )

    def _inject(self, workload: Workload) -> History:
        interrupt(workload, self.point)
        table = workload.lab.table()
        table_uuid = str(table.metadata.table_uuid)
        with workload.lab.connections() as connections:
            (dead,) = connections.txlog.unfinished(table_uuid, now_us=connections.now_us())
            root = connections.txlog.root
        name = f"{PHASE_NUMBERS[self.phase]}-{self.phase}.json"
        location = f"{root}/{table_uuid}/{dead.uuid}/{name}"
        assert table.io.new_input(location).exists(), f"there is no {name}"
        self.damage(table.io, location)
        history = repair(f"{name} says nothing", workload)
        # What is left of it is folded like any other attempt.
        workload.run("checkpoint")
        return history


def _truncate(storage: FileIO, location: str) -> None:
    with storage.new_input(location).open() as stream:
        left = stream.read()[:20]
    _overwrite(left, storage, location)


def _overwrite(content: bytes, storage: FileIO, location: str) -> None:
    with storage.new_output(location).create(overwrite=True) as stream:
        stream.write(content)


def _delete(storage: FileIO, location: str) -> None:
    storage.delete(location)


_garbage = partial(_overwrite, b"\x00\xff garbage")
_files = partial(Damaged, phase=Phase.PARQUET_WRITTEN, promise=READ_AGAIN, may_read_again=(BATCH,))
DAMAGED = (
    _files("files-truncated", "what names a dead run's files is cut short", damage=_truncate),
    _files("files-garbage", "what names a dead run's files is garbage", damage=_garbage),
    _files("files-gone", "what names a dead run's files is gone", damage=_delete),
    Damaged("begin-garbage", "a dead run's first object is garbage", Phase.OFFSET_COMMIT, _garbage),
    Damaged("begin-gone", "a dead run's first object is gone", Phase.OFFSET_COMMIT, _delete),
    Damaged(
        "place-gone",
        "what says where a dead run's half-written files are is gone",
        Phase.FLUSH_START,
        _delete,
        "drain.after-tasks",
        f"{READ_AGAIN}; the files are found by their names and swept",
        (BATCH,),
    ),
    Damaged(
        "landed-garbage",
        "what says that a dead run's commit landed is garbage",
        Phase.ICEBERG_SNAPSHOT_CREATED,
        _garbage,
        "drain.after-iceberg-snapshot-created",
        FOUND,
    ),
    Damaged(
        "landed-gone",
        "what says that a dead run's commit landed is gone",
        Phase.ICEBERG_SNAPSHOT_CREATED,
        _delete,
        "drain.after-iceberg-snapshot-created",
        FOUND,
    ),
)
SCENARIOS = scenarios("a damaged transaction log", (each.case() for each in DAMAGED), prefix="log/")

"""Hostile properties: a `sluice.*` property is set by hand while a dead run's files wait."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from prove.hostile.case import (
    ADOPTED,
    Case,
    History,
    change_table,
    expect_refusal,
    interrupt,
    repair,
    scenarios,
)
from prove.workload import REST, SQLITE, Workload
from spark_jobs.protocol.progress import (
    PROPERTY_ANCHOR,
    PROPERTY_OFFSETS,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table

NAMED = "a named error and no commit; put back, all goes on as if nothing had been"
ON_REST = frozenset({"offsets-set-forward", "offsets-set-back", "owed-forgotten"})


@dataclass(frozen=True, slots=True)
class ByHand:
    """A change of ``property_name`` after ``before`` was done; None removes it.

    When it ``is_noticed`` the next drain must say so, and it is put back.
    """

    name: str
    title: str
    property_name: str
    value: Callable[[str], str | None]
    is_noticed: bool = True
    before: Callable[[Workload], None] = interrupt
    was_read: bool = True

    def case(self) -> Case:
        """Return it as a hostile case."""
        promise = NAMED if self.is_noticed else ADOPTED
        catalogs = (SQLITE, REST) if self.name in ON_REST else (SQLITE,)
        return Case(self.name, self.title, promise, self._inject, catalogs)

    def _inject(self, workload: Workload) -> History:
        self.before(workload)
        ours = workload.lab.table().metadata.properties[self.property_name]
        theirs = self.value(ours)
        assert theirs != ours, "nothing is changed"
        self._set(workload, theirs)
        if not self.is_noticed:
            return repair("it was not needed", workload, was_read=self.was_read)
        ended = expect_refusal(workload, "damaged-progress")
        self._set(workload, ours)
        return repair(ended, workload, was_read=self.was_read)

    def _set(self, workload: Workload, value: str | None) -> None:
        def change(table: Table) -> None:
            with table.transaction() as transaction:
                if value is None:
                    transaction.remove_properties(self.property_name)
                else:
                    transaction.set_properties({self.property_name: value})

        change_table(workload, change)


def _replay(workload: Workload) -> None:
    workload.drain_batches()
    workload.run("replay 0:5-18")
    workload.produce_batch()
    workload.lab.kill_at("drain.after-parquet-written")


def _roll_back(workload: Workload) -> None:
    workload.drain_batches(2)
    workload.run("rollback")
    workload.lab.kill_at("drain.after-parquet-written")


def _leave_owing(workload: Workload) -> None:
    """Kill a run between its commit and the commit of its dead letters."""
    interrupt(workload, "drain.after-commit")


def _is(value: str | None) -> Callable[[str], str | None]:
    """Return this value regardless of the earlier one."""
    return lambda _ours: value


def _move(by: int, offsets: str) -> str:
    """Return the properties with partition 0's next offset changed."""
    document = json.loads(offsets)
    for generations in document.values():
        for partitions in generations.values():
            partitions["0"] += by
    return json.dumps(document)


def _later_epochs(ours: str) -> str:
    return json.dumps({p: [offset, epoch + 7] for p, (offset, epoch) in json.loads(ours).items()})


def _without_files(ours: str) -> str:
    return json.dumps({**json.loads(ours), "files": []})


BY_HAND = (
    ByHand("offsets-garbage", "`sluice.offsets` is garbage", PROPERTY_OFFSETS, _is("{garbage")),
    ByHand("offsets-set-back", "`sluice.offsets` set back", PROPERTY_OFFSETS, partial(_move, -10)),
    ByHand("offsets-set-forward", "`sluice.offsets` set forward", PROPERTY_OFFSETS, partial(_move, 5)),
    ByHand("commits-garbage", "`sluice.last-commits` is garbage", "sluice.last-commits", _is("null")),
    ByHand(
        "commits-emptied",
        "`sluice.last-commits` emptied before the last one was settled",
        "sluice.last-commits",
        _is("[]"),
        before=_leave_owing,
    ),
    ByHand("anchor-garbage", "`sluice.anchor` is garbage", PROPERTY_ANCHOR, _is("x")),
    ByHand(
        "anchor-unknown", "`sluice.anchor` names no snapshot", PROPERTY_ANCHOR, _is("12345"), is_noticed=False
    ),
    ByHand("anchor-gone", "`sluice.anchor` removed", PROPERTY_ANCHOR, _is(None), is_noticed=False),
    ByHand(
        "owed-garbage",
        "`sluice.pending-dead-letters` is garbage while some are owed",
        "sluice.pending-dead-letters",
        _is('{"files":1}'),
        before=_leave_owing,
    ),
    ByHand(
        "owed-forgotten",
        "`sluice.pending-dead-letters` emptied while some are owed",
        "sluice.pending-dead-letters",
        _is("null"),
        before=_leave_owing,
    ),
    ByHand(
        "owed-fewer",
        "`sluice.pending-dead-letters` loses its files",
        "sluice.pending-dead-letters",
        _without_files,
        before=_leave_owing,
    ),
    ByHand("epoch-garbage", "`sluice.replay-epoch` is garbage", "sluice.replay-epoch", _is("one")),
    ByHand(
        "epoch-set-back",
        "`sluice.replay-epoch` set back after a replay",
        "sluice.replay-epoch",
        _is("0"),
        before=_replay,
    ),
    ByHand("rollbacks-garbage", "`sluice.rollbacks` is garbage", "sluice.rollbacks", _is("[]")),
    ByHand(
        "rollbacks-set-back",
        "`sluice.rollbacks` set back after a rollback",
        "sluice.rollbacks",
        _is("0"),
        before=_roll_back,
    ),
    ByHand("rollbacks-set-forward", "`sluice.rollbacks` set forward", "sluice.rollbacks", _is("3")),
    ByHand(
        "topic-id-wrong", "`sluice.topic-id` is another's", "sluice.topic-id", _is("V1a7Tt0qQ9-x3d2Jm8bD2w")
    ),
    ByHand("topic-id-gone", "`sluice.topic-id` removed", "sluice.topic-id", _is(None)),
    ByHand("leaders-garbage", "`sluice.leader-epochs` is garbage", "sluice.leader-epochs", _is('{"0":1}')),
    ByHand(
        "leaders-to-come",
        "`sluice.leader-epochs` names epochs to come",
        "sluice.leader-epochs",
        _later_epochs,
        before=Workload.drain_and_produce,
        was_read=False,
    ),
    ByHand(
        "leaders-emptied",
        "`sluice.leader-epochs` emptied",
        "sluice.leader-epochs",
        _is("{}"),
        before=Workload.drain_and_produce,
        was_read=False,
    ),
)
SCENARIOS = scenarios(
    "a table's properties set by hand", (each.case() for each in BY_HAND), prefix="properties/"
)

"""Another engine compacts a table or gives it other columns or partitions while a dead run's files wait."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyiceberg.transforms import DayTransform
from pyiceberg.types import LongType, StringType

from prove.hostile.case import ADOPTED, Case, Told, changed, drained, interrupted, put_right
from prove.hostile.lake import expire
from prove.lab.new_lab import configure
from prove.lab.other_compaction import compact_by_hand
from prove.lab.pipeline_lab import PIPELINE, orders
from prove.stage import BATCH, REST, SQLITE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.table import Table

    from prove.scenario import Findings, Scenario
    from prove.stage import Play, Stage

GROUP = "a table changed in shape by others between a crash and the restart"
ROWS = 80  # of the two batches that are there before
VALUES: dict[str, list[Any]] = {
    name: [json.loads(order)[name] for order in orders(0, 40)] for name in ("id", "customer", "price")
}
RENAMED = {"price": "cost"}


@dataclass(frozen=True, slots=True)
class Reshaped(Case):
    """``differing`` rows are no longer what their records say, because another engine has changed them."""

    differing: int = 0

    def run(self, stage: Stage) -> Findings:
        """As every case; those rows are what an audit must find, and all that it may."""
        findings = Case.run(self, stage)
        return replace(findings, lost=abs(findings.lost - self.differing))


def hostile_columns() -> Iterator[Scenario]:
    """Every case, in the report's order."""
    for catalog in (SQLITE, REST):
        for case in CASES:
            if catalog == SQLITE or case.needs:
                yield replace(case, name=f"shape/{case.name}", catalog=catalog).scenario(GROUP)


def _compacted(play: Play) -> Told:
    for _ in range(3):
        drained(play)
    interrupted(play)
    compact_by_hand(play.lab)
    return put_right("its files had become fewer", play)


def _compacted_and_expired(play: Play) -> Told:
    for _ in range(3):
        drained(play)
    interrupted(play)
    compact_by_hand(play.lab)
    changed(play, expire)
    return put_right("its files had become fewer, its history had gone", play)


def _reshaped(change: Callable[[Table], object], told: str, play: Play) -> Told:
    """The rows of before have the values that they had, under whatever name."""
    interrupted(play)
    changed(play, change)
    done = put_right(told, play)
    rows = play.lab.rows()
    names = set(rows.column_names)
    for name, values in VALUES.items():
        there = names & {name, RENAMED.get(name)}
        assert not there or sorted(rows[there.pop()].to_pylist()) == sorted(2 * values), f"{name} is another"
    return done


def _widened(play: Play) -> Told:
    interrupted(play)
    changed(play, lambda table: table.update_schema().update_column("id", LongType()).commit())
    answer = play.lab.start().answer()
    assert answer.error == "column-clash", answer
    assert play.lab.drained() == 2 * BATCH, "the dead run's files were not committed"
    configure(play.lab, f"pipelines/{PIPELINE}", {"columns": {"id": "long"}})
    return put_right(f"they were committed, the run ended with {answer.error}", play)


_compacted_case = partial(Reshaped, promise=ADOPTED, needs=frozenset({"spark"}))
CASES = (
    _compacted_case("compacted", "compacted by another engine", happen=_compacted),
    _compacted_case(
        "compacted-and-expired",
        "compacted by another engine, all snapshots but the last expired",
        happen=_compacted_and_expired,
    ),
    Reshaped(
        "added",
        "a column added",
        ADOPTED,
        partial(
            _reshaped,
            lambda t: t.update_schema().add_column("note", StringType()).commit(),
            "it had one more",
        ),
    ),
    Reshaped(
        "renamed",
        "a column renamed",
        f"{ADOPTED}; later values come under the records' name for it, in a column of their own",
        partial(
            _reshaped,
            lambda t: t.update_schema().rename_column("price", RENAMED["price"]).commit(),
            "it had another name",
        ),
        differing=ROWS,
    ),
    Reshaped(
        "dropped",
        "a column dropped",
        f"{ADOPTED}; it comes again with later values, and the audit names the rows that have lost theirs",
        partial(
            _reshaped, lambda t: t.update_schema().delete_column("customer").commit(), "it was not there"
        ),
        differing=ROWS,
    ),
    Reshaped(
        "widened",
        "a declared column widened from int to long",
        "the dead run's files are committed, then a named error until it is declared so",
        _widened,
        settings={"columns": {"id": "int"}},
    ),
    Reshaped(
        "widened-partition",
        "a column that rows are partitioned by widened from int to long",
        "the dead run's files are committed, then a named error until it is declared so",
        _widened,
        settings={"columns": {"id": "int"}, "partition_by": ["id"]},
    ),
    Reshaped(
        "partitioned",
        "a partition field added",
        "files of the earlier partitioning are never committed: the range is read again, and partitioned so",
        partial(
            _reshaped,
            lambda t: t.update_spec().add_field("_kafka_timestamp", DayTransform()).commit(),
            "it was partitioned by day",
        ),
        may_read_again=(BATCH,),
    ),
)

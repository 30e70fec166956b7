"""Another engine compacts or reshapes a table while a dead run's files wait."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyiceberg.transforms import DayTransform
from pyiceberg.types import LongType, StringType

from prove.hostile.case import ADOPTED, Case, History, change_table, interrupt, repair, scenarios
from prove.hostile.lake import expire
from prove.lab.other_compaction import compact_by_hand
from prove.lab.pipeline_lab import PIPELINE, configure, orders
from prove.scenario import Findings
from prove.workload import BATCH, REST, SQLITE, Testbed, Workload

if TYPE_CHECKING:
    from pyiceberg.table import Table

ROWS = 80  # of the two batches that are there before
VALUES: dict[str, list[Any]] = {
    name: [json.loads(order)[name] for order in orders(0, 40)] for name in ("id", "customer", "price")
}
RENAMED = {"price": "cost"}


@dataclass(frozen=True, slots=True)
class Reshaped(Case):
    """A reshaped table; ``differing`` rows were changed by the other engine."""

    differing: int = 0

    def run(self, catalog: str, testbed: Testbed) -> Findings:
        """Run as every case; an audit must find exactly those rows."""
        findings = Case.run(self, catalog, testbed)
        return replace(findings, lost=abs(findings.lost - self.differing))


def _compact(workload: Workload, *, is_expired: bool = False) -> History:
    workload.drain_batches(3)
    interrupt(workload)
    compact_by_hand(workload.lab)
    if not is_expired:
        return repair("its files had become fewer", workload)
    change_table(workload, expire)
    return repair("its files had become fewer, its history had gone", workload)


def _reshape(change: Callable[[Table], object], history: str, workload: Workload) -> History:
    """Change the table's shape; earlier rows keep their values, under any name."""
    interrupt(workload)
    change_table(workload, change)
    done = repair(history, workload)
    rows = workload.lab.rows()
    names = set(rows.column_names)
    for name, values in VALUES.items():
        there = names & {name, RENAMED.get(name)}
        assert not there or sorted(rows[there.pop()].to_pylist()) == sorted(2 * values), f"{name} is another"
    return done


def _widen(workload: Workload) -> History:
    interrupt(workload)
    change_table(workload, lambda table: table.update_schema().update_column("id", LongType()).commit())
    answer = workload.lab.start().answer()
    assert answer.error == "column-clash", answer
    assert workload.lab.drained() == 2 * BATCH, "the dead run's files were not committed"
    configure(workload.lab, f"pipelines/{PIPELINE}", {"columns": {"id": "long"}})
    return repair(f"they were committed, the run ended with {answer.error}", workload)


_compacted_case = partial(Reshaped, promise=ADOPTED, catalogs=(SQLITE, REST), needs=frozenset({"spark"}))
CASES = (
    _compacted_case("compacted", "compacted by another engine", inject=_compact),
    _compacted_case(
        "compacted-and-expired",
        "compacted by another engine, all snapshots but the last expired",
        inject=partial(_compact, is_expired=True),
    ),
    Reshaped(
        "added",
        "a column added",
        ADOPTED,
        partial(
            _reshape,
            lambda t: t.update_schema().add_column("note", StringType()).commit(),
            "it had one more",
        ),
    ),
    Reshaped(
        "renamed",
        "a column renamed",
        f"{ADOPTED}; later values come under the records' name for it, in a column of their own",
        partial(
            _reshape,
            lambda t: t.update_schema().rename_column("price", RENAMED["price"]).commit(),
            "it had another name",
        ),
        differing=ROWS,
    ),
    Reshaped(
        "dropped",
        "a column dropped",
        f"{ADOPTED}; it comes again with later values, and the audit names the rows that have lost theirs",
        partial(_reshape, lambda t: t.update_schema().delete_column("customer").commit(), "it was not there"),
        differing=ROWS,
    ),
    Reshaped(
        "widened",
        "a declared column widened from int to long",
        "the dead run's files are committed, then a named error until it is declared so",
        _widen,
        settings={"columns": {"id": "int"}},
    ),
    Reshaped(
        "widened-partition",
        "a column that rows are partitioned by widened from int to long",
        "the dead run's files are committed, then a named error until it is declared so",
        _widen,
        settings={"columns": {"id": "int"}, "partition_by": ["id"]},
    ),
    Reshaped(
        "partitioned",
        "a partition field added",
        "files of the earlier partitioning are never committed: the range is read again, and partitioned so",
        partial(
            _reshape,
            lambda t: t.update_spec().add_field("_kafka_timestamp", DayTransform()).commit(),
            "it was partitioned by day",
        ),
        may_read_again=(BATCH,),
    ),
)
SCENARIOS = scenarios(
    "a table changed in shape by others between a crash and the restart", CASES, prefix="shape/"
)

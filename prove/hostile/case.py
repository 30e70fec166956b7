"""Hostile cases: a pipeline that was drained once meets external harm.

A case's ``inject`` brings the harm and repairs it; the ``History`` that it returns says how both went.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prove.checker import check
from prove.lab.brokers import Brokers, own_broker
from prove.lab.drain_process import Answer, DrainProcess
from prove.lab.kafka_server import unique_name
from prove.scenario import Findings, Scenario, scenario_on
from prove.workload import CATALOG_NAMES, SQLITE, Testbed, Workload
from spark_jobs.acts.act import skip
from spark_jobs.lake.catalog import close_catalog
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from spark_jobs.protocol.work import NoFailPoints

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

ADOPTED = "the dead run's files are committed, nothing is read again"


@dataclass(frozen=True, slots=True)
class History:
    """Result of a case; ``of_earlier`` counts records of generations before the audited one.

    ``orphans`` are files of the books that may be left to orphan removal.
    """

    happened: str
    read_again: int = 0
    recovery_seconds: float = 0.0
    of_earlier: int = 0
    orphans: int = 0


@dataclass(frozen=True, slots=True)
class Case:
    """A case; ``inject`` does harm, checks the next run's end, and repairs.

    ``settings`` are the pipeline's; ``needs`` are servers beside the catalog's.
    """

    name: str
    title: str
    promise: str
    inject: Callable[[Workload], History]
    catalogs: tuple[str, ...] = (SQLITE,)
    may_read_again: tuple[int, ...] = (0,)
    settings: Mapping[str, Any] = field(default_factory=dict)
    needs: frozenset[str] = frozenset()

    def run(self, catalog: str, testbed: Testbed) -> Findings:
        """Harm, repair, continue, check."""
        with testbed.workload(catalog, **self.settings) as workload:
            return judge(workload, self.inject(workload), self.may_read_again)


def scenarios(group: str, cases: Iterable[Case], *, prefix: str = "") -> list[Scenario]:
    """Return each case on each of its catalogs; names begin with ``prefix``."""
    cases = tuple(cases)
    return [
        scenario_on(
            f"{prefix}{case.name}",
            case.title,
            case.promise,
            partial(case.run, catalog),
            group=group,
            catalog=catalog,
            needs=case.needs,
        )
        for catalog in CATALOG_NAMES
        for case in cases
        if catalog in case.catalogs
    ]


def own_kafka_case(
    name: str,
    title: str,
    promise: str,
    inject: Callable[[Workload, Brokers], History],
    *,
    opened: Callable[[Path], AbstractContextManager[Brokers]] = own_broker,
    may_read_again: tuple[int, ...] = (0,),
) -> Scenario:
    """Return a case with its own Kafka: ``opened`` starts brokers in a folder."""

    def run(testbed: Testbed) -> Findings:
        with (
            opened(testbed.folder / unique_name("kafka")) as brokers,
            replace(testbed, kafka=brokers.bootstrap_servers).workload(SQLITE) as workload,
        ):
            return judge(workload, inject(workload, brokers), may_read_again)

    return scenario_on(name, title, promise, run, group="a hostile broker")


def judge(workload: Workload, history: History, may_read_again: tuple[int, ...] = (0,)) -> Findings:
    """Drain one more batch, and count the lake's contents."""
    workload.produce_batch()
    workload.run()
    counts = check(workload, of_earlier=history.of_earlier)
    return counts.findings(
        history.happened,
        left=counts.orphans,
        may_be_left=tuple(range(history.orphans + 1)),
        read_again=history.read_again,
        may_read_again=may_read_again,
        recovery_seconds=history.recovery_seconds,
    )


def interrupt(workload: Workload, point: str = "drain.after-parquet-written") -> None:
    """Commit one batch, and kill the next run, by default after it wrote its files."""
    workload.drain_and_produce()
    workload.lab.kill_at(point)


def expect_refusal(workload: Workload, *codes: str) -> str:
    """Run a drain that must end with one of these errors and move nothing; describe its end.

    Without ``codes`` any named error will do.
    """
    before = _main(workload)
    answer = workload.lab.start().answer()
    assert _main(workload) == before, "the table was committed to all the same"
    return describe_error(answer, codes)


def expect_refusal_awake(process: DrainProcess, *codes: str) -> str:
    """Continue a stopped drain that must end with one of these errors; describe its end."""
    process.go_on()
    return describe_error(process.answer(), codes)


def repair(
    happened: str,
    workload: Workload,
    *,
    was_read: bool = True,
    of_earlier: int = 0,
    clock_seconds: int = 0,
) -> History:
    """Run a drain that must end well; return what it adopted, found and committed.

    ``was_read``: its range had been read before.
    """
    began = time.monotonic()
    answer = workload.lab.start_with(NoFailPoints(), clock_seconds=clock_seconds).answer()
    seconds = time.monotonic() - began
    assert answer.error is None, answer.message
    history = str(replace(answer.repairs, swept=0))
    read_again = answer.records_read if was_read else 0
    return History(f"{happened}; then {history or 'nothing was left to do'}", read_again, seconds, of_earlier)


def skip_offsets(workload: Workload, partition: int, start: int, end: int, rows: int) -> None:
    """Skip offsets like an operator; this many of them would have become rows."""
    with workload.lab.connections() as connections:
        ranges = OffsetRanges((OffsetRange(partition, start, end),))
        skip(workload.lab.pipeline, connections, ranges, reason="Kafka lost them")
    workload.contents.rows -= rows


@contextmanager
def other_engine(workload: Workload) -> Iterator[Catalog]:
    """Open the catalog as another program does."""
    with workload.lab.connections() as connections:
        catalog = connections.open_catalog()
        try:
            yield catalog
        finally:
            close_catalog(catalog)


def change_table(workload: Workload, change: Callable[[Table], object]) -> None:
    """Change the pipeline's table by another engine."""
    with other_engine(workload) as catalog:
        change(catalog.load_table(workload.lab.pipeline.table))


def _main(workload: Workload) -> int | None:
    """Return the table's snapshot, or None without a table."""
    with other_engine(workload) as catalog:
        name = workload.lab.pipeline.table
        if not catalog.table_exists(name):
            return None
        return catalog.load_table(name).metadata.current_snapshot_id


def describe_error(answer: Answer, codes: tuple[str, ...]) -> str:
    """Describe the end by one of these errors, or by any named one without codes."""
    assert answer.error is not None, f"it ended well, with {answer.repairs.committed} batches"
    assert not codes or answer.error in codes, f"it ended with {answer.message}"
    assert "\n" not in answer.message, answer.message
    return f"the run ended with {answer.error}"

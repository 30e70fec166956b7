"""Quality gates before the commit: written files are evaluated, and failing ones are not committed.

Nothing here commits, deletes or decides for good: a batch that fails a gate is held, with its files, for an
operator.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.config.suites import OnFailure, Suite
from spark_jobs.connections.connect import load_fresh
from spark_jobs.drain.batch_run import BatchRun
from spark_jobs.drain.mirror_fold import table_of
from spark_jobs.protocol.batch import Written
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.work import Settler
from spark_jobs.quality.check import rows_of_files
from spark_jobs.quality.judge import columns_of, judge
from spark_jobs.quality.results import SuiteResult
from spark_jobs.schema.column_source import fitted
from spark_jobs.txlog.entries import Held

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """The result of a batch's gates.

    ``failed`` are the suites that were not met. ``rejected`` says, by partition and offset, why a row is to
    be a dead letter, for the suites that are configured so.
    """

    failed: tuple[SuiteResult, ...] = ()
    rejected: Mapping[int, Mapping[int, str]] | None = None

    @property
    def story(self) -> str:
        """The problems, in one line."""
        return "; ".join(result.story for result in self.failed)


def judge_written(run: BatchRun, written: Written) -> GateVerdict:
    """Evaluate the rows that a batch's tasks wrote by each of the pipeline's gates.

    Raises ``ConfigError`` (``quality-not-judged``) when an expectation cannot be judged at all: then nothing
    is held and nothing committed, and the range is read again once the suite is right.
    """
    suites = run.pipeline.gates
    table = table_of(run)
    judged = columns_of(suites, table.schema())
    rows: pa.Table = run.pipeline.layout.judged(run, table, written, judged)
    failed = []
    rejected: defaultdict[int, dict[int, str]] = defaultdict(dict)
    for suite in suites:
        judgement = judge(suite, rows, table.schema())
        if judgement.result.is_met:
            continue
        _refuse_errors(run, suite, judgement.result)
        failed.append(judgement.result)
        for partition, reasons in judgement.rejected.items():
            rejected[partition] = {**reasons, **rejected[partition]}
    return GateVerdict(tuple(failed), dict(rejected))


def can_reject(run: BatchRun, verdict: GateVerdict) -> bool:
    """True if rejecting rows may suffice: every failed suite sends its rows to the dead letters."""
    ways = {suite.name: suite.on_failure for suite in run.pipeline.gates}
    are_dead_letters = all(ways[result.suite] is OnFailure.DEAD_LETTERS for result in verdict.failed)
    return bool(verdict.rejected) and are_dead_letters


def log_held(run: BatchRun, verdict: GateVerdict) -> None:
    """Log the reason before the files are logged, so that it is visible wherever they are.

    What no drain goes on with is not held: raises ``BatchHeld`` (``replay-held``), the table is as it was.
    """
    batch, connections = run.batch, run.connections
    if batch.kind.settler is not Settler.DRAIN:
        raise fault(
            "replay-held",
            kind=batch.kind,
            why=verdict.story,
            pipeline=run.pipeline.name,
            batch=batch.batch_id,
            ranges=batch.ranges,
        )
    names = ", ".join(result.suite for result in verdict.failed)
    failed = tuple(result.to_json() for result in verdict.failed)
    run.log(Held(names, failed, connections.run_id, connections.now_us()))


def held_error(run: BatchRun, verdict: GateVerdict) -> SluiceError:
    """Return the error of the drain that failed the gate, once the log has the batch's files."""
    batch = run.batch
    return fault(
        "batch-held",
        why=verdict.story,
        pipeline=run.pipeline.name,
        batch=batch.batch_id,
        attempt=batch.attempt,
        ranges=batch.ranges,
    )


def rows_written(run: BatchRun, table: Table, written: Written, columns: Sequence[str]) -> pa.Table:
    """Return the rows of all tables in the pipeline's own columns."""
    rows = rows_of_files(table, written.data_files, columns)
    parts = [rows]
    for name, files in written.routed_files.items():
        routed = load_fresh(run.connections, name) or run.tables.routed[name]
        existing = [column for column in columns if column in routed.schema().column_names]
        parts.append(fitted(rows_of_files(routed, files, existing), rows.schema))
    return pa.concat_tables(parts)


def _refuse_errors(run: BatchRun, suite: Suite, result: SuiteResult) -> None:
    broken = next((each for each in result.failed if each.error is not None), None)
    if broken is not None:
        raise fault(
            "quality-not-judged",
            expectation=broken.expectation,
            why=broken.error,
            pipeline=run.pipeline.name,
            suite=suite.name,
            batch=run.batch.batch_id,
        )

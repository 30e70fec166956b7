"""Audit before publish: the written files of a batch are judged, and what fails is not committed.

Nothing here commits, deletes or decides for good: a batch that fails a gate is held, with its files, for an
operator. One that would send too much to the dead letters stops its pipeline: a format that changed makes
every record a dead letter, each is kept, and the table would stand still unnoticed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.config.suites import OnFailure, Suite
from spark_jobs.connections.connect import PipelineTables, load_fresh, tables_as_one
from spark_jobs.drain.batch_run import BatchRun
from spark_jobs.drain.mirror_fold import may_stop, stop_at_bad_changes, table_of
from spark_jobs.drain.write_splits import verify_letters, verify_offsets
from spark_jobs.lake.record_offsets import dead_letter_offsets, offsets_in_files, routed_rows
from spark_jobs.lake.row_filters import offsets_in
from spark_jobs.protocol.batch import Written
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.work import Check, Settler
from spark_jobs.quality.check import rows_of_files
from spark_jobs.quality.judge import columns_of, judge
from spark_jobs.quality.results import SuiteResult
from spark_jobs.schema.column_source import fitted
from spark_jobs.schema.iceberg_types import OFFSET, PARTITION
from spark_jobs.storage.errors import storage_error
from spark_jobs.txlog.entries import Held

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyiceberg.table import Table


# A few bad records of a small batch are a large share of it, and no change of format.
FEWEST_DEAD_LETTERS = 10
_OF_LETTERS = [PARTITION, OFFSET, "phase", "field", "error"]


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """How a batch did at its gates.

    ``failed`` are the suites that were not met. ``rejected`` says, by partition and offset, why a row is to
    be a dead letter, for the suites that are configured so.
    """

    failed: tuple[SuiteResult, ...] = ()
    rejected: Mapping[int, Mapping[int, str]] | None = None

    @property
    def story(self) -> str:
        """What is wrong, in one line."""
        return "; ".join(result.story for result in self.failed)


def judge_written(run: BatchRun, written: Written) -> GateVerdict:
    """Judge what the tasks of a batch wrote by each of the pipeline's gates.

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
    """Whether rejecting rows may be all that is needed: every failed suite sends rows to the dead letters."""
    ways = {suite.name: suite.on_failure for suite in run.pipeline.gates}
    are_dead_letters = all(ways[result.suite] is OnFailure.DEAD_LETTERS for result in verdict.failed)
    return bool(verdict.rejected) and are_dead_letters


def check(run: BatchRun, written: Written) -> None:
    """Raise where the batch may not be committed, by what its work has checked.

    Called before anything says that the files are complete, so that no recovery commits them either.
    """
    for each in run.batch.kind.checks:
        _CHECKS[each](run, written)


def log_held(run: BatchRun, verdict: GateVerdict) -> None:
    """Say why, before the files are known to the log: whoever sees them sees this too.

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
    """What the drain that met the gate ends with, once the log has the batch's files."""
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
    """The rows of all tables in the columns of the pipeline's own."""
    rows = rows_of_files(table, written.data_files, columns)
    parts = [rows]
    for name, files in written.routed_files.items():
        routed = load_fresh(run.connections, name) or run.tables.routed[name]
        there = [column for column in columns if column in routed.schema().column_names]
        parts.append(fitted(rows_of_files(routed, files, there), rows.schema))
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


def _stop_above_share(run: BatchRun, written: Written) -> None:
    """Raise ``BadRecord`` (``too-many-dead-letters``) when the batch's share of them is above the limit."""
    limit = run.pipeline.dead_letters.stop_above
    sums = written.balance
    if limit is None or sums.dead_letters < FEWEST_DEAD_LETTERS or sums.dead_letters <= limit * sums.records:
        return
    partition, (offset, why) = min(_first_dead_letters(run, written).items())
    raise fault(
        "too-many-dead-letters",
        refused=sums.dead_letters,
        records=sums.records,
        limit=limit,
        first=f"{partition}:{offset}",
        why=why,
        **run.where,
        ranges=run.batch.ranges,
    )


def _stop_at_dead_letters(run: BatchRun, written: Written) -> None:
    if written.balance.dead_letters and may_stop(run):
        stop_at_bad_changes(run, written.balance.dead_letters, _first_dead_letters(run, written))
    _stop_above_share(run, written)


def _first_dead_letters(run: BatchRun, written: Written) -> dict[int, tuple[int, str]]:
    """Return by partition the offset of the first one that was written; phase, column and error of it."""
    firsts: dict[int, dict[str, Any]] = {}
    for file in written.dead_letter_files:
        with run.tables.dead_letters.io.new_input(file.path).open() as stream:
            for rows in pq.ParquetFile(stream).iter_batches(columns=_OF_LETTERS):
                for partition in pc.unique(rows.column(PARTITION)).to_pylist():
                    own = rows.filter(pc.equal(rows.column(PARTITION), partition))
                    (first,) = own.sort_by(OFFSET).slice(0, 1).to_pylist()
                    firsts[partition] = min(first, firsts.get(partition, first), key=itemgetter(OFFSET))
    return {partition: (first[OFFSET], _told(first)) for partition, first in firsts.items()}


def _told(letter: Mapping[str, Any]) -> str:
    where = f"{letter['phase']}, column {letter['field']}" if letter["field"] else letter["phase"]
    return shorten(f"({where}), {letter['error']}", 200, placeholder=" …")


# What a replay would lose: rows and dead letters whose records Kafka no longer holds.
#
# Retention takes a log from its start, and plans see that. Compaction takes records out of its middle, and
# what is read there is a gap like a transaction's marker: only the tables still know that a record stood
# there.


SHOWN_OFFSETS = 3


def _refuse_loss(run: BatchRun, written: Written) -> None:
    """Raise ``OffsetsUnavailable`` (``replay-would-lose``) when offsets that are in the tables were not read.

    Where every offset of a partition's range holds a record, as in most topics, the tables are not asked, and
    none is where a person said that it may.
    """
    if run.may_lose:
        return
    gapped = [r for r in run.batch.ranges if written.balances[r.partition].gaps]
    tables = tables_as_one(run.connections, run.batch.table) if gapped else None
    if tables is None:
        return  # nothing can be lost, or the commit says that the table is gone
    try:
        held = {r: _held(run, r, tables) for r in gapped}
        lost = {r: np.setdiff1d(held[r], _written(r, tables.data, written)) for r in gapped}
    except OSError as error:
        raise storage_error(error, "reading the offsets to replace", table=run.batch.table) from error
    if any(len(offsets) for offsets in lost.values()):
        raise _would_lose(run, held, {r: offsets for r, offsets in lost.items() if len(offsets)})


def _held(run: BatchRun, r: OffsetRange, tables: PipelineTables) -> NDArray[np.int64]:
    table, generation = tables.data, run.batch.generation
    letters = dead_letter_offsets(table, tables.dead_letters, generation, r, run.connections.state)
    routed = (rows.column(OFFSET).to_numpy() for rows in routed_rows(table, tables.routed, r).values())
    return np.unique(np.concatenate([offsets_in(table, r, generation), letters, *routed]))


def _written(r: OffsetRange, table: Table, written: Written) -> NDArray[np.int64]:
    return offsets_in_files(table.io, written.every_file, r)


def _would_lose(
    run: BatchRun, held: dict[OffsetRange, NDArray[np.int64]], lost: dict[OffsetRange, NDArray[np.int64]]
) -> SluiceError:
    counts = ", ".join(
        f"{len(offsets):,} of {len(held[r]):,} of {r} (first {' '.join(map(str, offsets[:SHOWN_OFFSETS]))})"
        for r, offsets in lost.items()
    )
    return fault("replay-would-lose", counts=counts, table=run.batch.table, batch=run.batch.batch_id)


_CHECKS = {
    Check.OFFSETS: verify_offsets,
    Check.LETTERS: verify_letters,
    Check.LOSSES: _refuse_loss,
    Check.DEAD_LETTERS: _stop_at_dead_letters,
}

"""Reads and writes a batch's splits by tasks until nothing new is found; then sums and checks.

A batch that would send too much to the dead letters stops its pipeline: a format that changed makes every
record a dead letter, each is kept, and the table would stand still unnoticed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs import __version__
from spark_jobs.connections.connect import PipelineTables, tables_as_one
from spark_jobs.drain.batch_run import BatchRun, Tables
from spark_jobs.drain.mirror_fold import may_stop, stop_at_bad_changes
from spark_jobs.drain.split_task import SplitSource, SplitTask, run_split, table_target
from spark_jobs.drain.table_columns import add_routed_columns, evidence_of, with_columns_for
from spark_jobs.kafka.errors import figures_together
from spark_jobs.lake.record_offsets import dead_letter_offsets, offsets_in_files, routed_rows
from spark_jobs.lake.row_filters import offsets_in
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.batch import (
    Balance,
    OutcomeKind,
    SplitOutcome,
    Written,
    WrittenFile,
    add_ignored,
    unbalanced,
)
from spark_jobs.protocol.commit_summary import actor_summary, counts_summary, schemas_summary
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.offsets import OffsetRange, SchemaKey
from spark_jobs.protocol.source import check_identity
from spark_jobs.protocol.work import Check
from spark_jobs.records.reading_plan import MAX_ROUNDS, ReadingPlan
from spark_jobs.records.shape import Origin
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.evidence import MOST_SCHEMAS, Evidence
from spark_jobs.schema.iceberg_types import OFFSET, PARTITION
from spark_jobs.spark.tasks import run_on_spark
from spark_jobs.storage.errors import storage_error

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyiceberg.table import Table


Rejected = Mapping[int, Mapping[int, str]]


def read_and_write(run: BatchRun, rejected: Rejected | None = None) -> Written:
    """Run the splits; repeat those with new fields once the table has columns for them.

    With ``rejected`` they are run a second time, and what the first time wrote is stray.
    """
    tables, plan = run.tables, _plan(run, run.tables.data)
    waiting = {split.split_id: split for split in run.splits}
    done: list[SplitOutcome] = []
    has_strays = rejected is not None
    for _ in range(MAX_ROUNDS):
        work = partial(run_split, _task(run, plan, tables, rejected or {}))
        outcomes = run_on_spark(run.connections.spark(), work, list(waiting.values()), tag=run.batch.attempt)
        observed = [outcome for outcome in outcomes if outcome.kind is OutcomeKind.OBSERVED]
        done += [outcome for outcome in outcomes if outcome.kind is OutcomeKind.WRITTEN]
        has_strays = has_strays or bool(observed) or any(outcome.failed_tries for outcome in outcomes)
        if not observed:
            return add_up(done, has_strays=has_strays)
        waiting = {outcome.split_id: waiting[outcome.split_id] for outcome in observed}
        plan, tables = _learned(run, plan, tables, observed)
    raise fault(
        "endless-fields", rounds=MAX_ROUNDS, most=MAX_ROUNDS * MOST_SCHEMAS, pipeline=run.pipeline.name
    )


def _plan(run: BatchRun, table: Table) -> ReadingPlan:
    progress = progress_of(table)
    # As the batch was planned: another run may have drained more by now.
    spans = progress_of(run.tables.data).spans_with(run.batch)
    progress = replace(progress, generation=run.batch.generation, schema_spans=spans)
    schemas = run.connections.schemas(run.pipeline)
    return ReadingPlan(run.pipeline, schemas, table.schema(), progress, run.takes_all_but)


def _learned(
    run: BatchRun, plan: ReadingPlan, tables: Tables, observed: list[SplitOutcome]
) -> tuple[ReadingPlan, Tables]:
    """Return the plan and tables, with columns for what splits found."""
    own = tables.data

    def evolve(known: ReadingPlan, evidence: Evidence) -> ReadingPlan:
        nonlocal own
        own = with_columns_for(run, known, evidence)
        return _plan(run, own)

    if seen := [outcome for outcome in observed if outcome.evidence is not None]:
        plan = plan.learn(evidence_of(seen, plan.growth), evolve)
    routed = add_routed_columns(run.connections, own, tables.routed, observed)
    return plan, replace(tables, data=own, routed=routed)


def _task(run: BatchRun, plan: ReadingPlan, tables: Tables, rejected: Rejected) -> SplitTask:
    batch, connections = run.batch, run.connections
    origin = Origin(batch.topic, batch.generation, batch.ingested_at_us)
    return SplitTask(
        source=run.letters or SplitSource(connections.kafka, batch.topic, connections.task_memory_bytes),
        rows=plan.rows(origin, batch.batch_id, arrow_schema(tables.dead_letters.schema()), rejected),
        file_prefix=batch.attempt,
        data=table_target(tables.data),
        dead_letters=table_target(tables.dead_letters),
        fail_points=connections.fail_points,
        routed={name: table_target(each) for name, each in tables.routed.items()},
    )


# What the tasks of a batch wrote: added up, verified, and told to people in the snapshot's summary.


def add_up(outcomes: Sequence[SplitOutcome], *, has_strays: bool) -> Written:
    """Return the totals of a batch's tasks, with files ordered by partition and offset."""
    parts = [outcome.written for outcome in sorted(outcomes, key=lambda outcome: outcome.split_id)]
    balances: dict[int, Balance] = {}
    newest: dict[int, int] = {}
    cpu_us: Counter[str] = Counter()
    ignored: dict[str, int] = {}
    phases: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    routed: dict[str, tuple[WrittenFile, ...]] = {}
    unlisted: dict[str, int] = {}
    native_left: Counter[str] = Counter()
    for part in parts:
        ignored = add_ignored(ignored, part.ignored)
        phases.update(part.dead_letter_phases)
        reasons.update(part.filtered_reasons)
        unlisted = add_ignored(unlisted, part.unlisted)
        native_left.update(part.native_left)
        for table, files in part.routed_files.items():
            routed[table] = (*routed.get(table, ()), *files)
        cpu_us.update(part.cpu_us)
        for partition, balance in part.balances.items():
            balances[partition] = balances.get(partition, Balance()) + balance
        for partition, timestamp in part.max_timestamp_ms.items():
            newest[partition] = max(newest.get(partition, timestamp), timestamp)
    return Written(
        data_files=tuple(file for part in parts for file in part.data_files),
        dead_letter_files=tuple(file for part in parts for file in part.dead_letter_files),
        balances=balances,
        bytes_read=sum(part.bytes_read for part in parts),
        max_timestamp_ms=newest,
        cpu_us=dict(cpu_us),
        kafka=figures_together([part.kafka for part in parts]),
        ignored=ignored,
        dead_letter_phases=dict(phases),
        filtered_reasons=dict(reasons),
        routed_files=routed,
        unlisted=unlisted,
        native_left=dict(native_left),
        peak_task_rss_bytes=max(part.peak_task_rss_bytes for part in parts),
        has_strays=has_strays,
    )


def verify_offsets(run: BatchRun, written: Written) -> None:
    """Refuse a batch that does not count every offset, or whose source changed during reading."""
    _verify(run, written, unbalanced(run.batch.ranges, written.balances))
    source = run.connections.admin.source_state(run.batch.topic)
    check_identity(progress_of(run.tables.data), source, table=run.batch.table)


def verify_dead_letters(run: BatchRun, written: Written) -> None:
    """Refuse a batch that does not count every one of its dead letters."""
    letters = run.letters.places.counts if run.letters else {}
    off = {p: count - written.balances.get(p, Balance()).offsets for p, count in letters.items()}
    _verify(run, written, {partition: missing for partition, missing in off.items() if missing})


def _verify(run: BatchRun, written: Written, off: Mapping[int, int]) -> None:
    batch, sums = run.batch, written.balance
    counted = sums.rows, sums.dead_letters, sums.get("routed", 0)
    in_files = (
        _rows(written.data_files),
        _rows(written.dead_letter_files),
        sum(written.routed_rows.values()),
    )
    if off or in_files != counted:
        raise fault(
            "unbalanced",
            off=off,
            counted=counted,
            in_files=in_files,
            batch=batch.batch_id,
            ranges=batch.ranges,
        )


def summary_of(run: BatchRun, written: Written) -> dict[str, str]:
    """Return the snapshot's summary for people; no decision depends on it."""
    return {
        **counts_summary(
            run.batch,
            written.balances,
            bytes_read=written.bytes_read,
            kafka=written.kafka,
            ignored=written.ignored,
            phases=written.dead_letter_phases,
            reasons=written.filtered_reasons,
            routed=written.routed_rows,
            unlisted=written.unlisted,
            native_left=written.native_left,
            valid_through_ms=_valid_through_ms(run, written.max_timestamp_ms),
        ),
        **schemas_summary(_new_schemas(run)),
        **actor_summary(run.connections.actor, run.connections.run_id, version=__version__),
    }


def _new_schemas(run: BatchRun) -> dict[SchemaKey, str]:
    known = progress_of(run.tables.data).schemas
    learned = run.connections.schemas(run.pipeline).digests()
    return {key: digest for key, digest in learned.items() if key not in known}


def _valid_through_ms(run: BatchRun, max_timestamp_ms: Mapping[int, int]) -> int | None:
    progress = progress_of(run.tables.data)
    through_ms = valid_through_ms(
        next_offsets={**progress.next_offsets, **run.batch.ranges.ends},
        end_offsets={**run.source.end, **run.source.high},
        max_timestamp_ms=max_timestamp_ms,
        previous_ms=progress.last_drain.valid_through_ms if progress.last_drain else None,
        planned_at_ms=run.batch.ingested_at_us // 1000,
    )
    return run.batch.kind.new(through_ms)


def _rows(files: Sequence[WrittenFile]) -> int:
    return sum(file.rows for file in files)


def valid_through_ms(
    *,
    next_offsets: Mapping[int, int],
    end_offsets: Mapping[int, int],
    max_timestamp_ms: Mapping[int, int],
    previous_ms: int | None,
    planned_at_ms: int,
) -> int | None:
    """Return ms since the epoch up to which every record is in the table; None if unknown.

    The minimum over the partitions of ``end_offsets`` (high watermarks when the batch was planned): a
    partition read to its end counts as plan time, so an idle topic stays fresh; one with a backlog, or with
    records that an open transaction holds back, counts as its largest record time in this batch, or, when
    the batch has none of it, as the table's previous value.
    """
    times: list[int] = []
    for partition, end in end_offsets.items():
        if next_offsets.get(partition, 0) >= end:
            times.append(planned_at_ms)
        elif partition in max_timestamp_ms:
            times.append(min(max_timestamp_ms[partition], planned_at_ms))
        elif previous_ms is None:
            return None
        else:
            times.append(previous_ms)
    return max(min(times), previous_ms or 0) if times else previous_ms


def as_written(_run: BatchRun, written: Written, _again: object) -> Written:
    """Return the tasks' output unchanged: each record is an independent row."""
    return written


# What stops a batch before its commit.

# A few bad records of a small batch are a large share of it, and no change of format.
FEWEST_DEAD_LETTERS = 10
_OF_LETTERS = [PARTITION, OFFSET, "phase", "field", "error"]


def check(run: BatchRun, written: Written) -> None:
    """Raise if the batch must not be committed, by the checks of its kind of work.

    Called before anything says that the files are complete, so that no recovery commits them either.
    """
    for each in run.batch.kind.checks:
        _CHECKS[each](run, written)


def _stop_above_share(run: BatchRun, written: Written) -> None:
    """Raise ``BadRecord`` (``too-many-dead-letters``) if their share exceeds the limit."""
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
    """Return the first written dead letter by partition: offset, phase, column and error."""
    firsts: dict[int, dict[str, Any]] = {}
    for file in written.dead_letter_files:
        with run.tables.dead_letters.io.new_input(file.path).open() as stream:
            for rows in pq.ParquetFile(stream).iter_batches(columns=_OF_LETTERS):
                for partition in pc.unique(rows.column(PARTITION)).to_pylist():
                    own = rows.filter(pc.equal(rows.column(PARTITION), partition))
                    (first,) = own.sort_by(OFFSET).slice(0, 1).to_pylist()
                    firsts[partition] = min(first, firsts.get(partition, first), key=itemgetter(OFFSET))
    return {partition: (first[OFFSET], _describe(first)) for partition, first in firsts.items()}


def _describe(letter: Mapping[str, Any]) -> str:
    where = f"{letter['phase']}, column {letter['field']}" if letter["field"] else letter["phase"]
    return shorten(f"({where}), {letter['error']}", 200, placeholder=" …")


# What a replay would lose: rows and dead letters whose records Kafka no longer holds.
#
# Retention takes a log from its start, and plans see that. Compaction takes records out of its middle, and
# what is read there is a gap like a transaction's marker: only the tables still know that a record stood
# there.


SHOWN_OFFSETS = 3


def _refuse_loss(run: BatchRun, written: Written) -> None:
    """Raise ``OffsetsUnavailable`` (``replay-would-lose``) if offsets in the tables were not read.

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
        lost = {r: np.setdiff1d(held[r], _written_offsets(r, tables.data, written)) for r in gapped}
    except OSError as error:
        raise storage_error(error, "reading the offsets to replace", table=run.batch.table) from error
    if any(len(offsets) for offsets in lost.values()):
        raise _would_lose(run, held, {r: offsets for r, offsets in lost.items() if len(offsets)})


def _held(run: BatchRun, r: OffsetRange, tables: PipelineTables) -> NDArray[np.int64]:
    table, generation = tables.data, run.batch.generation
    letters = dead_letter_offsets(table, tables.dead_letters, generation, r, run.connections.state)
    routed = (rows.column(OFFSET).to_numpy() for rows in routed_rows(table, tables.routed, r).values())
    return np.unique(np.concatenate([offsets_in(table, r, generation), letters, *routed]))


def _written_offsets(r: OffsetRange, table: Table, written: Written) -> NDArray[np.int64]:
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
    Check.LETTERS: verify_dead_letters,
    Check.LOSSES: _refuse_loss,
    Check.DEAD_LETTERS: _stop_at_dead_letters,
}

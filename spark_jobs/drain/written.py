"""What the tasks of a batch wrote: added up, verified, and told to people in the snapshot's summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs import __version__
from spark_jobs.drain.batch_run import BatchRun
from spark_jobs.drain.valid_through import valid_through_ms
from spark_jobs.kafka import statistics as kafka_statistics
from spark_jobs.protocol.batch import Balance, BatchKind, total, unbalanced
from spark_jobs.protocol.commit_summary import actor_summary, counts_summary
from spark_jobs.protocol.errors import CorruptLog
from spark_jobs.protocol.source import check_identity
from spark_jobs.protocol.written_file import WrittenFile
from spark_jobs.spark.outcomes import SplitOutcome

if TYPE_CHECKING:
    from spark_jobs.drain.batch_plan import Plan


@dataclass(frozen=True, slots=True)
class Written:
    """What the tasks of a batch wrote, added up."""

    balances: dict[int, Balance]
    data_files: tuple[WrittenFile, ...]
    dead_letter_files: tuple[WrittenFile, ...]
    bytes_read: int
    max_timestamp_ms: dict[int, int]
    cpu_us: dict[str, int]
    kafka: dict[str, int]
    peak_task_rss_bytes: int
    has_strays: bool

    @property
    def file_bytes(self) -> int:
        """Size of all files."""
        return sum(file.bytes for file in self.data_files + self.dead_letter_files)


def add_up(outcomes: Sequence[SplitOutcome], *, has_strays: bool) -> Written:
    """The batch's files in split order, which is partition and offset order."""
    balances: dict[int, Balance] = {}
    newest: dict[int, int] = {}
    cpu_us: Counter[str] = Counter()
    for outcome in outcomes:
        cpu_us.update(outcome.cpu_us)
        for partition, balance in outcome.balances.items():
            balances[partition] = balances.get(partition, Balance()) + balance
        for partition, timestamp in outcome.max_timestamp_ms.items():
            newest[partition] = max(newest.get(partition, timestamp), timestamp)
    ordered = sorted(outcomes, key=lambda outcome: outcome.split_id)
    return Written(
        balances=balances,
        data_files=tuple(file for outcome in ordered for file in outcome.data_files),
        dead_letter_files=tuple(file for outcome in ordered for file in outcome.dead_letter_files),
        bytes_read=sum(outcome.bytes_read for outcome in outcomes),
        max_timestamp_ms=newest,
        cpu_us=dict(cpu_us),
        kafka=kafka_statistics.add_up([outcome.kafka for outcome in outcomes]),
        peak_task_rss_bytes=max(outcome.peak_rss_bytes for outcome in outcomes),
        has_strays=has_strays,
    )


def verify(run: BatchRun, written: Written) -> None:
    """Refuse a batch that does not account for every offset, or whose source changed while it was read."""
    batch = run.plan.batch
    off = unbalanced(batch.ranges, written.balances)
    sums = total(written.balances.values())
    in_files = (_rows(written.data_files), _rows(written.dead_letter_files))
    if off or in_files != (sums.rows, sums.dead_letters):
        raise CorruptLog(
            f"the batch does not balance: offsets unaccounted for {off}; counted {sums.rows} rows and"
            f" {sums.dead_letters} dead letters, in the files are {in_files[0]} and {in_files[1]}",
            code="unbalanced",
            hint="Nothing was committed. Run it again; if it stays, it is a defect of Sluice: report it.",
            batch=batch.batch_id,
            ranges=batch.ranges,
        )
    source = run.connections.admin.source_state(batch.topic)
    check_identity(run.plan.progress, source, table=batch.table)


def summary_of(run: BatchRun, written: Written) -> dict[str, str]:
    """What the snapshot says to people; nothing reads it to decide what was done."""
    plan, connections = run.plan, run.connections
    return {
        **counts_summary(
            plan.batch,
            written.balances,
            bytes_read=written.bytes_read,
            kafka=written.kafka,
            valid_through_ms=_valid_through_ms(plan, written),
        ),
        **actor_summary(connections.actor, connections.run_id, version=__version__),
    }


def _valid_through_ms(plan: Plan, written: Written) -> int | None:
    """None for a replay: it says nothing about how far the table is."""
    if plan.batch.kind is BatchKind.REPLAY:
        return None
    last = plan.progress.last_drain
    return valid_through_ms(
        next_offsets={**plan.progress.next_offsets, **plan.batch.ranges.ends},
        end_offsets=plan.source.end,
        max_timestamp_ms=written.max_timestamp_ms,
        previous_ms=last.valid_through_ms if last else None,
        planned_at_ms=plan.batch.ingested_at_us // 1000,
    )


def _rows(files: Sequence[WrittenFile]) -> int:
    return sum(file.rows for file in files)

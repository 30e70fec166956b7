"""What is before a record that stops a batch is committed, so that an operator can go on behind that record.

An error may say which record it was. A worker that is killed (a segmentation fault, memory) takes its outcome
with it: so halves are run, good ones are committed, and the record that dies alone is named.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from spark_jobs.commit.landing import Committed
from spark_jobs.drain.batch_run import BatchResult, BatchRun
from spark_jobs.drain.drain_batch import drain_batch
from spark_jobs.drain.planning import first_half, rest
from spark_jobs.protocol.batch import Batch
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.spark.tasks import is_crash

_log = logging.getLogger(__name__)


def drain_whole_or_halved(
    run: BatchRun, replan: Callable[[OffsetRanges], BatchRun]
) -> Iterator[tuple[BatchResult, Committed]]:
    """Commit the planned batch; where a record stops it, all of it that is before that one.

    Yields what was committed, one result normally. ``replan`` plans given ranges on the table as it is then.
    Raises ``BadRecord`` (``poison-record``) for a record whose task dies when it is read alone, and every
    kind of ``SluiceError`` as ``drain_batch``; one that a later look may not meet ends the batch alone.
    """
    try:
        yield from _drain_or_halve(run, replan)
    except SluiceError as error:
        if not error.before:
            raise
        yield from drain_whole_or_halved(replan(error.before), replan)
        if not error.is_retryable:
            raise


def _drain_or_halve(
    run: BatchRun, replan: Callable[[OffsetRanges], BatchRun]
) -> Iterator[tuple[BatchResult, Committed]]:
    suspects = run.batch.ranges
    batch = _drain_unless_it_dies(run)
    if batch is not None:
        yield batch
        return
    while suspects:
        tried = first_half(suspects)
        _log.warning("a task died in %s of %s: trying %s alone", suspects, run.batch.topic, tried)
        batch = _drain_unless_it_dies(replan(tried))
        if batch is None:
            suspects = tried
        else:
            yield batch
            suspects = rest(suspects, tried)


def _drain_unless_it_dies(run: BatchRun) -> tuple[BatchResult, Committed] | None:
    try:
        return drain_batch(run)
    except SluiceError as error:
        if not is_crash(error):
            raise
        if run.batch.ranges.records == 1:
            raise _poison(run.batch, error) from error
        return None


def _poison(batch: Batch, error: SluiceError) -> SluiceError:
    (record,) = (r for r in batch.ranges if len(r))
    return fault(
        "poison-record",
        at=str(record),
        pipeline=batch.pipeline,
        topic=batch.topic,
        partition=record.partition,
        offset=record.start,
        cause=error.message,
    )

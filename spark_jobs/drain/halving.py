"""A batch whose task died is drained in halves, until what is left to blame is one record.

A worker that is killed (a segmentation fault, memory) takes its outcome with it: nothing says which record it
was at. So halves are run, good ones are committed, and the record that dies alone is named.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.drain.batch_run import BatchResult
from spark_jobs.drain.drain_batch import drain_batch
from spark_jobs.drain.narrowing import first_half, rest
from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import BadRecord, SluiceError
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.spark.tasks import is_crash

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections
    from spark_jobs.drain.batch_plan import Plan

_log = logging.getLogger(__name__)


def drain_whole_or_halved(
    pipeline: PipelineConfig,
    connections: Connections,
    plan: Plan,
    replan: Callable[[OffsetRanges], Plan],
) -> Iterator[BatchResult]:
    """Commit the planned batch; when one of its tasks dies, all of it that is before the record to blame.

    Yields what was committed, one result normally. ``replan`` plans given ranges on the table as it is then.
    Raises ``BadRecord`` (``poison-record``) for a record whose task dies when it is read alone, and every
    kind of ``SluiceError`` as ``drain_batch``.
    """
    suspects = plan.batch.ranges
    batch = _drain_unless_it_dies(pipeline, connections, plan)
    if batch is not None:
        yield batch
        return
    while suspects:
        tried = first_half(suspects)
        _log.warning("a task died in %s of %s: trying %s alone", suspects, pipeline.topic, tried)
        batch = _drain_unless_it_dies(pipeline, connections, replan(tried))
        if batch is None:
            suspects = tried
        else:
            yield batch
            suspects = rest(suspects, tried)


def _drain_unless_it_dies(
    pipeline: PipelineConfig, connections: Connections, plan: Plan
) -> BatchResult | None:
    try:
        return drain_batch(pipeline, connections, plan)
    except SluiceError as error:
        if not is_crash(error):
            raise
        if plan.batch.ranges.records == 1:
            raise _poison(pipeline, plan.batch.ranges, error) from error
        return None


def _poison(pipeline: PipelineConfig, ranges: OffsetRanges, error: SluiceError) -> BadRecord:
    (record,) = (r for r in ranges if len(r))
    return BadRecord(
        f"the task that decodes record {record.partition}:{record.start} dies of it, every time",
        code="poison-record",
        hint=f"Look at the record with a Kafka tool, then leave it out:"
        f" {mends.act('skip', pipeline.name, str(record))}. What came before it is committed.",
        pipeline=pipeline.name,
        topic=pipeline.topic,
        partition=record.partition,
        offset=record.start,
        cause=error.message,
    )

"""What earlier runs left, settled before an act that fences it for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.tables import load_drained
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import BatchHeld, ConfigError
from spark_jobs.recovery.recover import recover

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections


def settle(pipeline: PipelineConfig, connections: Connections, *, then: str) -> None:
    """Settle unfinished batches of drains, before what is done ``then`` fences them.

    A batch that was verified whole may be the only copy of its records by now. Asks Kafka nothing. Raises
    ``BatchHeld`` and ``ConfigError`` (``paused``) for one that waits for an operator's word, and what
    recovery raises.
    """
    settled = recover(pipeline, connections)
    if settled.held:
        held = settled.held[0]
        raise BatchHeld(
            f"a batch that was read before waits: {held.sentence}",
            code="batch-held",
            hint=f"Look: {mends.command('held list', pipeline.name)}. Publish it or discard it, then {then}.",
            pipeline=pipeline.name,
            batch=held.batch.batch_id,
        )
    if settled.left and progress_of(load_drained(pipeline, connections)).paused is not None:
        raise ConfigError(
            "the pipeline is paused, and batches that were read before are not settled",
            code="paused",
            hint=f"{mends.act('resume', pipeline.name)}, let a drain settle them, then {then}.",
            pipeline=pipeline.name,
        )

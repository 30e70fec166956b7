"""Repartitions a table by ``partition_by`` for future writes; existing files do not change."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.acts.act import batch_of_act, land_act, settle, summary_of_act
from spark_jobs.commit.retype_commit import TableChange
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import load_drained
from spark_jobs.lake.tables import exchange_spec, progress_of
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.works.changes import REPARTITION
from spark_jobs.replay.replay import settle_left_replays
from spark_jobs.schema.declared import partition_spec, partition_terms

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.commit.swap import Change
    from spark_jobs.connections.connect import Connections
    from spark_jobs.protocol.progress import Progress


@dataclass(frozen=True, slots=True)
class Repartitioned:
    """The partition terms, as text, before and after."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    snapshot_id: int


def repartition(pipeline: PipelineConfig, connections: Connections, *, reason: str) -> Repartitioned:
    """Set the declared partitioning; compaction rewrites existing files over time.

    Beside live drains, whose batches in flight are read again. Raises ``ConfigError`` where it is declared so
    already or a term does not fit, ``BatchHeld`` while a batch waits for an operator, and what a commit does.
    """
    pipeline.layout.refuse("repartition", **pipeline.where)
    table = load_drained(pipeline, connections)
    before, after = _terms(pipeline, table)
    settle(pipeline, connections, then="repartition")
    settle_left_replays(pipeline, connections)

    def change(table: Table) -> tuple[Change, Progress]:
        _terms(pipeline, table)
        declared = partition_spec(table.schema(), pipeline.table_partition_by, table.spec())
        return partial(exchange_spec, table.schema(), table.spec(), declared), progress_of(table)

    batch = batch_of_act(pipeline.name, table, connections, REPARTITION)
    intent = TableChange(batch, change, summary_of_act(connections, reason))
    return Repartitioned(before, after, land_act(connections, table, intent, reason).snapshot_id)


def _terms(pipeline: PipelineConfig, table: Table) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the terms before and after; raises ``ConfigError`` if they are equal."""
    schema = table.schema()
    after = partition_terms(schema, partition_spec(schema, pipeline.table_partition_by, table.spec()))
    before = partition_terms(schema, table.spec())
    if after == before:
        raise fault("cannot-repartition.same", found=", ".join(before) or "nothing", **pipeline.where)
    return before, after

"""Where the lake ends and Kafka goes on: one loaded table, its offsets and what is beside it as one state.

Any state that the table ever had does: rows of its snapshot lie below its offsets, hot ones at or past them.
A look at both sides sees the lake first, then the topic, which a drain would go on from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING

from spark_jobs.commit.anchor import check_anchor
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import tables_as_one
from spark_jobs.hot.watermark import Epoch
from spark_jobs.kafka.log_cut import cut_below
from spark_jobs.lake.file_rows import NOTHING_OWED, Owed, scan_schema
from spark_jobs.lake.kept_letters import leaving
from spark_jobs.lake.record_offsets import as_read, owed_by, owed_to
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.source import SourceState, drain_refusal

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections
    from spark_jobs.protocol.progress import PendingDeadLetters, Progress
    from spark_jobs.storage.create_only import CreateOnlyStore


_NO_END = (1 << 63) - 1  # past every offset


@dataclass(frozen=True)
class Seam:
    """A table, its dead letters and those it routes rows to, by name.

    The others may be some commits ahead, never a replay or a rollback.
    """

    table: Table
    dead_letters: Table | None
    state: CreateOnlyStore
    routed: Mapping[str, Table] = field(default_factory=dict)

    @cached_property
    def progress(self) -> Progress:
        """What the table says of itself; its ``next_offsets`` are the seam."""
        return progress_of(self.table)

    @cached_property
    def columns(self) -> pa.Schema:
        """The table's columns as its scan gives them."""
        return scan_schema(self.table.scan())

    @cached_property
    def owed(self) -> Owed:
        """What makes the dead-letter table that of this very state.

        What the table owes it counts as come in, and what a debt replaces as gone; what is ahead is left out.
        """
        if self.dead_letters is None:
            return NOTHING_OWED
        return self._owed(self.pending, self.dead_letters)

    @cached_property
    def pending(self) -> PendingDeadLetters | None:
        """What the dead-letter table is owed until it is in."""
        return owed_by(self.table, self.dead_letters)

    def is_before(self, other: Seam) -> bool:
        """True if the other is a later state of the same table."""
        mine, its = self.table.metadata, other.table.metadata
        numbers = (getattr(each, "last_sequence_number", 0) for each in (mine, its))
        return mine.table_uuid == its.table_uuid and next(numbers) < next(numbers)

    def owed_to(self, name: str) -> Owed:
        """What makes a routed table that of this very state."""
        return self._owed(owed_to(self.table, name, self.routed[name]), self.routed[name])

    def _owed(self, pending: PendingDeadLetters | None, other: Table) -> Owed:
        replaced = () if pending is None else leaving(self.state, pending).ranges
        gone = (*replaced, *self._ahead(progress_of(other)))
        return as_read(pending, self.progress.generation, gone)

    def _ahead(self, other: Progress) -> Iterator[OffsetRange]:
        if other.generation != self.progress.generation:
            return
        for partition, offset in other.next_offsets.items():
            if offset > (seam := self.progress.next_offsets.get(partition, 0)):
                yield OffsetRange(partition, seam, _NO_END)


def load_seam(pipeline: PipelineConfig, connections: Connections) -> Seam:
    """Load all tables as one state. Raises ``ConfigError`` (``no-table-yet``) and as ``load_table``."""
    tables = tables_as_one(connections, pipeline.table)
    if tables is None:
        raise fault("no-table-yet", **pipeline.where)
    return Seam(tables.data, tables.dead_letters, connections.state, tables.routed)


@dataclass(frozen=True, slots=True)
class Looked:
    """What somebody saw who looks at all pipelines: the table, if it is a newer one, the topic, and when."""

    at: float
    seam: Seam | SluiceError | None
    source: SourceState | SluiceError


def look(pipeline: PipelineConfig, connections: Connections) -> tuple[Seam, Epoch, SourceState]:
    """Return what a drain would go on from.

    Raises ``ConfigError`` (``no-table-yet``, ``hot-needs-topic-ids``), and what planning a drain raises.
    """
    seam = load_seam(pipeline, connections)
    check_anchor(seam.table)
    progress, source = seam.progress, connections.admin.source_state(pipeline.topic)
    ask_leader = partial(cut_below, connections.kafka, progress, source)
    refusal = drain_refusal(progress, source, table=pipeline.table, ask_leader=ask_leader)
    if refusal is not None:
        raise refusal
    if source.topic_id is None or progress.topic_id is None:
        raise fault("hot-needs-topic-ids", pipeline=pipeline.name, topic=pipeline.topic)
    uuid = str(seam.table.metadata.table_uuid)
    return seam, Epoch(uuid, source.topic_id, progress.generation, progress.rollbacks), source

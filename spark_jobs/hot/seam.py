"""Where the lake ends and Kafka goes on: one loaded table, its offsets and its dead letters as one state.

Any state that the table ever had does: rows of its snapshot lie below its offsets, hot ones at or past them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysFalse, Not, Or
from pyiceberg.table import FileScanTask

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.tables import both_tables, no_table_yet
from spark_jobs.lake.data_files import to_data_file
from spark_jobs.lake.file_rows import Owed
from spark_jobs.lake.record_offsets import owed_by
from spark_jobs.lake.row_filters import is_in_range
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.offsets import OffsetRange

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections
    from spark_jobs.protocol.progress import PendingDeadLetters, Progress

_NO_END = (1 << 63) - 1  # past every offset


@dataclass(frozen=True)
class Seam:
    """A table and its dead letters; the latter may be some commits ahead, never a replay or a rollback."""

    table: Table
    dead_letters: Table | None

    @cached_property
    def progress(self) -> Progress:
        """What the table says of itself; its ``next_offsets`` are the seam."""
        return progress_of(self.table)

    @cached_property
    def owed(self) -> Owed:
        """What makes the dead-letter table that of this very state.

        What the table owes it counts as come in, and what a debt replaces as gone; what is ahead is left out.
        """
        pending = owed_by(self.table, self.dead_letters)
        gone = [is_in_range(r, self.progress.generation) for r in self._gone(pending)]
        staying: BooleanExpression = Not(Or(AlwaysFalse(), *gone) if gone else AlwaysFalse())
        if pending is None or self.dead_letters is None:
            return Owed(staying)
        metadata = self.dead_letters.metadata
        return Owed(staying, tuple(FileScanTask(to_data_file(file, metadata)) for file in pending.files))

    def _gone(self, pending: PendingDeadLetters | None) -> Iterator[OffsetRange]:
        if pending is not None and pending.replaces:
            yield from pending.ranges
        letters = None if self.dead_letters is None else progress_of(self.dead_letters)
        if letters is None or letters.generation != self.progress.generation:
            return
        for partition, offset in letters.next_offsets.items():
            if offset > (seam := self.progress.next_offsets.get(partition, 0)):
                yield OffsetRange(partition, seam, _NO_END)


def load_seam(pipeline: PipelineConfig, connections: Connections) -> Seam:
    """Load both tables as one state. Raises ``ConfigError`` (``no-table-yet``) and as ``load_table``."""
    table, dead_letters = both_tables(connections, pipeline.table)
    if table is None:
        raise no_table_yet(pipeline)
    return Seam(table, dead_letters)

"""What every phase of one batch shares: the plan, the connections, the clock of its steps, the log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol.batch import Balance
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.txlog.entries import Entry

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections
    from spark_jobs.drain.batch_plan import Plan


@dataclass(frozen=True, slots=True)
class BatchResult:
    """One committed batch; ``durations_ms`` by step, ``cpu_us`` of all tasks together by step."""

    batch_id: str
    attempt: str
    snapshot_id: int
    ranges: OffsetRanges
    balance: Balance
    bytes_read: int
    data_files: int
    file_bytes: int
    valid_through_ms: int | None
    durations_ms: dict[str, int]
    cpu_us: dict[str, int]
    peak_task_rss_bytes: int


class Steps:
    """Wall milliseconds by step."""

    def __init__(self) -> None:
        self.durations_ms: dict[str, int] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time one step."""
        started = time.monotonic()
        yield
        self.durations_ms[name] = round((time.monotonic() - started) * 1000)


@dataclass(frozen=True, slots=True)
class BatchRun:
    """One batch with its connections: what every phase needs."""

    pipeline: PipelineConfig
    connections: Connections
    plan: Plan
    steps: Steps = field(default_factory=Steps)

    @property
    def table_uuid(self) -> str:
        """That of the table the batch was planned for."""
        return str(self.plan.table.metadata.table_uuid)

    def log(self, entry: Entry) -> None:
        """Write one phase to the transaction log."""
        self.connections.txlog.append(self.table_uuid, self.plan.batch, entry)
        self.reach(f"after-{entry.phase.kebab}")

    def reach(self, place: str) -> None:
        """Name the place that the batch has reached: tests let it die there."""
        self.connections.fail_points.reach(f"{self.plan.batch.kind}.{place}")

"""A batch on its way: taken, not yet known to be in Kafka, and who is to be told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from spark_jobs.gateway.messages import Batch
from spark_jobs.gateway.words import Answer

Listener = Callable[[Answer], None]


@dataclass(slots=True, eq=False)
class Waiting:
    """``batch`` has no events while they lie on the disk alone."""

    batch: Batch
    sequence: int
    listeners: list[Listener] = field(default_factory=list)
    is_spooled: bool = False
    slow_down: bool = False

    @property
    def source(self) -> str:
        """Return whose it is."""
        return self.batch.source

    @property
    def key(self) -> tuple[str, int]:
        """Return what tells it from others of its slot."""
        return self.source, self.sequence

"""What follows Kafka, as those who answer know it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from spark_jobs.hot.prefix import Prefix
    from spark_jobs.hot.status import TailStatus
    from spark_jobs.hot.watermark import Watermark


class Tails(Protocol):
    """Pipelines that are followed; safe to ask from any thread."""

    def pin(
        self,
        pipeline: str,
        *,
        after: Mapping[int, int] | None = None,
        at: Watermark | None = None,
        patience_seconds: float = 10.0,
    ) -> Prefix:
        """Return what to answer from; raises as ``read_fresh``, and the pipeline's reason where it failed."""

    def close(self) -> None:
        """Follow nothing any more, and let nobody wait; what was pinned stays good."""

    def statuses(self) -> list[TailStatus]:
        """Return how far each pipeline is, in one order."""

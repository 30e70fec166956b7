"""What a process that follows pipelines says of each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_jobs.hot.watermark import Watermark
    from spark_jobs.protocol.errors import SluiceError


class State(StrEnum):
    """How far a pipeline is. All but the first and the last answer, exactly; ``live`` answers are fresh."""

    STARTING = "starting"  # the table was not seen yet
    CATCHING_UP = "catching-up"  # Kafka has more than is shown
    LIVE = "live"  # all that Kafka had a moment ago is shown
    FULL = "full"  # what is not drained takes all memory: nothing new comes in until it is
    BLOCKED = "blocked"  # a partition's end stands, for a reason; the others go on
    FAILED = "failed"  # no answer would be exact, for a reason


@dataclass(frozen=True, slots=True)
class TailStatus:
    """One pipeline at one moment.

    ``age_ms`` is how long ago Kafka had no more than is shown; ``is_ready`` stays true once it was live.
    """

    pipeline: str
    state: State
    watermark: Watermark | None = None
    hot_rows: int = 0
    size_bytes: int = 0
    age_ms: int | None = None
    is_ready: bool = False
    reason: SluiceError | None = None

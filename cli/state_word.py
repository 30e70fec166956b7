"""The one word ``status`` says about a pipeline, and what to type then. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_jobs.core.errors import SluiceError

STALLED_AFTER_FRESHNESS = 5  # times the freshness asked for: a run's start and one retry fit in
STALLED_AFTER_SECONDS = 300


class StateWord(StrEnum):
    """How a pipeline is; the last three need a person."""

    NEW = "new"
    CAUGHT_UP = "caught-up"
    BEHIND = "behind"
    STALLED = "stalled"
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def needs_person(self) -> bool:
        """Whether nothing will happen by itself."""
        return self in {StateWord.STALLED, StateWord.FAILED, StateWord.STOPPED}


@dataclass(frozen=True, slots=True)
class PipelineFacts:
    """What was seen of one pipeline. Times are milliseconds since the epoch.

    ``lag`` is None when the broker was not asked or did not answer; ``committed_at_ms`` is None while there
    is no table. ``error`` is what a drain would meet now. ``is_running`` is False only when Sluice's own
    embedded parts are meant and are not up; ``running_since_ms`` is None when it runs elsewhere, if at all.
    """

    pipeline: str
    topic: str
    table: str
    freshness_seconds: int
    now_ms: int
    is_running: bool
    running_since_ms: int | None = None
    lag: int | None = None
    committed_at_ms: int | None = None
    error: SluiceError | None = None


@dataclass(frozen=True, slots=True)
class PipelineState:
    """The word, since when (milliseconds since the epoch, None when unknown), why, and what to type."""

    word: StateWord
    since_ms: int | None
    reason: str
    next_step: str


def judge(facts: PipelineFacts) -> PipelineState:
    """Turn what was seen into one word."""
    if not facts.is_running:
        return PipelineState(StateWord.STOPPED, None, "the embedded broker is not up", "./sluice up")
    if facts.error is not None:
        return PipelineState(StateWord.FAILED, None, facts.error.message, facts.error.hint)
    if facts.lag == 0 and facts.committed_at_ms is not None:
        return PipelineState(StateWord.CAUGHT_UP, facts.committed_at_ms, "", "")
    # A pause while nothing ran is nobody's fault.
    since_ms = max(facts.committed_at_ms or 0, facts.running_since_ms or 0) or facts.now_ms
    quiet_seconds = (facts.now_ms - since_ms) / 1000
    if facts.lag and quiet_seconds > max(
        STALLED_AFTER_SECONDS, STALLED_AFTER_FRESHNESS * facts.freshness_seconds
    ):
        reason = f"records wait and nothing was committed for {quiet_seconds / 60:.0f} min"
        return PipelineState(StateWord.STALLED, since_ms, reason, f"./sluice drain {facts.pipeline}")
    if facts.committed_at_ms is None:
        return PipelineState(StateWord.NEW, None, "no table yet", f"./sluice preview {facts.pipeline}")
    return PipelineState(StateWord.BEHIND, facts.committed_at_ms, "", "")

"""State of a pipeline as ``status`` shows it, and the next command to type. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from spark_jobs.checks.check import spoken_duration, stalled_after_seconds
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.notices.notice import DRAIN, Failure
from spark_jobs.protocol import mends
from spark_jobs.protocol.batch import Pause
from spark_jobs.protocol.errors import SluiceError
from spark_jobs.protocol.source import held_back
from spark_jobs.recovery.decide import HeldBatch


class StateWord(StrEnum):
    """State of a pipeline; the last four need action."""

    NEW = "new"
    CAUGHT_UP = "caught-up"
    BEHIND = "behind"
    PAUSED = "paused"
    HELD = "held"
    STALLED = "stalled"
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def needs_person(self) -> bool:
        """True if an operator must act."""
        return self in {StateWord.HELD, StateWord.STALLED, StateWord.FAILED, StateWord.STOPPED}


@dataclass(frozen=True, slots=True)
class PipelineFacts:
    """Facts about one pipeline. Times are milliseconds since the epoch.

    ``lag`` is None when the broker was not asked or did not answer; ``undecided`` offsets beyond it are held
    back by an open transaction; ``waiting_since_ms`` is of the first record of the lag, None when it has no
    time; ``committed_at_ms`` is None while there is no table. ``error`` is what a drain would meet now,
    ``is_outdated``: rows are there that another configuration made.
    ``failures`` are what the last ones met, by work; ``held`` is the batch at which a drain would stop.
    ``is_running`` is False only when Sluice's own embedded parts are meant and are not up;
    ``running_since_ms`` is None when it runs elsewhere, if at all.
    """

    pipeline: PipelineConfig
    now_ms: int
    is_running: bool
    running_since_ms: int | None = None
    lag: int | None = None
    undecided: int = 0
    waiting_since_ms: int | None = None
    committed_at_ms: int | None = None
    error: SluiceError | None = None
    failures: Mapping[str, Failure] = field(default_factory=dict)
    held: HeldBatch | None = None
    paused: Pause | None = None
    is_outdated: bool = False

    @property
    def next_drain_ms(self) -> int | None:
        """Return the schedule's next tick (epoch ms), None without a schedule."""
        return self.pipeline.due_ms(self.now_ms)


@dataclass(frozen=True, slots=True)
class PipelineState:
    """State word, since when (epoch ms, None if unknown), reason, and next command."""

    word: StateWord
    since_ms: int | None
    reason: str
    next_step: str


def judge(facts: PipelineFacts) -> PipelineState:
    """Return the state of a pipeline from its facts."""
    if (blocked := _blocked(facts)) is not None:
        return blocked
    name = facts.pipeline.name
    reasons = [held_back(facts.undecided)] if facts.undecided else []
    reasons += (failure.sentence(work) for work, failure in facts.failures.items())
    hint = next((failure.hint for failure in facts.failures.values()), "")
    if facts.is_outdated:
        again = facts.pipeline.layout.read_again(name)
        reasons.append(f"the table has rows of an earlier configuration: {again} rewrites them")
        hint = hint or again
    if facts.lag == 0 and facts.committed_at_ms is not None and not facts.undecided:
        return PipelineState(StateWord.CAUGHT_UP, facts.committed_at_ms, "; ".join(reasons), hint)
    # What came after silence has waited since it came, and a pause while nothing ran is nobody's fault.
    waits_ms = max(facts.committed_at_ms or 0, facts.waiting_since_ms or 0)
    since_ms = max(waits_ms, facts.running_since_ms or 0) or facts.now_ms
    # What a schedule leaves for its next tick is not late yet.
    due_ms = facts.pipeline.due_ms(since_ms)
    quiet_seconds = (facts.now_ms - (since_ms if due_ms is None else due_ms)) / 1000
    if facts.lag and quiet_seconds > stalled_after_seconds(facts.pipeline.freshness_seconds):
        reason = f"records have waited for {spoken_duration(quiet_seconds)} and nothing was committed"
        reason = "; ".join([reason, *reasons])
        return PipelineState(StateWord.STALLED, since_ms, reason, hint or mends.command("drain", name))
    if facts.committed_at_ms is None:
        reason, hint = "; ".join(["no table yet", *reasons]), hint or mends.command("preview", name)
        return PipelineState(StateWord.NEW, None, reason, hint)
    return PipelineState(StateWord.BEHIND, min(waits_ms, facts.now_ms), "; ".join(reasons), hint)


def _blocked(facts: PipelineFacts) -> PipelineState | None:
    """Return the state that prevents commits now, or None."""
    if not facts.is_running:
        return PipelineState(StateWord.STOPPED, None, "the embedded broker is not running", "./sluice up")
    if facts.paused is not None:
        reason = f"paused by {facts.paused.actor}: {facts.paused.reason}"
        return PipelineState(StateWord.PAUSED, facts.paused.at_ms, reason, mends.resume(facts.pipeline.name))
    if facts.error is not None:
        return PipelineState(StateWord.FAILED, None, facts.error.message, facts.error.hint)
    if facts.held is not None:
        since_ms = facts.held.held_at_us // 1000 if facts.held.held_at_us is not None else None
        mend = mends.command("held list", facts.pipeline.name)
        return PipelineState(StateWord.HELD, since_ms, facts.held.sentence, mend)
    failed = facts.failures.get(DRAIN)
    if failed is not None and failed.is_standing:
        return PipelineState(StateWord.FAILED, failed.since_ms, failed.sentence(DRAIN), failed.hint)
    return None

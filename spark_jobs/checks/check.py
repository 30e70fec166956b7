"""A built-in check: its name, meaning, severity, limit and judge. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from spark_jobs.checks.facts import HealthFacts
from spark_jobs.protocol import mends
from spark_jobs.protocol.texts import records_wait
from spark_jobs.protocol.work import Layout

MINUTE_SECONDS = 60
DAY_SECONDS = 24 * 3600
# The period that checks of recent batches look at.
LATELY_SECONDS = DAY_SECONDS
# A run's start and one retry fit in, whatever the freshness.
STALLED_AFTER_FRESHNESS = 5
STALLED_AFTER_SECONDS = 300
# With a schedule a day's records may wait, so the drain gets an hour after its tick.
SCHEDULED_DRAIN_SECONDS = 3600.0


class Severity(StrEnum):
    """Severity of a failed check: ``error`` needs action now, ``warn`` needs attention."""

    ERROR = "error"
    WARN = "warn"
    OFF = "off"


class LimitKind(StrEnum):
    """The unit of a check's ``limit``."""

    DURATION = "duration"
    COUNT = "records"
    SHARE = "share"


@dataclass(frozen=True, slots=True)
class Case:
    """The input of a judge: the facts, and the pipeline's settings that it needs.

    ``limit`` is the configured one, in seconds, records or as a share; None means the check's default.
    ``due_ms`` returns when a scheduled drain should take records that wait since a moment; None without a
    schedule.
    """

    facts: HealthFacts
    pipeline: str
    topic: str
    freshness_seconds: int
    max_batch_records: int
    dead_letters_stop_above: float | None
    limit: float | None
    due_ms: Callable[[int], int | None]
    table: str = ""
    layout: Layout = field(default_factory=Layout)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a check: ``passed``, one line of ``fact``, and ``mend``, which fixes a failure.

    ``numbers`` are plotted over time, so their names are stable; durations are in seconds.
    """

    passed: bool
    fact: str
    numbers: dict[str, float] = field(default_factory=dict)
    mend: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One built-in check.

    ``name`` is stable: alerts, dashboards and the runbook's anchors contain it. ``place`` is its position on
    screens. ``meaning`` is one sentence that is true while the check passes. ``limit_text`` describes the
    limit. A pipeline has the check ``only_with`` that key or property of its settings; empty for all. A check
    with ``needs_no_kafka`` is judged even if topic or table cannot be read.
    """

    name: str
    place: int
    meaning: str
    severity: Severity
    judge: Callable[[Case], Verdict]
    limit_text: str = ""
    limit: LimitKind | None = None
    only_with: str = ""
    needs_no_kafka: bool = False

    @property
    def runbook(self) -> str:
        """The check's section of the runbook."""
        return f"docs/runbook.md#check-{self.name}"


def stalled_after_seconds(freshness_seconds: int) -> float:
    """Return the longest time without a commit while records wait."""
    return float(max(STALLED_AFTER_SECONDS, STALLED_AFTER_FRESHNESS * freshness_seconds))


def seconds_late(case: Case, since_ms: int) -> float:
    """Return how late records that wait since then are; with a schedule, counted from its next tick."""
    due_ms = case.due_ms(since_ms)
    return max(0.0, (case.facts.now_ms - (since_ms if due_ms is None else due_ms)) / 1000)


def drain_or_resume(case: Case) -> str:
    """Return the command that brings a table up to date: drain, or resume if the pipeline is paused."""
    is_paused = case.facts.table is not None and case.facts.table.paused is not None
    return mends.resume(case.pipeline) if is_paused else mends.command("drain", case.pipeline)


def no_table(waiting: int = 0) -> Verdict:
    """Return the verdict before the first batch creates the table: nothing is late."""
    return Verdict(passed=True, fact=f"no table yet, {records_wait(waiting)}" if waiting else "no table yet")


def spoken_duration(seconds: float) -> str:
    """Return a duration for people, in at most two units: ``45 s``, ``3 min``, ``2 h 5 min``, ``4 d 6 h``."""
    if seconds < MINUTE_SECONDS:
        return f"{seconds:.0f} s"
    minutes = round(seconds / MINUTE_SECONDS)
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    parts = [f"{number} {unit}" for number, unit in ((days, "d"), (hours, "h"), (minutes, "min")) if number]
    return " ".join(parts[:2])

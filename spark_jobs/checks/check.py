"""A built-in check: what holds while it passes, how bad its failure is, its limit, the judge. Pure."""

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
# What "lately" means to the checks that look back.
LATELY_SECONDS = DAY_SECONDS
# A run's start and one retry fit in, whatever the freshness.
STALLED_AFTER_FRESHNESS = 5
STALLED_AFTER_SECONDS = 300
# What a schedule leaves for later may be a day's records.
SCHEDULED_DRAIN_SECONDS = 3600.0


class Severity(StrEnum):
    """How bad a failed check is: ``error`` wants a person now, ``warn`` a look."""

    ERROR = "error"
    WARN = "warn"
    OFF = "off"


class LimitKind(StrEnum):
    """What a check's ``limit`` is written as."""

    DURATION = "duration"
    COUNT = "records"
    SHARE = "share"


@dataclass(frozen=True, slots=True)
class Case:
    """What a judge decides: the facts, and what the pipeline's configuration says of them.

    ``limit`` is the configured one, in seconds, records or as a share; None leaves it to the check.
    ``due_ms`` is when a schedule's drain should take what waits since a moment, None without a schedule.
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
    """Whether a check passes, the one line that says why, and ``mend``, what to type if it does not.

    ``numbers`` are plotted over time, so their names are stable; durations are in seconds.
    """

    passed: bool
    fact: str
    numbers: dict[str, float] = field(default_factory=dict)
    mend: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One built-in check.

    ``name`` is stable: alerts, dashboards and the runbook's anchors are made of it. ``place`` orders them for
    people. ``meaning`` is one sentence: what holds while it passes. ``limit_text`` tells of its limit. A
    pipeline has the check ``only_with`` that key or trait of its settings, if there is one. One that
    ``needs_no_kafka`` is judged whatever of topic and table could be looked at.
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
        """Where docs/OPERATIONS.md tells what to do."""
        return f"docs/OPERATIONS.md#check-{self.name}"


def stalled_after_seconds(freshness_seconds: int) -> float:
    """Return for how long nothing may be committed while records wait."""
    return float(max(STALLED_AFTER_SECONDS, STALLED_AFTER_FRESHNESS * freshness_seconds))


def seconds_late(case: Case, since_ms: int) -> float:
    """Return for how long what waits since then is late: at once, by a schedule from its next tick on."""
    due_ms = case.due_ms(since_ms)
    return max(0.0, (case.facts.now_ms - (since_ms if due_ms is None else due_ms)) / 1000)


def drain_or_resume(case: Case) -> str:
    """Return what brings a table up to date: a paused pipeline is resumed."""
    is_paused = case.facts.table is not None and case.facts.table.paused is not None
    return mends.resume(case.pipeline) if is_paused else mends.command("drain", case.pipeline)


def no_table(waiting: int = 0) -> Verdict:
    """Return the verdict on a table that its first batch has yet to make: nothing is late."""
    return Verdict(passed=True, fact=f"no table yet, {records_wait(waiting)}" if waiting else "no table yet")


def spoken_duration(seconds: float) -> str:
    """Return a duration as people say it, to two units: ``45 s``, ``3 min``, ``2 h 5 min``, ``4 d 6 h``."""
    if seconds < MINUTE_SECONDS:
        return f"{seconds:.0f} s"
    minutes = round(seconds / MINUTE_SECONDS)
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    parts = [f"{number} {unit}" for number, unit in ((days, "d"), (hours, "h"), (minutes, "min")) if number]
    return " ".join(parts[:2])

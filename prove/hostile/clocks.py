"""Clock jumps: one run's machine is a day ahead of or behind the others."""

from __future__ import annotations

import signal
from dataclasses import replace
from functools import partial
from typing import Any

from prove.hostile.case import ADOPTED, Case, History, interrupt, repair, scenarios
from prove.lab.signal_at import SignalAt
from prove.workload import BATCH, REST, SQLITE, Workload
from spark_jobs.protocol.work import NoFailPoints

DAY_SECONDS = 24 * 3600
AHEAD, BEHIND = DAY_SECONDS, -DAY_SECONDS
AGAIN = "the range is read again, what the dead run wrote is swept"
UPKEEP: dict[str, Any] = {"upkeep": {"compact_above": 5, "keep_snapshots": 2}}
WRITTEN, WRITING = "drain.after-parquet-written", "drain.after-tasks"


def _jump(jump: int, point: str, workload: Workload) -> History:
    interrupt(workload, point)
    return repair("its clock had jumped", workload, clock_seconds=jump)


def _die_ahead(point: str, workload: Workload) -> History:
    workload.drain_and_produce()
    died = workload.lab.start_with(SignalAt(point), clock_seconds=AHEAD).died_of()
    assert died == signal.SIGKILL, f"{point} was not reached"
    return repair("the clock was set back", workload)


def _close_alive(workload: Workload) -> History:
    """Test a run that is still alive although a clock a day ahead says otherwise."""
    workload.drain_and_produce()
    with workload.lab.stopped_at("split.after-chunk") as zombie:
        history = repair("its replacement a day ahead took it for dead", workload, clock_seconds=AHEAD)
        zombie.go_on()
        error = zombie.answer().error
    assert error == "offsets-moved", error
    return replace(history, happened=f"{history.happened}; it woke and ended with {error}")


def _tend_behind(workload: Workload) -> History:
    _drain_by(workload, 0, *[BEHIND] * 5)
    for kind in ("compaction", "snapshots", "checkpoint"):
        workload.run(kind)
    return History("drains by both clocks, then upkeep by the right one")


def _expire_ahead(workload: Workload) -> History:
    """Test an expiry that commits no snapshot: Java gives it its own time."""
    _drain_by(workload, *[AHEAD] * 5, 0)
    answer = workload.lab.start(work="snapshots").answer()
    assert answer.error == "upkeep-failed", answer
    assert "Invalid update timestamp" in answer.message, answer.message
    workload.run("checkpoint")
    return History(f"drains went on, an expiry ended with {answer.error}")


def _drain_by(workload: Workload, *jumps: int) -> None:
    for jump in jumps:
        workload.produce_batch()
        answer = workload.lab.start_with(NoFailPoints(), clock_seconds=jump).answer()
        assert answer.error is None, answer.message


def _ahead_of_catalog(workload: Workload) -> History:
    workload.drain_and_produce()
    answer = workload.lab.start_with(NoFailPoints(), clock_seconds=AHEAD).answer()
    assert answer.error == "request-refused", answer
    assert "Invalid update timestamp" in answer.message, answer.message
    return repair(f"the run ended with {answer.error}: the catalog refused the time", workload)


CASES = (
    Case("ahead/adopted", "the run after a crash is a day ahead", ADOPTED, partial(_jump, AHEAD, WRITTEN)),
    Case(
        "behind/adopted",
        "the run after a crash is a day behind",
        ADOPTED,
        partial(_jump, BEHIND, WRITTEN),
        (SQLITE, REST),
    ),
    Case(
        "ahead/swept",
        "the run after one that died writing is a day ahead",
        AGAIN,
        partial(_jump, AHEAD, WRITING),
        may_read_again=(BATCH,),
    ),
    Case(
        "behind/swept",
        "the run after one that died writing is a day behind",
        AGAIN,
        partial(_jump, BEHIND, WRITING),
        may_read_again=(BATCH,),
    ),
    Case(
        "back/adopted",
        "the run that died was a day ahead",
        ADOPTED,
        partial(_die_ahead, WRITTEN),
    ),
    Case(
        "back/swept",
        "the run that died writing was a day ahead",
        AGAIN,
        partial(_die_ahead, WRITING),
        may_read_again=(BATCH,),
    ),
    Case(
        "ahead/zombie",
        "a run that sleeps is closed by one a day ahead, and wakes",
        "it commits nothing, what it wrote is swept",
        _close_alive,
        may_read_again=(BATCH,),
    ),
    Case(
        "behind/upkeep",
        "upkeep of a table whose drains were a day behind",
        "drains and upkeep go on",
        _tend_behind,
        settings=UPKEEP,
        needs=frozenset({"spark"}),
    ),
    Case(
        "ahead/expiry",
        "expiry of a table whose drains were a day ahead",
        "drains go on; expiry is a named error until that day has come",
        _expire_ahead,
        settings=UPKEEP,
        needs=frozenset({"spark"}),
    ),
    Case(
        "ahead/refused",
        "a run is a day ahead of its catalog",
        "a named error with the catalog's reason and no commit; set right, its files are committed",
        _ahead_of_catalog,
        (REST,),
    ),
)
SCENARIOS = scenarios("a clock that jumps", CASES, prefix="clock/")

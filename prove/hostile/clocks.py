"""Clocks that jump: the machine of one run is a day ahead of the others', or a day behind."""

from __future__ import annotations

import signal
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from prove.hostile.case import ADOPTED, Case, Told, drained, interrupted, put_right
from prove.lab.clock import ClockJump
from prove.lab.signal_at import SignalAt
from prove.stage import BATCH, REST
from spark_jobs.protocol.fail_points import NoFailPoints

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prove.scenario import Scenario
    from prove.stage import Play

GROUP = "a clock that jumps"
DAY_SECONDS = 24 * 3600
AHEAD, BEHIND = ClockJump(DAY_SECONDS), ClockJump(-DAY_SECONDS)
AGAIN = "the range is read again, what the dead run wrote is swept"
UPKEEP: dict[str, Any] = {"upkeep": {"compact_above": 5, "keep_snapshots": 2}}
QUICK = frozenset({"behind/adopted"})


def clocks() -> Iterator[Scenario]:
    """Every case, in the report's order."""
    for case in CASES:
        is_quick = case.catalog == REST and case.name in QUICK
        yield replace(case, name=f"clock/{case.name}").scenario(GROUP, is_quick=is_quick)


def _adopted(jump: ClockJump, play: Play) -> Told:
    interrupted(play)
    return put_right("its clock had jumped", play, clock=jump)


def _swept(jump: ClockJump, play: Play) -> Told:
    drained(play)
    play.produce_batch()
    play.lab.kill_at("drain.after-tasks")
    return put_right("its clock had jumped", play, clock=jump)


def _died_ahead(point: str, play: Play) -> Told:
    drained(play)
    play.produce_batch()
    died = play.lab.start_struck(SignalAt(point), clock=AHEAD).died_of()
    assert died == signal.SIGKILL, f"{point} was not reached"
    return put_right("the clock was set back", play)


def _closed_alive(play: Play) -> Told:
    """By a clock a day ahead no run of before can be alive; this one is."""
    drained(play)
    play.produce_batch()
    with play.lab.stopped_at("split.after-chunk", once=str(play.folder / "slept")) as zombie:
        told = put_right("its replacement a day ahead took it for dead", play, clock=AHEAD)
        zombie.go_on()
        error = zombie.answer().error
    assert error == "offsets-moved", error
    return replace(told, happened=f"{told.happened}; it woke and ended with {error}")


def _upkeep_behind(play: Play) -> Told:
    _drained_by(play, ClockJump(), *[BEHIND] * 5)
    for kind in ("compaction", "snapshots", "checkpoint"):
        play.work(kind)
    return Told("drains by both clocks, then upkeep by the right one")


def _expiry_ahead(play: Play) -> Told:
    """It commits no snapshot, and Java gives such a commit the time that it has itself."""
    _drained_by(play, *[AHEAD] * 5, ClockJump())
    answer = play.lab.start(work="snapshots").answer()
    assert answer.error == "upkeep-failed", answer
    assert "Invalid update timestamp" in answer.message, answer.message
    play.work("checkpoint")
    return Told(f"drains went on, an expiry ended with {answer.error}")


def _drained_by(play: Play, *jumps: ClockJump) -> None:
    for jump in jumps:
        play.produce_batch()
        answer = play.lab.start_struck(NoFailPoints(), clock=jump).answer()
        assert answer.error is None, answer.message


def _ahead_of_catalog(play: Play) -> Told:
    drained(play)
    play.produce_batch()
    answer = play.lab.start_struck(NoFailPoints(), clock=AHEAD).answer()
    assert answer.error == "commit-state-unknown", answer
    assert "Invalid update timestamp" in answer.message, answer.message
    return put_right(f"the run ended with {answer.error}: the catalog refused the time", play)


CASES = (
    Case("ahead/adopted", "the run after a crash is a day ahead", ADOPTED, partial(_adopted, AHEAD)),
    Case("behind/adopted", "the run after a crash is a day behind", ADOPTED, partial(_adopted, BEHIND)),
    Case(
        "ahead/swept",
        "the run after one that died writing is a day ahead",
        AGAIN,
        partial(_swept, AHEAD),
        may_read_again=(BATCH,),
    ),
    Case(
        "behind/swept",
        "the run after one that died writing is a day behind",
        AGAIN,
        partial(_swept, BEHIND),
        may_read_again=(BATCH,),
    ),
    Case(
        "back/adopted",
        "the run that died was a day ahead",
        ADOPTED,
        partial(_died_ahead, "drain.after-parquet-written"),
    ),
    Case(
        "back/swept",
        "the run that died writing was a day ahead",
        AGAIN,
        partial(_died_ahead, "drain.after-tasks"),
        may_read_again=(BATCH,),
    ),
    Case(
        "ahead/zombie",
        "a run that sleeps is closed by one a day ahead, and wakes",
        "it commits nothing, what it wrote is swept",
        _closed_alive,
        may_read_again=(BATCH,),
    ),
    Case(
        "behind/upkeep",
        "upkeep of a table whose drains were a day behind",
        "drains and upkeep go on",
        _upkeep_behind,
        settings=UPKEEP,
        needs=frozenset({"spark"}),
    ),
    Case(
        "ahead/expiry",
        "expiry of a table whose drains were a day ahead",
        "drains go on; expiry is a named error until that day has come",
        _expiry_ahead,
        settings=UPKEEP,
        needs=frozenset({"spark"}),
    ),
    Case(
        "behind/adopted",
        "the run after a crash is a day behind",
        ADOPTED,
        partial(_adopted, BEHIND),
        catalog=REST,
    ),
    Case(
        "ahead/refused",
        "a run is a day ahead of its catalog",
        "a named error with the catalog's reason and no commit; set right, its files are committed",
        _ahead_of_catalog,
        catalog=REST,
    ),
)

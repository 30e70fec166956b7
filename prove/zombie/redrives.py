"""A redrive that sleeps during other work on its table, and then continues.

Whatever either is answered, each record is in one place in the end, and a redrive after both makes the rest
rows.
"""

from __future__ import annotations

import signal
from functools import partial

from prove.crash.redrive_jobs import FAILING, drain_failing
from prove.crash.restart import ENDINGS_OF_REPLACED
from prove.hostile.case import Case, History, scenarios
from prove.lab.other_compaction import compact_by_hand
from prove.workload import BATCH, REST, SQLITE, Workload

BEFORE, LANDED = "redrive.before-swap", "dead-letters.before-swap"
PLACES = {BEFORE: "before its commit", LANDED: "before its dead letters' commit"}
REFUSED = "redriven-since"


def _during_redrive(work: str, place: str, may_be_refused: str | None, workload: Workload) -> History:
    """Put the redrive to sleep, do the work, wake it, run the next tick and the rest of both."""
    drain_failing(workload)
    if work == "drain":
        workload.produce_batch()
    zombie = workload.lab.start(place, signal.SIGSTOP, once=str(workload.folder / "slept"), work="redrive")
    try:
        zombie.wait_until_stopped()
        code = None
        if work == "compaction":
            compact_by_hand(workload.lab)
        else:
            code = workload.lab.start(work=work).answer().named_error
        zombie.go_on()
        ending = zombie.answer().named_error
    finally:
        zombie.kill()
    assert code == may_be_refused, f"{work} ended with {code}"
    assert ending in ENDINGS_OF_REPLACED, f"it ended with {ending}"
    answers = [workload.lab.start(work=next_work).answer() for next_work in ("drain", "redrive")]
    assert [answer.error for answer in answers] == [None, None], answers
    read = sum(answer.records_read for answer in answers)
    return History(f"{work} ended with {code}, the redrive with {ending}", read)


def _case(name: str, title: str, work: str, place: str, *, refused: str | None = None, read: int = 0) -> Case:
    return Case(
        f"{name}/{place}",
        f"{title} while a redrive sleeps {PLACES[place]}",
        f"{'it is refused; ' if refused else ''}each record is in one place, its row or its dead letter",
        partial(_during_redrive, work, place, refused),
        catalogs=(SQLITE,) if work == "compaction" else (SQLITE, REST),
        may_read_again=(read,),
        settings=FAILING,
        needs=frozenset({"spark"} if work == "compaction" else ()),
    )


CASES = (
    *(_case("drain", "a drain", "drain", place) for place in PLACES),
    *(_case("redrive", "another redrive", "redrive", place) for place in PLACES),
    *(_case("replay", "a replay of some of its offsets", "replay 0:5-22", place) for place in PLACES),
    *(_case("compaction", "a compaction", "compaction", place) for place in PLACES),
    _case("rollback", "the last commit rolled back", "rollback", BEFORE, read=BATCH),
    _case("rollback", "a rollback of it", "rollback", LANDED, refused=REFUSED),
)
SCENARIOS = scenarios("something else beside a redrive", CASES, prefix="beside-redrive/")

"""A real ``serve``, queried throughout and killed: alone, with a drain, next to another one.

Each answer that comes whole holds exactly the records below its watermark.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial

from prove.hostile.case import Case, History, scenarios
from prove.lab.serve_process import serving
from prove.lab.steady_queries import query_throughout
from prove.workload import REST, SQLITE, Workload

EXACT = "every whole answer is exactly the records below its watermark; one server never says less"
_HOT = {"hot": True}
_KILLS = 4
_CRAFTED = 100_000
POINTS = ("commit.before-swap", "commit.after-swap", "dead-letters.before-swap", "dead-letters.after-swap")


def _killed(workload: Workload) -> History:
    """Kill it while it answers, drain and produce meanwhile, and restart it."""
    workload.drain_and_produce()
    with serving(workload.lab) as serve, query_throughout(workload.lab, by=serve.ask) as (asker, loop):
        for number in range(_KILLS):
            asker.ask_for_all()
            loop.wait_for(loop.done + 2)
            serve.kill()
            asker.expect_less()
            if number % 2:
                workload.run()
            serve.start()
            workload.produce_batch()
    assert asker.refused, "nobody asked while it was away"
    return History(f"{asker.answers} answers of {_KILLS + 1} servers, all exact")


def _killed_with_a_drain(point: str, workload: Workload) -> History:
    workload.drain_and_produce()
    with serving(workload.lab) as serve, query_throughout(workload.lab, by=serve.ask) as (asker, _):
        asker.ask_for_all()
        with workload.lab.stopped_at(point) as drain:
            asker.ask_for_all()
            serve.kill()
            drain.kill()
        asker.expect_less()
        serve.start()
        workload.produce_batch()
        asker.ask_for_all()
        workload.run()
        asker.ask_for_all()
    return History(f"{asker.answers} answers before both died and after it, all exact")


def _beside_each_other(workload: Workload) -> History:
    """Query two servers while a drain dies and is repeated; then kill one of them."""
    workload.drain_and_produce()
    lab = workload.lab
    with (
        serving(lab) as one,
        serving(lab) as other,
        query_throughout(lab, by=one.ask) as (stays, _),
        query_throughout(lab, by=other.ask) as (goes, _),
    ):
        stays.ask_for_all()
        goes.ask_for_all()
        lab.kill_at("commit.after-swap")
        workload.produce_batch()
        workload.run()
        goes.ask_for_all()
        other.kill()
        goes.expect_less()
        refused = dict(stays.refused)
        workload.produce_batch()
        stays.ask_for_all()
        assert stays.refused == refused, "the other one's death was noticed"
        other.start()
    return History(f"{stays.answers} and {goes.answers} answers, all exact")


def _crafted(workload: Workload) -> History:
    """Run in a separate process, which claims of missing bytes would end."""
    workload.drain_and_produce()
    command = [sys.executable, "-m", "prove.lab.crafted_parameters", str(_CRAFTED), "37"]
    read = subprocess.run(command, capture_output=True, text=True, check=False)
    assert read.returncode == 0, f"ended by {read.returncode}: {read.stderr[-500:]}"
    return History(f"{_CRAFTED:,} read, {int(read.stdout):,} of them not refused, none with others' bytes")


CASES = (
    Case("served/killed", f"serve is killed {_KILLS} times while it answers", EXACT, _killed, settings=_HOT),
    *(
        Case(
            f"served/killed-with-{point}",
            f"serve and a drain at {point} are killed together",
            EXACT,
            partial(_killed_with_a_drain, point),
            catalogs=(SQLITE, REST),
            settings=_HOT,
        )
        for point in POINTS
    ),
    Case(
        "served/crafted-parameters",
        f"{_CRAFTED:,} parameters of Flight SQL with lengths, offsets and types that are not theirs",
        "no byte of other memory is in an answer, and no process dies",
        _crafted,
    ),
    Case("served/two", "two serves beside each other", EXACT, _beside_each_other, settings=_HOT),
)
SCENARIOS = scenarios("answers of a serve over HTTP", CASES)

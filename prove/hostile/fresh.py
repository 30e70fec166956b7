"""Answers over Kafka and the lake while work on the table dies, each compared with the topic."""

from __future__ import annotations

from functools import partial

from prove.hostile.case import Case, History, scenarios
from prove.lab.fresh_oracle import checked
from prove.workload import NESSIE, REST, SQLITE, Workload

EXACT = "every record below the watermark once, before the restart and after it; an earlier watermark again"
# What readers may meet: files that nobody committed, rows whose dead letters have yet to come in, both in.
POINTS = ("commit.before-swap", "commit.after-swap", "dead-letters.before-swap", "dead-letters.after-swap")


def _drain_killed(point: str, workload: Workload) -> History:
    workload.drain_and_produce()
    return _kill_and_ask(workload, point, "drain")


def _replay_killed(point: str, workload: Workload) -> History:
    workload.drain_and_produce()
    workload.run()
    workload.produce_batch()
    return _kill_and_ask(workload, point, "replay 0:3-15")


def _kill_and_ask(workload: Workload, point: str, work: str) -> History:
    before = checked(workload.lab)
    workload.lab.kill_at(point, work=work)
    assert checked(workload.lab) == before, "the watermark moved while nothing came"
    workload.produce_batch()
    later = checked(workload.lab)
    assert checked(workload.lab, at=before) == before, "an earlier watermark is not the same records"
    workload.run(work)
    assert checked(workload.lab) == later, "what was done again moved the watermark"
    assert checked(workload.lab, at=before) == before, "an earlier watermark is not the same records"
    return History("asked six times around the death: exact")


CASES = (
    *(
        Case(
            f"fresh/drain-{point}",
            f"a drain dies at {point} while queries ask for all there is",
            EXACT,
            partial(_drain_killed, point),
            catalogs=(SQLITE, REST, NESSIE),
            settings={"hot": True},
        )
        for point in POINTS
    ),
    *(
        Case(
            f"fresh/replay-{point}",
            f"a replay dies at {point} while queries ask for all there is",
            EXACT,
            partial(_replay_killed, point),
            settings={"hot": True},
        )
        for point in ("replay.before-swap", "replay.after-swap", "dead-letters.before-swap")
    ),
)
SCENARIOS = scenarios("an answer with Kafka in it", CASES)

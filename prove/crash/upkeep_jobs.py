"""What needs a Spark server, struck: drains on it, and the kinds of upkeep."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from prove.crash.jobs import Job, at, drained_twice, later
from prove.crash.promises import ADOPTED, AGAIN, FOUND, TIDIED, TIDIED_ANYHOW

if TYPE_CHECKING:
    from prove.stage import Play

DAYS_SECONDS = 4 * 24 * 3600  # older than what orphan removal spares


def _many_small_files(play: Play) -> None:
    for _ in range(5):
        play.produce_batch()
        play.work()


def _after_dead_fold(play: Play) -> None:
    drained_twice(play)
    play.lab.kill_at("checkpoint.before-swap", work="checkpoint")
    play.work("checkpoint")
    left = play.lab.books_orphans()
    assert left, "the dead fold left no file"
    for path in left:
        os.utime(path, times=(time.time() - DAYS_SECONDS,) * 2)


DRAIN_ON_SPARK = Job(
    "drain-on-spark",
    "a drain on a Spark server",
    later,
    {
        **at(AGAIN, "drain.after-flush-start", "drain.after-tasks"),
        **at(ADOPTED, "commit.before-swap"),
        **at(FOUND, "dead-letters.before-swap"),
    },
    on_spark=True,
)
COMPACTION = Job(
    "compaction",
    "a compaction and its new anchor",
    _many_small_files,
    at(
        TIDIED,
        "compact.before-rewrite",
        "compact.after-rewrite",
        "act.before-swap",
        "act.after-swap",
        "compact.after-reanchor",
    ),
    TIDIED_ANYHOW,
    work="compaction",
    again=("compaction",),
    swap="act",
)
EXPIRY = Job(
    "expiry",
    "an expiry of snapshots",
    _many_small_files,
    at(TIDIED, "expire.after-reanchor", "expire.after-procedure"),
    TIDIED_ANYHOW,
    work="snapshots",
    again=("snapshots",),
    settings={"upkeep": {"keep_snapshots": 2}},
)
MANIFESTS = Job(
    "manifests",
    "a rewrite of manifests",
    _many_small_files,
    at(TIDIED, "manifests.after-procedure"),
    work="manifests",
    again=("manifests",),
)
ORPHANS = Job(
    "orphans",
    "the removal of a dead fold's file from the books",
    _after_dead_fold,
    at(TIDIED, "orphans.after-listing", "orphans.before-delete"),
    work="orphans",
    again=("orphans",),
)
SPARK_JOBS = (DRAIN_ON_SPARK, COMPACTION, EXPIRY, MANIFESTS, ORPHANS)

"""Jobs that need a Spark server: drains on it, and upkeep."""

from __future__ import annotations

from dataclasses import replace

from prove.crash import promises
from prove.crash.jobs import Job, at, drain_twice
from prove.lab.pipeline_lab import make_old
from prove.workload import Workload


def _write_many_small_files(workload: Workload) -> None:
    workload.drain_batches(5)


def _fold_until_killed(workload: Workload) -> None:
    drain_twice(workload)
    workload.lab.kill_at("checkpoint.before-swap", work="checkpoint")
    workload.run("checkpoint")
    left = workload.lab.books_orphans()
    assert left, "the dead fold left no file"
    make_old(left)


DRAIN_ON_SPARK = Job(
    "drain-on-spark",
    "a drain on a Spark server",
    {
        **at(promises.AGAIN, "drain.after-flush-start", "drain.after-tasks"),
        **at(promises.ADOPTED, "commit.before-swap"),
        **at(promises.FOUND, "dead-letters.before-swap"),
    },
    on_spark=True,
)
COMPACTION = Job(
    "compaction",
    "a compaction and its new anchor",
    at(
        promises.TIDIED,
        "compact.before-rewrite",
        "compact.after-rewrite",
        "act.before-swap",
        "act.after-swap",
        "compact.after-reanchor",
    ),
    promises.TIDIED_ANYHOW,
    prepare=_write_many_small_files,
    work="compaction",
    again=("compaction",),
    swap="act",
)
# Iceberg's own code cannot know what became of its commit, keeps what it wrote, and goes on.
UNKNOWING_COMPACTION = replace(COMPACTION, outcome=promises.TIDIED_UNKNOWING)
EXPIRY = Job(
    "expiry",
    "an expiry of snapshots",
    at(promises.TIDIED, "expire.after-reanchor", "expire.after-procedure"),
    promises.TIDIED_ANYHOW,
    prepare=_write_many_small_files,
    work="snapshots",
    again=("snapshots",),
    settings={"upkeep": {"keep_snapshots": 2}},
)
MANIFESTS = Job(
    "manifests",
    "a rewrite of manifests",
    at(promises.TIDIED, "manifests.after-procedure"),
    prepare=_write_many_small_files,
    work="manifests",
    again=("manifests",),
)
ORPHANS = Job(
    "orphans",
    "the removal of a dead fold's file from the books",
    at(promises.TIDIED, "orphans.after-listing", "orphans.before-delete"),
    prepare=_fold_until_killed,
    work="orphans",
    again=("orphans",),
)
SPARK_JOBS = (DRAIN_ON_SPARK, COMPACTION, EXPIRY, MANIFESTS, ORPHANS)

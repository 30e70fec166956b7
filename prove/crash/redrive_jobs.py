"""Redrives with a fault half-way, then repeated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prove.crash import promises
from prove.crash.jobs import Job, at, drain_twice
from prove.lab.pipeline_lab import PIPELINE, configure
from prove.workload import Workload

_FAILING = "CASE WHEN id % 5 = 0 THEN CAST('x' AS BIGINT) ELSE id END"
# One order in five fails, and none once it is mended; what is no order fails ever again.
FAILING: dict[str, Any] = {"columns": {"part": {"type": "long", "sql": _FAILING}}}
MENDED: dict[str, Any] = {"columns": {"part": {"type": "long", "sql": "id"}}}
NEWEST_LETTERS = 3  # of a batch that is drained after all


def drain_failing(workload: Workload) -> None:
    """Commit two batches with the failing column, and fix the column."""
    drain_twice(workload)
    configure(workload.lab, f"pipelines/{PIPELINE}", MENDED)


def find_other_pasts(workload: Workload) -> Iterator[str]:
    """Yield dead letters without a second failure; the others are the newest batch's."""
    letters = workload.lab.rows(workload.lab.tables[1]).to_pylist()
    again = [letter for letter in letters if letter["failures"] > 1]
    if len(letters) - len(again) != NEWEST_LETTERS:
        yield f"{len(letters) - len(again)} of {len(letters)} letters say that they failed once"
    if any(letter["first_failed_at"] >= letter["_ingested_at"] for letter in again):
        yield "a letter that failed again does not say since when"


REDRIVE = Job(
    "redrive",
    "a redrive",
    {
        **at(
            promises.REDRIVEN_ONCE,
            "redrive.after-offset-commit",
            "redrive.after-buffer-snapshot",
            "redrive.after-flush-start",
            "redrive.after-tasks",
            "redrive.after-parquet-written",
            "redrive.before-swap",
        ),
        **at(
            promises.REDRIVEN_TWICE,
            "redrive.after-swap",
            "redrive.after-commit",
            "redrive.after-iceberg-snapshot-created",
            "dead-letters.before-swap",
            "dead-letters.after-swap",
            "redrive.after-dead-letters",
        ),
        **at(promises.REDRIVE_OVER, "redrive.after-flush-complete"),
    },
    promises.REDRIVE_SETTLED,
    prepare=drain_failing,
    work="redrive",
    again=("drain", "redrive"),
    swap="redrive",
    settings=FAILING,
    look=find_other_pasts,
)
REDRIVE_DEAD_LETTERS = Job(
    "redrive-dead-letters",
    "the dead letters' commit of a redrive",
    {},
    promises.REDRIVE_LANDED,
    prepare=drain_failing,
    work="redrive",
    again=("drain", "redrive"),
    swap="dead-letters",
    target="dead-letters",
    settings=FAILING,
    look=find_other_pasts,
)

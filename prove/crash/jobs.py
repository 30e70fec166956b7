"""Jobs that a fault can hit, with the places where they can be killed.

The places are the product's own fail points; a job that does not reach one of them fails its case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from prove.crash import promises
from prove.crash.promises import REPLAYED, Outcomes, Promise
from prove.workload import Workload


@dataclass(frozen=True, slots=True)
class Job:
    """A job: a fault hits ``work``, then ``again`` runs (names of ``prove.lab.drain_process.Work``).

    ``outcome`` are the promises for what becomes of its commit; None when none meets that. ``swap`` is
    the fail points' name of the commit, ``commits_before`` how many of the same work come before it in its
    table, ``target`` that: the pipeline's table, its ``dead-letters``, its ``books``, or one of its
    ``routes``. ``settings`` are the pipeline's; ``of_earlier`` as an audit takes it. ``done_already`` is the
    code with which an operator is told that there is nothing left to do. ``dies_at`` is where a drain was
    killed before. ``look`` says in words what else is wrong in the end.
    """

    name: str
    title: str
    points: Mapping[str, Promise]
    outcome: Outcomes | None = None
    prepare: Callable[[Workload], None] = Workload.drain_and_produce
    work: str = "drain"
    again: tuple[str, ...] = ("drain",)
    swap: str = "commit"
    commits_before: int = 0
    target: str = "table"
    settings: Mapping[str, Any] = field(default_factory=dict)
    on_spark: bool = False
    of_earlier: int = 0
    done_already: str | None = None
    dies_at: str = ""
    look: Callable[[Workload], Iterable[str]] = lambda _workload: ()

    def set_up(self, workload: Workload) -> None:
        """Prepare the state that the work needs, including an earlier drain that died."""
        self.prepare(workload)
        if self.dies_at:
            workload.lab.kill_at(self.dies_at)

    def promise_after(self, *, is_over: bool, has_landed: bool) -> Promise:
        """Return the promise after a commit's outcome; ``is_over``: the run found the outcome by itself."""
        assert self.outcome is not None
        if is_over and self.outcome.over:
            return self.outcome.over
        return self.outcome.landed if has_landed else self.outcome.not_landed

    @property
    def may_leave(self) -> bool:
        """True if some outcomes of its commit leave files to orphan removal."""
        return self.outcome is not None and self.outcome.not_landed.strays > 0

    @property
    def is_replay(self) -> bool:
        """True if it replaces rows, which repeating the work would hide."""
        return self.work.startswith("replay ")


def drain_twice(workload: Workload) -> None:
    """Commit two batches."""
    workload.drain_batches(2)


def _replay_until_killed(workload: Workload) -> None:
    drain_twice(workload)
    workload.lab.kill_at("replay.after-parquet-written", work=f"replay {REPLAYED}")


def at(promise: Promise, *points: str) -> dict[str, Promise]:
    """Return the same promise for each place."""
    return dict.fromkeys(points, promise)


DRAINED = {
    **at(
        promises.AGAIN,
        "drain.after-offset-commit",
        "drain.after-buffer-snapshot",
        "drain.after-flush-start",
        "split.after-chunk",
        "drain.after-tasks",
    ),
    **at(promises.ADOPTED, "drain.after-parquet-written", "commit.before-swap"),
    **at(
        promises.FOUND,
        "commit.after-swap",
        "drain.after-commit",
        "drain.after-iceberg-snapshot-created",
        "dead-letters.before-swap",
        "dead-letters.after-swap",
        "drain.after-dead-letters",
    ),
    **at(promises.OVER, "drain.after-flush-complete"),
}
_SETTLING = {
    **at(
        promises.FOUND,
        "dead-letters.before-swap",
        "dead-letters.after-swap",
        "recover.after-dead-letters",
        "recover.after-sweep",
        "recover.after-iceberg-snapshot-created",
    ),
    **at(promises.OVER, "recover.after-flush-complete"),
}
REPLAYING = {
    **at(
        promises.REPLAYED_ONCE,
        "replay.after-offset-commit",
        "replay.after-buffer-snapshot",
        "replay.after-flush-start",
        "replay.after-tasks",
        "replay.after-parquet-written",
        "replay.before-swap",
    ),
    **at(
        promises.REPLAYED_TWICE,
        "replay.after-swap",
        "replay.after-commit",
        "replay.after-iceberg-snapshot-created",
        "dead-letters.before-swap",
        "dead-letters.after-swap",
        "replay.after-dead-letters",
    ),
    **at(promises.REPLAY_OVER, "replay.after-flush-complete"),
}

DRAIN = Job("drain", "a drain", DRAINED, promises.SETTLED)
FIRST = Job(
    "first-batch",
    "a table's first batch",
    {**at(promises.UNBEGUN, "drain.after-table-made"), **DRAINED},
    promises.SETTLED,
    Workload.produce_batch,
)
DEAD_LETTERS = Job(
    "dead-letters",
    "the dead letters' commit",
    {},
    promises.DEAD_LETTERS_SETTLED,
    swap="dead-letters",
    target="dead-letters",
)
RECOVERY = Job(
    "recovery",
    "the adoption of a dead run's files",
    {
        **_SETTLING,
        # A recovery first looks for dead letters that an earlier batch owes.
        **at(promises.ADOPTED, "recover.after-dead-letters", "recover.before-adoption", "commit.before-swap"),
        **at(promises.FOUND, "commit.after-swap", "recover.after-adoption"),
    },
    promises.SETTLED,
    dies_at="commit.before-swap",
)
RECOVERY_OF_HALF = Job(
    "recovery-of-half",
    "a run after one that died writing",
    {
        **at(promises.AGAIN, "recover.after-interrupt"),
        **at(promises.SWEPT, "recover.before-delete", "recover.after-sweep"),
    },
    dies_at="drain.after-tasks",
)
RECOVERY_OF_LANDED = Job(
    "recovery-of-landed",
    "a run after one whose commit landed",
    _SETTLING,
    dies_at="commit.after-swap",
)
CHECKPOINT = Job(
    "checkpoint",
    "a fold of the log into the books",
    {
        **at(promises.UNBOOKED, "checkpoint.after-files", "checkpoint.before-swap"),
        **at(promises.BOOKED, "checkpoint.after-swap", "checkpoint.after-entered"),
        **at(promises.OVER, "checkpoint.after-delete"),
    },
    promises.BOOKS_SETTLED,
    prepare=drain_twice,
    work="checkpoint",
    again=("checkpoint",),
    swap="checkpoint",
    target="books",
)
# The next tick comes first, and neither finishes a replay nor disturbs it.
TICK_AND_REPLAY = ("drain", f"replay {REPLAYED}")
REPLAY = Job(
    "replay",
    "a replay",
    REPLAYING,
    promises.REPLAY_SETTLED,
    prepare=drain_twice,
    work=f"replay {REPLAYED}",
    again=TICK_AND_REPLAY,
    swap="replay",
)
REPLAY_DEAD_LETTERS = Job(
    "replay-dead-letters",
    "the dead letters' commit of a replay",
    {},
    promises.REPLAY_LANDED,
    prepare=drain_twice,
    work=f"replay {REPLAYED}",
    again=TICK_AND_REPLAY,
    swap="dead-letters",
    target="dead-letters",
)
REPLAY_AFTER_DEAD = Job(
    "replay-after-dead",
    "a replay that gives up one that died",
    {
        **at(promises.GIVEN_UP_AGAIN, "act.after-offset-commit", "act.before-swap"),
        **at(promises.GIVEN_UP, "act.after-swap"),
        **at(promises.REPLAYED_ONCE, "recover.before-delete", "recover.after-sweep"),
    },
    prepare=_replay_until_killed,
    work=f"replay {REPLAYED}",
    again=TICK_AND_REPLAY,
)
ROLLING_BACK = {
    **at(promises.NOT_ROLLED_BACK, "act.after-offset-commit", "rollback.before-swap"),
    **at(promises.ROLLED_BACK, "rollback.after-swap", "act.after-iceberg-snapshot-created"),
    **at(
        promises.ROLLBACK_OVER,
        "act.after-flush-complete",
        "dead-letters.before-swap",
        "dead-letters.after-swap",
    ),
}
ROLLBACK = Job(
    "rollback",
    "a rollback",
    ROLLING_BACK,
    promises.ROLLBACK_SETTLED,
    prepare=drain_twice,
    work="rollback",
    swap="rollback",
)
DATA_JOBS = (
    DRAIN,
    FIRST,
    DEAD_LETTERS,
    RECOVERY,
    RECOVERY_OF_HALF,
    RECOVERY_OF_LANDED,
    CHECKPOINT,
    REPLAY,
    REPLAY_AFTER_DEAD,
    ROLLBACK,
)

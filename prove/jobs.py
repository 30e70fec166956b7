"""What is under way when something strikes: each job with the places where it may be killed.

The places are the product's own fail points; a job that does not reach one of them fails its case.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prove.lab.pipeline_lab import orders
from prove.stage import BATCH

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from prove.stage import Play

CHEAP = {"expect_column_values_to_be_between": {"column": "price", "max_value": 100}}
GATED = {"quality": [{"name": "strict", "when": "gate", "expectations": [CHEAP]}]}
REPLAYED = "0:5-18"
REPLAYED_RECORDS = 13


@dataclass(frozen=True, slots=True)
class Promise:
    """What is said to happen after a restart, and how many records Kafka may then be asked for again."""

    text: str
    may_read_again: tuple[int, ...] = (0,)


AGAIN = Promise("its range is read and committed again", (BATCH,))
ADOPTED = Promise("its files are committed, nothing is read again")
FOUND = Promise("its commit is found, nothing is read again")
SETTLED = Promise("whatever was answered, the table is asked; nothing is read again")
BOOKED = Promise("each attempt is in the books once, nothing is read again")
REPLAYED_ONCE = Promise("run again, it replaces exactly its rows", (REPLAYED_RECORDS,))
ROLLED_BACK = Promise("rolled back or not, and then filled again", (0, BATCH))
TIDIED = Promise("run again, it is done; nothing is read again")


@dataclass(frozen=True, slots=True)
class Job:
    """``work`` is struck, ``again`` run after it in turn (names of ``prove.lab.drain_process.Work``).

    ``outcome`` is the promise for whatever the commit's outcome is; None when it is not struck so. ``swap``
    is the fail points' name of that commit, ``struck`` its table: the pipeline's table, its ``dead-letters``
    or its ``books``. ``settings`` are the pipeline's.
    """

    name: str
    title: str
    prepare: Callable[[Play], None]
    points: Mapping[str, Promise]
    outcome: Promise | None = None
    work: str = "drain"
    again: tuple[str, ...] = ("drain",)
    swap: str = "commit"
    struck: str = "table"
    settings: Mapping[str, Any] = field(default_factory=dict)
    on_spark: bool = False


def _first(play: Play) -> None:
    play.produce_batch()


def _later(play: Play) -> None:
    play.produce_batch()
    play.work()
    play.produce_batch()


def _after_kill(point: str) -> Callable[[Play], None]:
    def prepare(play: Play) -> None:
        _later(play)
        play.lab.kill_at(point)

    return prepare


def _drained_twice(play: Play) -> None:
    _later(play)
    play.work()


def _held(play: Play) -> None:
    play.produce_batch()
    play.work()
    dear = [json.dumps({**json.loads(each), "price": 900.5}).encode() for each in orders(40, 2)]
    play.produce(dear)
    play.work()


def _many_small_files(play: Play) -> None:
    for _ in range(5):
        play.produce_batch()
        play.work()


_BEFORE_FILES = (
    "drain.after-offset-commit",
    "drain.after-buffer-snapshot",
    "drain.after-flush-start",
    "split.after-chunk",
    "drain.after-tasks",
)
_FILES = ("drain.after-parquet-written", "commit.before-swap")
_LANDED = (
    "commit.after-swap",
    "drain.after-commit",
    "drain.after-iceberg-snapshot-created",
    "dead-letters.before-swap",
    "dead-letters.after-swap",
    "drain.after-dead-letters",
    "drain.after-flush-complete",
)
_DRAIN = {
    **dict.fromkeys(_BEFORE_FILES, AGAIN),
    **dict.fromkeys(_FILES, ADOPTED),
    **dict.fromkeys(_LANDED, FOUND),
}
_ADOPTION = {
    **dict.fromkeys(("recover.before-adoption", "commit.before-swap"), ADOPTED),
    **dict.fromkeys(
        (
            "commit.after-swap",
            "recover.after-adoption",
            "dead-letters.before-swap",
            "recover.after-dead-letters",
            "recover.after-sweep",
            "recover.after-iceberg-snapshot-created",
            "recover.after-flush-complete",
        ),
        FOUND,
    ),
}
_REPLAY = (
    "replay.after-offset-commit",
    "replay.after-flush-start",
    "replay.after-tasks",
    "replay.after-parquet-written",
    "replay.before-swap",
    "replay.after-swap",
    "replay.after-commit",
    "dead-letters.before-swap",
    "dead-letters.after-swap",
    "replay.after-dead-letters",
    "replay.after-flush-complete",
)
_ROLLBACK = (
    "act.after-offset-commit",
    "rollback.before-swap",
    "rollback.after-swap",
    "act.after-iceberg-snapshot-created",
    "act.after-flush-complete",
    "dead-letters.before-swap",
    "dead-letters.after-swap",
)
_CHECKPOINT = (
    "checkpoint.after-files",
    "checkpoint.before-swap",
    "checkpoint.after-swap",
    "checkpoint.after-entered",
    "checkpoint.after-delete",
)

DRAIN = Job("drain", "a drain", _later, _DRAIN, SETTLED)
FIRST = Job(
    "first-batch", "a table's first batch", _first, {"drain.after-table-made": AGAIN, **_DRAIN}, SETTLED
)
DEAD_LETTERS = Job(
    "dead-letters",
    "the dead letters' commit",
    _later,
    {},
    SETTLED,
    swap="dead-letters",
    struck="dead-letters",
)
RECOVERY = Job(
    "recovery", "the adoption of a dead run's files", _after_kill("commit.before-swap"), _ADOPTION, SETTLED
)
RECOVERY_OF_HALF = Job(
    "recovery-of-half",
    "a run after one that died writing",
    _after_kill("drain.after-tasks"),
    {"recover.after-interrupt": AGAIN, "recover.before-delete": FOUND, "recover.after-sweep": FOUND},
)
RECOVERY_OF_LANDED = Job(
    "recovery-of-landed",
    "a run after one whose commit landed",
    _after_kill("commit.after-swap"),
    dict.fromkeys(
        (
            "dead-letters.before-swap",
            "dead-letters.after-swap",
            "recover.after-dead-letters",
            "recover.after-iceberg-snapshot-created",
            "recover.after-flush-complete",
        ),
        FOUND,
    ),
)
CHECKPOINT = Job(
    "checkpoint",
    "a fold of the log into the books",
    _drained_twice,
    dict.fromkeys(_CHECKPOINT, BOOKED),
    outcome=BOOKED,
    work="checkpoint",
    again=("checkpoint",),
    swap="checkpoint",
    struck="books",
)
REPLAY = Job(
    "replay",
    "a replay",
    _drained_twice,
    dict.fromkeys(_REPLAY, REPLAYED_ONCE),
    outcome=REPLAYED_ONCE,
    work=f"replay {REPLAYED}",
    # The next tick comes first, and neither finishes a replay nor disturbs it.
    again=("drain", f"replay {REPLAYED}"),
    swap="replay",
)
ROLLBACK = Job(
    "rollback",
    "a rollback",
    _drained_twice,
    dict.fromkeys(_ROLLBACK, ROLLED_BACK),
    outcome=ROLLED_BACK,
    work="rollback",
    swap="rollback",
)
PUBLISH = Job(
    "publish",
    "the publishing of a held batch",
    _held,
    {
        **dict.fromkeys(("held.after-published", "recover.before-adoption", "commit.before-swap"), ADOPTED),
        **dict.fromkeys(
            (
                "commit.after-swap",
                "recover.after-adoption",
                "recover.after-iceberg-snapshot-created",
                "recover.after-flush-complete",
            ),
            FOUND,
        ),
    },
    outcome=SETTLED,
    work="publish",
    settings=GATED,
)
JOBS = (
    DRAIN,
    FIRST,
    DEAD_LETTERS,
    RECOVERY,
    RECOVERY_OF_HALF,
    RECOVERY_OF_LANDED,
    CHECKPOINT,
    REPLAY,
    ROLLBACK,
    PUBLISH,
)

DRAIN_ON_SPARK = Job(
    "drain-on-spark",
    "a drain on a Spark server",
    _later,
    {
        "drain.after-flush-start": AGAIN,
        "drain.after-tasks": AGAIN,
        "commit.before-swap": ADOPTED,
        "dead-letters.before-swap": FOUND,
    },
    on_spark=True,
)
COMPACTION = Job(
    "compaction",
    "a compaction and its new anchor",
    _many_small_files,
    dict.fromkeys(
        (
            "compact.before-rewrite",
            "compact.after-rewrite",
            "act.before-swap",
            "act.after-swap",
            "compact.after-reanchor",
        ),
        TIDIED,
    ),
    outcome=TIDIED,
    work="compaction",
    again=("compaction",),
    swap="act",
)
EXPIRY = Job(
    "expiry",
    "an expiry of snapshots",
    _many_small_files,
    dict.fromkeys(("expire.after-reanchor", "expire.after-procedure"), TIDIED),
    work="snapshots",
    again=("snapshots",),
    settings={"upkeep": {"keep_snapshots": 2}},
)
SPARK_JOBS = (DRAIN_ON_SPARK, COMPACTION, EXPIRY)

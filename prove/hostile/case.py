"""The shape of a hostile case: a pipeline that was drained once meets what it cannot help.

What is done to it is a function of the play; how it ended, and what put it right, is in what that tells.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prove.lab.clock import NO_JUMP
from prove.scenario import Findings, Scenario
from prove.stage import CATALOG_NAMES, SQLITE
from prove.verdict import look
from spark_jobs.acts.skip import skip
from spark_jobs.lake.catalog import close_catalog
from spark_jobs.protocol.fail_points import NoFailPoints
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from prove.lab.clock import ClockJump
    from prove.lab.drain_process import Answer, DrainProcess
    from prove.stage import Play, Stage

ADOPTED = "the dead run's files are committed, nothing is read again"


@dataclass(frozen=True, slots=True)
class Told:
    """How a case went. ``of_earlier``: records of generations before the one that an audit judges."""

    happened: str
    read_again: int = 0
    recovery_seconds: float = 0.0
    of_earlier: int = 0


@dataclass(frozen=True, slots=True)
class Case:
    """``happen`` brings the harm, sees how the next run ends, and puts it right.

    ``settings`` are the pipeline's; ``needs`` are servers beside the catalog's.
    """

    name: str
    title: str
    promise: str
    happen: Callable[[Play], Told]
    catalog: str = SQLITE
    may_read_again: tuple[int, ...] = (0,)
    settings: Mapping[str, Any] = field(default_factory=dict)
    needs: frozenset[str] = frozenset()

    def scenario(self, group: str, *, is_quick: bool = False) -> Scenario:
        """The case as the runner knows it."""
        return Scenario(
            name=f"{self.catalog}/{self.name}",
            group=f"{group}, on {CATALOG_NAMES[self.catalog]}",
            title=self.title,
            promise=self.promise,
            needs=self.needs | ({self.catalog} - {SQLITE}),
            is_quick=is_quick,
            run=self.run,
        )

    def run(self, stage: Stage) -> Findings:
        """Harm, put right, go on, look."""
        with stage.play(self.catalog, **self.settings) as play:
            return judge(play, self.happen(play), self.may_read_again)


def judge(play: Play, told: Told, may_read_again: tuple[int, ...] = (0,)) -> Findings:
    """Let one more batch come, and count what is in the lake then."""
    play.produce_batch()
    play.work()
    counts = look(play, of_earlier=told.of_earlier)
    return Findings(
        happened="; ".join((told.happened, *counts.examples)),
        lost=counts.lost,
        doubled=counts.doubled,
        unreadable=counts.unreadable,
        stray=counts.stray,
        read_again=told.read_again,
        may_read_again=may_read_again,
        recovery_seconds=told.recovery_seconds,
    )


def drained(play: Play) -> None:
    """One batch in the table."""
    play.produce_batch()
    play.work()


def interrupted(play: Play) -> None:
    """One batch in the table, and the files of the next one written when the run died."""
    drained(play)
    play.produce_batch()
    play.lab.kill_at("drain.after-parquet-written")


def refused(play: Play, *codes: str) -> str:
    """The next drain ends with one of these errors (any, without) and moves nothing; in words."""
    before = _main(play)
    answer = play.lab.start().answer()
    assert _main(play) == before, "the table was committed to all the same"
    return named(answer, codes)


def refused_awake(process: DrainProcess, *codes: str) -> str:
    """A drain that was stopped goes on and ends with one of these errors; in words."""
    process.go_on()
    return named(process.answer(), codes)


def put_right(
    happened: str, play: Play, *, was_read: bool = True, of_earlier: int = 0, clock: ClockJump = NO_JUMP
) -> Told:
    """The next drain ends well; what it adopted, found and committed. ``was_read``: its range was before."""
    began = time.monotonic()
    answer = play.lab.start_struck(NoFailPoints(), clock=clock).answer()
    seconds = time.monotonic() - began
    assert answer.error is None, answer.message
    did = {"adopted": answer.adopted, "found landed": answer.marked, "committed": answer.batches}
    told = ", ".join(f"{what} {number}" for what, number in did.items() if number)
    read_again = answer.records_read if was_read else 0
    return Told(f"{happened}; then {told or 'nothing was left to do'}", read_again, seconds, of_earlier)


def skipped(play: Play, partition: int, start: int, end: int, rows: int) -> None:
    """The operator leaves offsets out, of which so many would have become rows."""
    with play.lab.connections() as connections:
        ranges = OffsetRanges((OffsetRange(partition, start, end),))
        skip(play.lab.pipeline, connections, ranges, reason="Kafka lost them")
    play.produced.rows -= rows


@contextmanager
def other_engine(play: Play) -> Iterator[Catalog]:
    """The catalog as anybody's program opens it."""
    with play.lab.connections() as connections:
        catalog = connections.open_catalog()
        try:
            yield catalog
        finally:
            close_catalog(catalog)


def changed(play: Play, change: Callable[[Table], object]) -> None:
    """Another engine changes the pipeline's table."""
    with other_engine(play) as catalog:
        change(catalog.load_table(play.lab.pipeline.table))


def _main(play: Play) -> int | None:
    """The table's snapshot; None when there is no such table."""
    with other_engine(play) as catalog:
        name = play.lab.pipeline.table
        if not catalog.table_exists(name):
            return None
        return catalog.load_table(name).metadata.current_snapshot_id


def named(answer: Answer, codes: tuple[str, ...]) -> str:
    """Say that the work ended with one of these errors, with any named one when there are none."""
    assert answer.error is not None, f"it ended well, with {answer.batches} batches"
    assert not codes or answer.error in codes, f"it ended with {answer.message}"
    assert "\n" not in answer.message, answer.message
    return f"the run ended with {answer.error}"

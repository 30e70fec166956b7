"""Runs after a fault: the next tick's or the operator's, counted and compared with the promise."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from prove.checker import check
from prove.crash.jobs import Job
from prove.crash.promises import NOTHING, REPLAYED, Promise
from prove.crash.replacement import ArrivalTimes, arrival_times, is_replaced, pending_places
from prove.lab.drain_process import Answer, Repairs
from prove.workload import BATCH, Workload

MAX_FAILED_RUNS = 2
# A commit that lands late may come before that of the next run.
CONFLICTS = frozenset({"offsets-moved", "dead-letters-moved", "replay-overtaken"})
# What a run that was replaced may say when it goes on; that it has landed is no error.
ENDINGS_OF_REPLACED = CONFLICTS | {None, "taken-over"}


@dataclass(slots=True)
class Restart:
    """Result of the runs after a fault; ``events`` and ``unkept`` are descriptions."""

    events: list[str] = field(default_factory=list)
    unkept: list[str] = field(default_factory=list)
    repairs: Repairs = NOTHING
    read_again: int = 0
    refused: str | None = None
    replaced: bool | None = None
    seconds: float = 0.0

    def repair(self, workload: Workload, job: Job, before: ArrivalTimes | None) -> None:
        """Run what the next tick or the operator would, until each ends well or is already done."""
        for number, work in enumerate(job.again):
            if before is not None and number == len(job.again) - 1:
                before = self._check_between(workload, before)
            began = time.monotonic()
            answer = self._run_until_it_ends_well(workload, work, job.done_already)
            self.seconds += time.monotonic() - began
            self.refused = self.refused or answer.error
            self.repairs += answer.repairs
        if before is not None and not is_replaced(
            before, arrival_times(workload), REPLAYED, pending_places(workload)
        ):
            self.unkept.append("the replay replaced nothing")
        if events := str(self.repairs):
            self.events.append(events)

    def go_on(self, workload: Workload) -> None:
        """Produce more records and drain them: each exactly once."""
        workload.produce_batch()
        answer = self._run_until_it_ends_well(workload, "drain", None)
        self.read_again -= BATCH
        if answer.repairs.committed != 1:
            self.unkept.append(f"what came then was {answer.repairs.committed} batches")

    def find_deviations(self, promise: Promise) -> Iterator[str]:
        """Yield deviations from the promise."""
        if self.repairs not in promise.repairs:
            yield f"not done as promised: {' or '.join(str(each) or 'nothing' for each in promise.repairs)}"
        if self.refused != promise.refused:
            yield f"the first run afterwards was to end with {promise.refused}, not {self.refused}"
        if promise.replaced is not None and self.replaced is not promise.replaced:
            yield "its rows were in already" if self.replaced else "its rows were not in"

    def _check_between(self, workload: Workload, before: ArrivalTimes) -> ArrivalTimes:
        """Check the interrupted replay's result before the next one repeats it."""
        counts = check(workload)
        if counts.lost or counts.doubled or counts.unreadable:
            self.unkept.append(f"before the second replay: {'; '.join(counts.examples)}")
        now = arrival_times(workload)
        self.replaced = is_replaced(before, now, REPLAYED, pending_places(workload))
        return now

    def _run_until_it_ends_well(self, workload: Workload, work: str, done_already: str | None) -> Answer:
        for _ in range(MAX_FAILED_RUNS):
            answer = self._run(workload, work)
            if answer.error not in CONFLICTS:
                break
            self.events.append(f"the next run ended with {answer.error}")
        else:
            answer = self._run(workload, work)
        assert answer.error in {None, done_already}, answer.message
        return answer

    def _run(self, workload: Workload, work: str) -> Answer:
        answer = workload.lab.start(work=work).answer()
        self.read_again += answer.records_read
        return answer

"""The runs after a blow: what the next tick or the operator does, counted and held against the promise."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prove.crash.promises import NOTHING, REPLAYED, Did
from prove.crash.replaced import arrivals, is_replaced, owed
from prove.stage import BATCH
from prove.verdict import look

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prove.crash.jobs import Job
    from prove.crash.promises import Promise
    from prove.crash.replaced import Arrivals
    from prove.lab.drain_process import Answer
    from prove.stage import Play

MAX_FAILED_RUNS = 2
# A commit that lands late may come before that of the next run.
CONFLICTS = frozenset({"offsets-moved", "dead-letters-moved", "replay-overtaken"})


@dataclass(slots=True)
class Restart:
    """What the runs after a blow did; ``told`` and ``unkept`` in words."""

    told: list[str] = field(default_factory=list)
    unkept: list[str] = field(default_factory=list)
    did: Did = NOTHING
    read_again: int = 0
    refused: str | None = None
    replaced: bool | None = None
    seconds: float = 0.0

    def put_right(self, play: Play, job: Job, before: Arrivals | None) -> None:
        """Do what the next tick or the operator would, each until it ends well or says that it was done."""
        for number, work in enumerate(job.again):
            if before is not None and number == len(job.again) - 1:
                before = self._look_between(play, before)
            began = time.monotonic()
            answer = self._until_it_ends_well(play, work, job.done_already)
            self.seconds += time.monotonic() - began
            self.refused = self.refused or answer.error
            self.did += _did(answer)
        if before is not None and not is_replaced(before, arrivals(play), REPLAYED, owed(play)):
            self.unkept.append("the replay replaced nothing")
        if told := str(self.did):
            self.told.append(told)

    def go_on(self, play: Play) -> None:
        """More records come, and are drained: each of them once."""
        play.produce_batch()
        answer = self._until_it_ends_well(play, "drain", None)
        self.read_again -= BATCH
        if answer.batches != 1:
            self.unkept.append(f"what came then was {answer.batches} batches")

    def differs_from(self, promise: Promise) -> Iterator[str]:
        """What was done otherwise than promised."""
        if self.did not in promise.did:
            yield f"not done as promised: {' or '.join(str(each) or 'nothing' for each in promise.did)}"
        if self.refused != promise.refused:
            yield f"the first run afterwards was to end with {promise.refused}, not {self.refused}"
        if promise.replaced is not None and self.replaced is not promise.replaced:
            yield "its rows were in already" if self.replaced else "its rows were not in"

    def _look_between(self, play: Play, before: Arrivals) -> Arrivals:
        """What the struck replay did, before the next one does it all again."""
        counts = look(play)
        if counts.lost or counts.doubled or counts.unreadable:
            self.unkept.append(f"before the second replay: {'; '.join(counts.examples)}")
        now = arrivals(play)
        self.replaced = is_replaced(before, now, REPLAYED, owed(play))
        return now

    def _until_it_ends_well(self, play: Play, work: str, done_already: str | None) -> Answer:
        for _ in range(MAX_FAILED_RUNS):
            answer = self._run(play, work)
            if answer.error not in CONFLICTS:
                break
            self.told.append(f"the next run ended with {answer.error}")
        else:
            answer = self._run(play, work)
        assert answer.error in {None, done_already}, answer.message
        return answer

    def _run(self, play: Play, work: str) -> Answer:
        answer = play.lab.start(work=work).answer()
        self.read_again += answer.records_read
        return answer


def _did(answer: Answer) -> Did:
    return Did(
        adopted=answer.adopted,
        found_landed=answer.marked,
        swept=answer.swept,
        held=answer.held,
        folded=answer.folded,
        committed=answer.batches,
    )

"""Operator acts next to a batch in progress: each act, at each place of a batch.

The run of the batch sleeps or died there; the act comes, the next tick, and then the run goes on if it can.
Whatever the act was answered, each record that it did not take out is there once.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prove.crash.act_jobs import GATED
from prove.hostile.case import History, judge
from prove.lab.pipeline_lab import orders
from prove.scenario import Findings, Scenario, scenario_on
from prove.workload import BATCH, REST, SQLITE, Contents, Testbed, Workload
from prove.zombie.tasks import CLOSING_SECONDS
from spark_jobs.protocol.work import NoFailPoints

if TYPE_CHECKING:
    from prove.lab.drain_process import DrainProcess

PRODUCED_AT_MS = 1_767_225_600_000  # a log that is moved as it is keeps its times
BROKEN = (b"not json", b"null", b"\xff\xfe", None)
ONE_BATCH = Contents(rows=40, dead_letters=3, tombstones=1)
SKIPPED = "0:22-24"  # of the batch in flight, two rows
SKIPPED_ROWS = 2
NOTHING_HELD = "nothing-held"


@dataclass(frozen=True, slots=True)
class State:
    """A run's place in its batch: asleep or dead. ``is_whole``: everything it read is logged.

    ``wakes_first``: before the next tick. ``is_gated``: the place is at a gate, which the batch passes.
    """

    name: str
    title: str
    point: str
    is_asleep: bool = True
    is_whole: bool = True
    wakes_first: bool = False
    is_gated: bool = False


READING = State("reading", "its tasks are reading", "split.after-chunk", is_whole=False)
ASLEEP = State("asleep", "its run sleeps before the swap", "commit.before-swap")
DEAD = State("dead", "its run died before the swap", "commit.before-swap", is_asleep=False)
LANDED = State("landed", "its run died after the swap", "commit.after-swap", is_asleep=False)
OWING = State("owing", "its run sleeps before its dead letters' swap", "dead-letters.before-swap")
STATES = (READING, ASLEEP, DEAD, LANDED, OWING)
VERIFIED = State(
    "verified",
    "its run sleeps over verified files that it has not logged, and wakes before the tick",
    "drain.after-gate",
    is_whole=False,
    wakes_first=True,
    is_gated=True,
)
WOKEN = State(
    "woken", "its run sleeps before the swap and wakes before the tick", ASLEEP.point, wakes_first=True
)
WHOLE = tuple(state for state in STATES if state.is_whole)


@dataclass(frozen=True, slots=True)
class Act:
    """An act; ``work`` is the operator's, ``refused`` are the codes it may end with.

    ``before`` is what happens to the world before it, ``after`` what it did to what the topic holds, or is
    done once all have ended. ``reads`` are the records that the runs from it on take from Kafka.
    With ``is_source_new`` a run that wakes fails on its own and leaves what it wrote to the closing.
    With ``is_of_held`` the batch fails its gate, and its run publishes it once it is whole.
    """

    name: str
    title: str
    work: str
    refused: Mapping[State, str] = field(default_factory=dict)
    before: Callable[[Workload, State], None] = lambda _workload, _state: None
    after: Callable[[Workload], None] = lambda _workload: None
    reads: Mapping[State, int] = field(default_factory=lambda: {READING: BATCH})
    is_of_held: bool = False
    ends_generation: bool = False
    is_source_new: bool = False

    def scenario(self, state: State, catalog: str) -> Scenario:
        """Return the pair as a scenario."""
        answer = f"it is refused ({self.refused[state]})" if state in self.refused else "it is done"
        return scenario_on(
            f"beside/{state.name}/{self.name}",
            f"{self.title} while {state.title}",
            f"{answer}; each record that it does not take out is there once",
            lambda testbed: self.run(testbed, state, catalog),
            group="an act beside a batch in flight",
            catalog=catalog,
        )

    def run(self, testbed: Testbed, state: State, catalog: str) -> Findings:
        """Bring the batch to its place, do the act, run the next tick, continue the run, check."""
        settings: dict[str, Any] = GATED if self.is_of_held or state.is_gated else {}
        with testbed.workload(catalog, **settings) as workload:
            run = self._take_off(workload, state)
            try:
                self.before(workload, state)
                answers = [workload.lab.start(work=self.work).answer()]
                ending = _go_on(run) if state.wakes_first else ""
                answers.append(workload.lab.start().answer())
                ending = ending or (_go_on(run) if state.is_asleep else "its run had died")
            finally:
                run.kill()
            codes = [answer.named_error for answer in answers]
            assert codes == [self.refused.get(state), None], answers
            if state not in self.refused:
                self.after(workload)
            # What a run writes after its attempt was swept is swept when that is closed.
            is_late = self.is_source_new and not state.is_whole
            later = CLOSING_SECONDS if is_late else 0
            answers.append(workload.lab.start_with(NoFailPoints(), clock_seconds=later).answer())
            assert answers[-1].error is None, answers
            reads = self.reads.get(state, 0)
            history = History(
                f"{codes[0] or 'done'}; {ending}",
                sum(answer.records_read for answer in answers),
                of_earlier=self.ends_generation * (2 if state.is_whole else 1) * BATCH,
            )
            return judge(workload, history, (reads,))

    def _take_off(self, workload: Workload, state: State) -> DrainProcess:
        """Drain one batch and return the run of the next, at its place."""
        _produce_first(workload)
        workload.run()
        _produce_second(workload, price=900.5 if self.is_of_held else 1.5)
        publishes = self.is_of_held and state.is_whole
        if publishes:
            workload.run()  # which holds it
        number, once = (signal.SIGSTOP if state.is_asleep else signal.SIGKILL), str(workload.folder / "once")
        run = workload.lab.start(state.point, number, once=once, work="publish" if publishes else "drain")
        if state.is_asleep:
            run.wait_until_stopped()
        else:
            assert run.died_of() == signal.SIGKILL, run.last_words()
        if self.is_of_held and not publishes:
            workload.run()
        return run


def _go_on(run: DrainProcess) -> str:
    run.go_on()
    error = run.answer().named_error
    return f"its run woke and ended with {error}" if error else "its run woke and ended well"


def _produce_first(workload: Workload) -> None:
    workload.produce(orders(0, 40), BROKEN, at_ms=PRODUCED_AT_MS)


def _produce_second(workload: Workload, *, price: float = 1.5) -> None:
    values = [json.dumps({**json.loads(each), "price": price}).encode() for each in orders(40, 40)]
    workload.produce(values, BROKEN, at_ms=PRODUCED_AT_MS)


def _forget(workload: Workload, records: Contents) -> None:
    workload.contents.rows -= records.rows
    workload.contents.dead_letters -= records.dead_letters
    workload.contents.tombstones -= records.tombstones


def _recreate_topic(workload: Workload, state: State) -> None:
    """Re-create the topic empty: records that no run read completely are lost."""
    workload.recreate_topic()
    if not state.is_whole:
        _forget(workload, ONE_BATCH)


def _move(workload: Workload, state: State) -> None:
    """Re-create the topic from the same log up to the records read, then with another log."""
    workload.recreate_topic()
    _forget(workload, workload.contents)
    _produce_first(workload)
    _produce_second(workload, price=1.5 if state.is_whole else 2.5)


def _skip_rows(workload: Workload) -> None:
    workload.contents.rows -= SKIPPED_ROWS


ACTS = (
    Act("pause", "paused", "pause", after=lambda workload: workload.run("resume"), reads={}),
    Act(
        "skip",
        f"{SKIPPED} skipped",
        f"skip {SKIPPED}",
        dict.fromkeys((LANDED, OWING), "not-next-offset"),
        after=_skip_rows,
        reads=dict.fromkeys((READING, ASLEEP, DEAD), BATCH - SKIPPED_ROWS),
    ),
    Act(
        "rollback",
        "the last commit rolled back",
        "rollback",
        reads={**dict.fromkeys((READING, ASLEEP, DEAD), 2 * BATCH), **dict.fromkeys((LANDED, OWING), BATCH)},
    ),
    Act(
        "publish",
        "a held batch published",
        "publish",
        dict.fromkeys(WHOLE, NOTHING_HELD),
        reads={},
        is_of_held=True,
    ),
    Act(
        "discard",
        "a held batch discarded",
        "discard",
        dict.fromkeys(WHOLE, NOTHING_HELD),
        after=lambda workload: _forget(workload, ONE_BATCH),
        reads={},
        is_of_held=True,
    ),
    Act(
        "accept",
        "a topic that was made anew accepted",
        "accept",
        before=_recreate_topic,
        reads={},
        ends_generation=True,
        is_source_new=True,
    ),
    Act(
        "accept-moved",
        "a topic that was moved as it is accepted",
        "accept",
        before=_move,
        reads=dict.fromkeys((READING, VERIFIED), BATCH),
        is_source_new=True,
    ),
)
ACCEPTS = tuple(act for act in ACTS if act.work == "accept")
SCENARIOS = [
    *(act.scenario(state, SQLITE) for state in STATES for act in ACTS),
    *(act.scenario(ASLEEP, REST) for act in ACTS),
    *(act.scenario(state, SQLITE) for state in (VERIFIED, WOKEN) for act in ACCEPTS),
    *(act.scenario(VERIFIED, REST) for act in ACCEPTS),
]

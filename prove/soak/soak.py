"""The soak: random events against a live producer for any time; at the end, all is there once.

A follower is asked throughout, and each of its answers held against the topic.

Which events come, and in which order, depends on the seed alone. When they meet which records does not: the
machine's speed decides that.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from prove.checker import check
from prove.hostile.moments import proxied
from prove.lab.brokers import own_broker
from prove.lab.kafka_server import unique_name
from prove.lab.steady_queries import query_throughout
from prove.scenario import Findings, Scenario
from prove.soak.events import EVENTS
from prove.soak.live_workload import TOLERATED, LiveWorkload, live_workload
from prove.workload import CATALOG_NAMES, REST, Testbed, Workload
from spark_jobs.replay.replay import settle_left_replays
from spark_jobs.txlog.store import CLOSING_AFTER_US

FULL_MINUTES = 10.0
QUICK_MINUTES = 0.2
CHECKED_EVERY = 25
# Small enough that all kinds of upkeep find something to do, and that a run makes several batches.
SETTINGS: dict[str, Any] = {
    "max_batch_records": 400,
    "upkeep": {"compact_above": 5, "keep_snapshots": 6},
    "hot": True,
}


@dataclass(frozen=True, slots=True)
class Soak:
    """One soak; ``name`` is the scenario's."""

    name: str
    seed: int
    minutes: float

    def scenario(self) -> Scenario:
        """Return the soak as a scenario."""
        return Scenario(
            name=self.name,
            group=f"random events against a live producer, on {CATALOG_NAMES[REST]}",
            title=f"{self.minutes:g} minutes of random events",
            promise="runs go on or end with an error that says what was done to them, a follower's answers"
            " are exact or refused; then all is there",
            needs=frozenset({REST, "spark"}),
            run=self.run,
            again=f"--soak {self.minutes:g} --seed {self.seed}",
            minutes=self.minutes,
        )

    def run(self, testbed: Testbed) -> Findings:
        """Run events until the time is up, repair, check."""
        counts: Counter[str] = Counter()
        with (
            own_broker(testbed.folder / unique_name("kafka")) as broker,
            replace(testbed, kafka=broker.bootstrap_servers).workload(REST, **SETTINGS) as workload,
        ):
            with (
                proxied(workload, "s3.endpoint") as store,
                live_workload(workload, broker, store, self.seed) as live,
                query_throughout(workload.lab, refusals=TOLERATED) as (asker, loop),
            ):
                for name, happened in self._events(live):
                    counts[name] += 1
                    live.history.append(f"{counts.total()}. {name}: {happened}")
                    # Its own end says which answer it was.
                    assert loop.is_running, "\n".join(("a wrong answer after", *live.history))
                    if counts.total() % CHECKED_EVERY == 0:
                        _check_in_between(live)
                while live.sleepers:
                    live.wake()
            seconds = _repair(workload)
            found = check(workload)
        history = ", ".join(f"{times} {name}" for name, times in counts.items())
        refused = ", ".join(f"{times} {code}" for code, times in asker.refused.items())
        happened = (
            f"seed {self.seed}, {workload.contents.records:,} records, {counts.total()} events: {history};"
            f" {asker.answers} answers, all exact, refused {refused or 'none'}"
        )
        return found.findings(happened, recovery_seconds=seconds)

    def _events(self, live: LiveWorkload) -> Iterator[tuple[str, str]]:
        """Yield the names and results of events."""
        deadline = time.monotonic() + 60 * self.minutes
        for number, (name, draw) in enumerate(drawn_events(self.seed), start=1):
            if time.monotonic() >= deadline:
                return
            try:
                happened = EVENTS[name][1](live, draw)
            except Exception as error:
                before = "\n".join(("after", *live.history))
                raise AssertionError(
                    f"seed {self.seed}, event {number}, {name}: {error}\n{before}"
                ) from error
            yield name, happened


def drawn_events(seed: int) -> Iterator[tuple[str, random.Random]]:
    """Yield names of events forever, each with its own random generator.

    So how far one event got does not change what the next ones are.
    """
    choices = random.Random(seed)
    weights = [weight for weight, _ in EVENTS.values()]
    for number in count():
        (name,) = choices.choices(list(EVENTS), weights)
        yield name, random.Random(f"{seed}/{number}")


def soaks(seed: int) -> Iterator[Scenario]:
    """Yield the soaks of the full run and of the quick selection."""
    yield Soak("rest/soak", seed, FULL_MINUTES).scenario()
    yield Soak("rest/soak/short", seed, QUICK_MINUTES).scenario()


def _check_in_between(live: LiveWorkload) -> None:
    """Stop at the first error: fewer events are then left to examine."""
    found = live.workload.lab.audit()
    assert found.is_clean, "\n".join((f"{found}", "after", *live.history))


def _repair(workload: Workload) -> float:
    """Run repairs after the end, when no earlier run can be alive; return the seconds."""

    def later_us() -> int:
        return time.time_ns() // 1000 + 2 * CLOSING_AFTER_US

    began = time.monotonic()
    # A rollback late in the soak leaves more than one run drains within its budget.
    while workload.lab.drain(now_us=later_us).stopped == "budget":
        pass
    with workload.lab.connections(now_us=later_us) as connections:
        settle_left_replays(workload.lab.pipeline, connections)
    return time.monotonic() - began

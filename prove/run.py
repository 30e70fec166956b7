"""Runs scenarios in parallel, and those that need the whole machine alone.

The work is a process of its own; the nemesis and the checker are a thread.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from prove.lab.left_out import LeftOut
from prove.scenario import Outcome, Scenario
from prove.workload import Testbed


def run_scenarios(
    scenarios: Sequence[Scenario],
    testbed: Testbed,
    *,
    jobs: int,
    on_outcome: Callable[[Outcome], None] = lambda _outcome: None,
) -> list[Outcome]:
    """Run all, whatever their results; return outcomes in the order of ``scenarios``."""
    outcomes: dict[str, Outcome] = {}
    beside_others = [scenario for scenario in scenarios if not scenario.is_alone]
    alone = [scenario for scenario in scenarios if scenario.is_alone]
    for side_by_side, chosen in ((jobs, beside_others), (1, alone)):
        for outcome in _outcomes(chosen, testbed, side_by_side):
            outcomes[outcome.name] = outcome
            on_outcome(outcome)
    return [outcomes[scenario.name] for scenario in scenarios]


def _outcomes(scenarios: Sequence[Scenario], testbed: Testbed, jobs: int) -> Iterator[Outcome]:
    """Yield outcomes as they arrive."""
    longest_first = sorted(scenarios, key=lambda scenario: -scenario.minutes)
    with ThreadPoolExecutor(jobs) as pool:
        try:
            for done in as_completed([pool.submit(run_one, scenario, testbed) for scenario in longest_first]):
                yield done.result()
        finally:
            # After Ctrl-C the pool would go on to the last scenario; those under way end in seconds.
            pool.shutdown(cancel_futures=True)


def run_one(scenario: Scenario, testbed: Testbed) -> Outcome:
    """Run one scenario, and return its duration."""
    findings, failure, left_out = None, "", ""
    began = time.monotonic()
    try:
        findings = scenario.run(testbed)
    except LeftOut as reason:
        left_out = str(reason)
    except Exception:  # noqa: BLE001  (a case that cannot be made fails, the others go on)
        failure = traceback.format_exc()
    return Outcome(
        name=scenario.name,
        group=scenario.group,
        title=scenario.title,
        promise=scenario.promise,
        seconds=time.monotonic() - began,
        findings=findings,
        failure=failure,
        left_out=left_out,
        again=scenario.again,
    )

"""Runs scenarios side by side, each in one of a few processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TYPE_CHECKING

from prove.catalogue import all_scenarios
from prove.scenario import LeftOut, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from prove.scenario import Scenario
    from prove.stage import Stage


def run_scenarios(
    scenarios: Sequence[Scenario],
    stage: Stage,
    *,
    jobs: int,
    on_outcome: Callable[[Outcome], None] = lambda _outcome: None,
) -> list[Outcome]:
    """Run them all, whatever becomes of each; outcomes in the order of ``scenarios``.

    What the processes say goes to a log in the stage's folder.
    """
    context = multiprocessing.get_context("spawn")
    log = stage.folder / "logs" / "scenarios.log"
    log.parent.mkdir(exist_ok=True)
    outcomes: dict[str, Outcome] = {}
    with ProcessPoolExecutor(jobs, context, initializer=_speak_to, initargs=(log,)) as pool:
        running = [pool.submit(run_one, scenario.name, stage) for scenario in scenarios]
        for done in as_completed(running):
            outcome = done.result()
            outcomes[outcome.name] = outcome
            on_outcome(outcome)
    return [outcomes[scenario.name] for scenario in scenarios]


def run_one(name: str, stage: Stage) -> Outcome:
    """One scenario in this process."""
    scenario = all_scenarios()[name]
    findings, failure, left_out = None, "", ""
    began = time.monotonic()
    try:
        findings = scenario.run(stage)
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
    )


def _speak_to(log: Path) -> None:
    """Let this process and all that it starts write there: proxies and killed runs say much."""
    with log.open("ab") as file:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(file.fileno(), stream.fileno())

"""In which order a proof runs its scenarios."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from prove.run import run_scenarios
from prove.scenario import Findings, Scenario
from prove.workload import Testbed

if TYPE_CHECKING:
    from collections.abc import Callable


def test_what_takes_a_machine_has_nothing_beside_it() -> None:
    """It begins when the last of the others has ended, wherever it stands; outcomes keep their order."""
    under_way: list[str] = []
    beside: dict[str, list[str]] = {}

    def running(name: str) -> Callable[[Testbed], Findings]:
        def run(_stage: Testbed) -> Findings:
            beside[name] = list(under_way)
            under_way.append(name)
            time.sleep(0.05)
            under_way.remove(name)
            return Findings("it ran")

        return run

    def scenario(name: str, *, is_alone: bool) -> Scenario:
        return Scenario(name, "group", "title", "promise", running(name), is_alone=is_alone)

    names = {"large": True, "a": False, "b": False, "large too": True, "c": False}
    chosen = [scenario(name, is_alone=is_alone) for name, is_alone in names.items()]
    outcomes = run_scenarios(chosen, Testbed(Path(), ""), jobs=3)
    assert [outcome.name for outcome in outcomes] == list(names)
    assert list(beside)[-2:] == ["large", "large too"]
    assert beside["large"] == beside["large too"] == []
    assert any(beside[name] for name in ("a", "b", "c"))

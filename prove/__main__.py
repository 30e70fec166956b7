"""``python -m prove``: servers of its own, scenarios side by side, a report, nothing left behind."""

from __future__ import annotations

import os
import platform
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from prove import report
from prove.catalogue import choose
from prove.run import run_scenarios
from prove.scenario import Outcome, Scenario
from prove.servers import running_servers
from prove.soak.soak import Soak
from servers.environment import clean_environment
from servers.java import java_home

PAGE = Path(__file__).resolve().parents[1] / "docs" / "RELIABILITY.md"
EXIT_BROKEN = 1


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="A selection, in a few minutes.")
@click.option(
    "--only", default="*", metavar="PATTERN", help="Scenarios whose name matches; `*` is a wildcard."
)
@click.option("--jobs", default=2, type=click.IntRange(min=1), show_default=True, help="How many at once.")
@click.option(
    "--soak", type=click.FloatRange(min=0), metavar="MINUTES", help="Nothing but a soak, for so long."
)
@click.option("--seed", type=int, help="What happens in a soak; without it something new each time.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object as the last line.")
def main(*, quick: bool, only: str, jobs: int, soak: float | None, seed: int | None, is_json: bool) -> None:
    """Strike real pipelines at every point, restart them, and count what was lost or doubled.

    The whole matrix takes about an hour and writes docs/RELIABILITY.md.
    """
    if soak is not None and (quick or only != "*"):
        raise click.UsageError("--soak runs one soak and nothing else: leave out --quick and --only")
    seed = random.randrange(1_000_000) if seed is None else seed
    if soak is None:
        chosen = choose(only=only, is_quick=quick, seed=seed)
    else:
        chosen = [Soak("rest/soak", seed, soak).scenario()]
    if not chosen:
        raise click.UsageError(f"no scenario is named {only}")
    os.environ |= clean_environment(java_home())
    for name in ("SLUICE_CONFIG", "SLUICE_CONFIG_YAML", "SLUICE_HOME"):
        os.environ.pop(name, None)
    # A terminated run unmounts and deletes what it made, as an interrupted one does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()
    outcomes = _run(chosen, jobs)
    print(f"\n{report.summary(outcomes)}")
    for outcome in outcomes:
        if not outcome.is_kept:
            print(report.command_of(outcome))
    if not quick and only == "*" and soak is None:
        PAGE.write_text(report.as_page(outcomes, _machine(), (time.monotonic() - began) / 60))
        print(f"written: {PAGE}")
    if is_json:
        print(report.as_json(outcomes, _machine()))
    sys.exit(0 if all(outcome.is_kept for outcome in outcomes) else EXIT_BROKEN)


def _run(chosen: list[Scenario], jobs: int) -> list[Outcome]:
    done: list[Outcome] = []

    def tell(outcome: Outcome) -> None:
        done.append(outcome)
        print(report.line(outcome, len(done), len(chosen)), flush=True)
        if not outcome.is_kept:
            print(report.complaint(outcome), flush=True)

    needs = {need for scenario in chosen for need in scenario.needs}
    print(f"{len(chosen)} scenarios; starting {', '.join(('kafka', *sorted(needs)))}", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="sluice-prove-", ignore_cleanup_errors=True) as folder,
        _murmuring_to(Path(folder) / "scenarios.log"),
        running_servers(Path(folder), needs) as testbed,
    ):
        return run_scenarios(chosen, testbed, jobs=jobs, on_outcome=tell)


@contextmanager
def _murmuring_to(log: Path) -> Iterator[None]:
    """Let standard error go there: proxies and runs that are killed say much."""
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _machine() -> dict[str, Any]:
    return {
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
        "processors": os.cpu_count(),
    }


if __name__ == "__main__":
    main(prog_name="./sluice prove")

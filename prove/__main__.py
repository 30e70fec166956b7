"""``python -m prove``: starts servers, runs scenarios in parallel, reports, and cleans up."""

from __future__ import annotations

import os
import platform
import random
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from prove import report, stored_rows
from prove.catalogue import all_scenarios, choose
from prove.run import run_scenarios
from prove.scenario import Outcome, Scenario
from prove.servers import running_servers
from prove.soak.soak import Soak
from prove.stored_rows import Row
from servers.environment import clean_environment

PAGE = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "reliability.md"
COUNTS_HEADING = "## Counts\n\n"
EXIT_BROKEN = 1


def _shard(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[int, int] | None:
    """Parse ``I/N``."""
    if text is None:
        return None
    part, _, of = text.partition("/")
    if not (part.isdecimal() and of.isdecimal() and 1 <= int(part) <= int(of)):
        raise click.BadParameter("write it as 1/3: part 1 of 3")
    return int(part), int(of)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="Run a selection, which takes a few minutes.")
@click.option(
    "--only", default="*", metavar="PATTERN", help="Run the scenarios whose name matches. `*` is a wildcard."
)
@click.option(
    "--jobs",
    default=2,
    type=click.IntRange(min=1),
    show_default=True,
    help="Number of scenarios to run at once.",
)
@click.option(
    "--soak", type=click.FloatRange(min=0), metavar="MINUTES", help="Run only a soak test of this length."
)
@click.option("--seed", type=int, help="Random seed of the soak test. Default: a new one.")
@click.option(
    "--resume",
    is_flag=True,
    help="Skip rows that are stored for the same product code, and store new ones.",
)
@click.option(
    "--shard", metavar="I/N", callback=_shard, help="Run part I of N of the scenarios, counted from 1."
)
@click.option(
    "--report",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the stored rows as HTML and JSON to this folder. Runs nothing.",
)
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object as the last line.")
def main(
    *,
    quick: bool,
    only: str,
    jobs: int,
    soak: float | None,
    seed: int | None,
    resume: bool,
    shard: tuple[int, int] | None,
    folder: Path | None,
    is_json: bool,
) -> None:
    """Kill real pipelines at every step, restart them, and count lost and duplicated records.

    The whole matrix takes about two hours. Each result is stored in prove/rows.jsonl at once, and --resume
    runs the missing ones, also on another machine and by shards. Results are valid for one version of the
    product code and lock files. A complete matrix updates the counts in docs/explanation/reliability.md.
    """
    is_part = quick or only != "*" or resume or shard is not None
    if folder is not None:
        if is_part or soak is not None or is_json:
            raise click.UsageError("--report cannot be combined with other options")
        _write_report(folder)
        return
    if soak is not None and is_part:
        raise click.UsageError("--soak runs one soak and nothing else: leave out every other choice")
    if quick and resume:
        raise click.UsageError("--quick keeps no rows: leave out --quick or --resume")
    seed = random.randrange(1_000_000) if seed is None else seed
    if soak is None:
        chosen = choose(only=only, is_quick=quick, seed=seed)
        chosen = stored_rows.shard_of(chosen, *shard) if shard else chosen
    else:
        chosen = [Soak("rest/soak", seed, soak).scenario()]
    if not chosen:
        raise click.UsageError(f"no scenario is named {only}")
    os.environ |= clean_environment()
    for name in ("SLUICE_CONFIG", "SLUICE_CONFIG_YAML", "SLUICE_HOME"):
        os.environ.pop(name, None)
    # A terminated run unmounts and deletes what it made, as an interrupted one does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if resume or (soak is None and not is_part):
        outcomes = _run_and_keep(chosen, jobs, all_scenarios(seed), is_new=not resume)
    else:
        outcomes = _run(chosen, jobs)
    if is_json:
        print(report.as_json(outcomes, {"machine": _machine()}))
    sys.exit(0 if all(outcome.is_kept for outcome in outcomes) else EXIT_BROKEN)


def _run_and_keep(
    chosen: list[Scenario], jobs: int, everything: dict[str, Scenario], *, is_new: bool
) -> list[Outcome]:
    """Run scenarios without a row, store their rows, and update the page once none is missing."""
    digest = stored_rows.product_digest()
    rows = {} if is_new else stored_rows.read_rows(stored_rows.ROWS, digest, everything)
    stored_rows.write_rows(stored_rows.ROWS, rows.values())
    missing = [each for each in chosen if each.name not in rows or rows[each.name].outcome.left_out]
    print(f"product {digest}: {len(chosen) - len(missing)} rows are kept, {len(missing)} are to be made")

    def keep(outcome: Outcome) -> None:
        if outcome.is_kept:
            rows[outcome.name] = Row(digest, datetime.now(UTC), outcome)
            stored_rows.append_row(stored_rows.ROWS, rows[outcome.name])

    outcomes = _run(missing, jobs, keep) if missing else []
    in_order = [rows[name] for name in everything if name in rows]
    print(f"{len(in_order)} of {len(everything)} rows are kept: {stored_rows.ROWS}")
    if len(in_order) == len(everything):
        stored_rows.write_rows(stored_rows.ROWS, in_order)
        counts = report.as_counts([row.outcome for row in in_order], stored_rows.origin(in_order))
        PAGE.write_text(with_counts(PAGE.read_text(), counts))
        print(f"written: {PAGE}")
    return outcomes


def with_counts(page: str, counts: str) -> str:
    """Return the page with these counts in its last section of that name."""
    before, heading, _ = page.partition(COUNTS_HEADING)
    return f"{before}{heading}{counts}"


def _write_report(folder: Path) -> None:
    rows = stored_rows.all_rows(stored_rows.ROWS)
    if not rows:
        raise click.UsageError(f"{stored_rows.ROWS} has no rows: run ./sluice prove first")
    outcomes, origin = [row.outcome for row in rows], stored_rows.origin(rows)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prove-report.html").write_text(report.as_html(outcomes, origin), encoding="utf-8")
    (folder / "prove-report.json").write_text(report.as_json(outcomes, {"run": origin}), encoding="utf-8")
    print(
        f"{report.summary(outcomes)}\nwritten: {folder / 'prove-report.html'}, {folder / 'prove-report.json'}"
    )


def _run(
    chosen: list[Scenario], jobs: int, on_outcome: Callable[[Outcome], None] = lambda _outcome: None
) -> list[Outcome]:
    done: list[Outcome] = []

    def tell(outcome: Outcome) -> None:
        done.append(outcome)
        on_outcome(outcome)
        print(report.line(outcome, len(done), len(chosen)), flush=True)
        if not outcome.is_kept:
            print(report.complaint(outcome), flush=True)

    needs = {need for scenario in chosen for need in scenario.needs}
    print(f"{len(chosen)} scenarios; starting {', '.join(('kafka', *sorted(needs)))}", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="sluice-prove-", ignore_cleanup_errors=True) as folder,
        _stderr_to(Path(folder) / "scenarios.log"),
        running_servers(Path(folder), needs) as testbed,
    ):
        outcomes = run_scenarios(chosen, testbed, jobs=jobs, on_outcome=tell)
    print(f"\n{report.summary(outcomes)}")
    for outcome in outcomes:
        if not outcome.is_kept:
            print(report.command_of(outcome))
    return outcomes


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Redirect standard error to the file: proxies and killed runs write much of it."""
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

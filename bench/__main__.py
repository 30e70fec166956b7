"""``python -m bench``: every part in turn, over one broker of its own; nothing is left behind."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from bench.catch_up import measure_catch_up
from bench.cold_start import measure_cold_start
from bench.kafka_connect import measure_kafka_connect
from bench.lab import Lab, open_lab
from bench.many_commits import measure_many_commits
from bench.memory import measure_memory
from bench.pipelines import measure_pipelines
from bench.report import (
    Row,
    catch_up_rows,
    cold_start_rows,
    kafka_connect_rows,
    machine,
    many_commits_rows,
    memory_rows,
    pipelines_rows,
    print_json,
    print_table,
    shapes_rows,
    small_batches_rows,
    splits_rows,
    tick_rows,
)
from bench.shapes import measure_shapes
from bench.small_batches import measure_small_batches
from bench.splits import measure_splits
from bench.tick import measure_tick
from servers.environment import clean_environment
from servers.java import java_home


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much each part does."""

    catch_up_records: int
    splits_records: int
    shapes_records: int
    memory_records: int
    small_runs: int
    small_batches_per_run: int
    tick_rounds: int
    commits: int
    kafka_connect_records: int
    cold_starts: int
    pipelines: int


FULL = Sizes(
    catch_up_records=5_000_000,
    splits_records=600_000,
    shapes_records=2_000_000,
    memory_records=1_000_000,
    small_runs=5,
    small_batches_per_run=10,
    tick_rounds=20,
    commits=2_000,
    kafka_connect_records=3_000_000,
    cold_starts=5,
    pipelines=1_000,
)
QUICK = Sizes(
    catch_up_records=300_000,
    splits_records=100_000,
    shapes_records=200_000,
    memory_records=100_000,
    small_runs=3,
    small_batches_per_run=5,
    tick_rounds=3,
    commits=200,
    kafka_connect_records=300_000,
    cold_starts=1,
    pipelines=200,
)


@dataclass(frozen=True, slots=True)
class Part:
    """What one part measures, how, and how that is shown."""

    about: str
    measure: Callable[[Lab, Sizes], Any]
    rows: Callable[[Any], list[Row]]


PARTS = {
    "catch_up": Part(
        "a long backlog: the drain beside a bare loop, CPU a row by step",
        lambda lab, sizes: measure_catch_up(lab, sizes.catch_up_records),
        catch_up_rows,
    ),
    "splits": Part(
        "one Kafka partition drained by 1, 2 and 4 tasks",
        lambda lab, sizes: measure_splits(lab, sizes.splits_records),
        splits_rows,
    ),
    "shapes": Part(
        "catch_up for records of 200 fields, nested ones, tiny ones",
        lambda lab, sizes: measure_shapes(lab, sizes.shapes_records),
        shapes_rows,
    ),
    "memory": Part(
        "a task's memory by backlog and by partitions written",
        lambda lab, sizes: measure_memory(lab, sizes.memory_records),
        memory_rows,
    ),
    "small_batches": Part(
        "a run's first batch of 1,000 records, and each later one",
        lambda lab, sizes: measure_small_batches(
            lab, runs=sizes.small_runs, batches_per_run=sizes.small_batches_per_run
        ),
        small_batches_rows,
    ),
    "kafka_connect": Part(
        "the same topic through Kafka Connect with Iceberg's own sink",
        lambda lab, sizes: measure_kafka_connect(lab, sizes.kafka_connect_records),
        kafka_connect_rows,
    ),
    "cold_start": Part(
        "starts: Spark's server, the code location, commands, imports",
        lambda lab, sizes: measure_cold_start(lab, sizes.cold_starts),
        cold_start_rows,
    ),
    "tick": Part(
        "sensor tick to commit, an empty tick, an idle daemon",
        lambda lab, sizes: measure_tick(lab, sizes.tick_rounds),
        tick_rows,
    ),
    "many_commits": Part(
        "commit time over 2,000 commits with upkeep between them",
        lambda lab, sizes: measure_many_commits(lab, sizes.commits),
        many_commits_rows,
    ),
    "pipelines": Part(
        "the code location of 100 and of 1,000 pipelines, and a run in it",
        lambda lab, sizes: measure_pipelines(lab.folder, sizes.pipelines),
        pipelines_rows,
    ),
}


LISTED = "\n".join(f"  {name:<14} {part.about}" for name, part in PARTS.items())


@click.command(context_settings={"help_option_names": ["-h", "--help"]}, epilog=f"\b\nParts:\n{LISTED}")
@click.argument("parts", nargs=-1, type=click.Choice(list(PARTS)), metavar="[PART]...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object as the last line.")
@click.option("--quick", is_flag=True, help="Small sizes: a few minutes; ratios are rougher.")
@click.option("--records", type=click.IntRange(min=1), help="Records of the catch-up.")
def main(parts: tuple[str, ...], *, as_json: bool, quick: bool, records: int | None) -> None:
    """Measure every part or those named: ratios hold within one run only."""
    os.environ |= clean_environment(java_home())
    for name in ("SLUICE_CONFIG", "SLUICE_HOME"):
        os.environ.pop(name, None)
    base = QUICK if quick else FULL
    sizes = base if records is None else replace(base, catch_up_records=records)
    results: dict[str, Any] = {"machine": machine()}
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder, open_lab(Path(folder)) as lab:
        for part in parts or PARTS:
            results[part] = PARTS[part].measure(lab, sizes)
            print_table(part, PARTS[part].rows(results[part]))
    if as_json:
        print_json(results)


if __name__ == "__main__":
    main(prog_name="./sluice bench")

"""``python -m bench``: runs each part in turn over one broker, and cleans up."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from bench.catch_up import measure_catch_up
from bench.cold_start import measure_cold_start
from bench.footprint import measure_footprint
from bench.formats import measure_formats
from bench.gateway import measure_gateway
from bench.hot import measure_hot, measure_hot_watch
from bench.kafka_connect import measure_kafka_connect
from bench.lab import open_lab
from bench.lookups import measure_lookups
from bench.many_commits import measure_many_commits
from bench.many_pipelines import measure_many_pipelines
from bench.memory import measure_memory
from bench.mirror import measure_mirror
from bench.partitions import measure_partitions
from bench.pipelines import measure_pipelines
from bench.redrives import measure_redrives
from bench.report import (
    Row,
    catch_up_rows,
    cold_start_rows,
    footprint_rows,
    formats_rows,
    gateway_rows,
    hot_rows,
    hot_watch_rows,
    kafka_connect_rows,
    lookups_rows,
    machine,
    many_commits_rows,
    many_pipelines_rows,
    memory_rows,
    mirror_rows,
    partitions_rows,
    pipelines_rows,
    print_json,
    print_table,
    redrives_rows,
    shapes_cost_rows,
    shapes_rows,
    small_batches_rows,
    splits_rows,
    tick_rows,
)
from bench.shapes import measure_shapes
from bench.shapes_cost import measure_shapes_cost
from bench.small_batches import measure_small_batches
from bench.splits import measure_splits
from bench.tick import measure_tick
from servers.environment import clean_environment


@dataclass(frozen=True, slots=True)
class Part:
    """A part: its measurement and output; ``full`` and ``quick`` are its sizes."""

    about: str
    measure: Callable[..., Any]
    rows: Callable[[Any], list[Row]]
    full: tuple[int, ...]
    quick: tuple[int, ...]


PARTS = {
    "catch_up": Part(
        "a long backlog: the drain beside a bare loop, CPU a row by step",
        measure_catch_up,
        catch_up_rows,
        full=(5_000_000,),
        quick=(300_000,),
    ),
    "splits": Part(
        "one Kafka partition drained by 1, 2 and 4 tasks",
        measure_splits,
        splits_rows,
        full=(600_000,),
        quick=(100_000,),
    ),
    "partitions": Part(
        "a topic of 512 partitions beside one of 4, a long backlog and a small batch",
        measure_partitions,
        partitions_rows,
        full=(1_000_000,),
        quick=(100_000,),
    ),
    "shapes": Part(
        "catch_up for records of 200 fields, nested ones, tiny ones",
        measure_shapes,
        shapes_rows,
        full=(2_000_000,),
        quick=(200_000,),
    ),
    "formats": Part(
        "orders as JSON, Avro and Protobuf: decoding, drains, archives, export",
        measure_formats,
        formats_rows,
        full=(100_000,),
        quick=(20_000,),
    ),
    "shapes_cost": Part(
        "columns and filters beside rows as they are",
        measure_shapes_cost,
        shapes_cost_rows,
        full=(300_000,),
        quick=(30_000,),
    ),
    "mirror": Part(
        "a mirror beside a table of its changes and beside Spark's MERGE, a hundred batches, a large one",
        measure_mirror,
        mirror_rows,
        full=(1_000_000, 100, 10_000_000),
        quick=(50_000, 3, 100_000),
    ),
    "gateway": Part(
        "a gateway of twenty clients beside a bare transactional producer",
        measure_gateway,
        gateway_rows,
        full=(400,),
        quick=(10,),
    ),
    "lookups": Part(
        "keys looked up and rows counted in a large lake, beside reading all of it",
        measure_lookups,
        lookups_rows,
        full=(5_000_000,),
        quick=(100_000,),
    ),
    "redrives": Part(
        "dead letters sent through again beside a replay of as many rows",
        measure_redrives,
        redrives_rows,
        full=(100_000,),
        quick=(10_000,),
    ),
    "memory": Part(
        "a task's memory by backlog and by partitions written",
        measure_memory,
        memory_rows,
        full=(1_000_000,),
        quick=(100_000,),
    ),
    "small_batches": Part(
        "a run's first batch of 1,000 records, and each later one",
        measure_small_batches,
        small_batches_rows,
        full=(5, 10),
        quick=(3, 5),
    ),
    "hot": Part(
        "a follower: freshness beside a bare consumer, CPU and memory a row, queries over hot rows",
        measure_hot,
        hot_rows,
        full=(1_000_000, 20, 50_000),
        quick=(60_000, 3, 1_000),
    ),
    "hot_watch": Part(
        "a follower of 50,000 rows/s for five minutes, with queries and drains beside it",
        measure_hot_watch,
        hot_watch_rows,
        full=(300,),
        quick=(60,),
    ),
    "kafka_connect": Part(
        "the same topic through Kafka Connect with Iceberg's own sink",
        measure_kafka_connect,
        kafka_connect_rows,
        full=(3_000_000,),
        quick=(300_000,),
    ),
    "cold_start": Part(
        "starts: Spark's server, the code location, commands, imports",
        measure_cold_start,
        cold_start_rows,
        full=(5,),
        quick=(1,),
    ),
    "tick": Part(
        "sensor tick to commit, an empty tick, an idle daemon",
        measure_tick,
        tick_rows,
        full=(20,),
        quick=(3,),
    ),
    "many_commits": Part(
        "commit time over 2,000 commits with upkeep between them",
        measure_many_commits,
        many_commits_rows,
        full=(2_000,),
        quick=(200,),
    ),
    "pipelines": Part(
        "the code location of 100 and of 1,000 pipelines, and a run in it",
        measure_pipelines,
        pipelines_rows,
        full=(1_000,),
        quick=(200,),
    ),
    "many_pipelines": Part(
        "age of waiting records of 300 pipelines in one `up`, each with 100 records a minute",
        measure_many_pipelines,
        many_pipelines_rows,
        full=(300, 13),
        quick=(20, 1),
    ),
    "footprint": Part(
        "memory and CPU of `up` by process, idle and draining; Kafka Connect's worker beside it",
        measure_footprint,
        footprint_rows,
        full=(2_000_000, 1, 10, 100),
        quick=(200_000, 1, 10),
    ),
}


LISTED = "\n".join(f"  {name:<14} {part.about}" for name, part in PARTS.items())


@click.command(context_settings={"help_option_names": ["-h", "--help"]}, epilog=f"\b\nParts:\n{LISTED}")
@click.argument("parts", nargs=-1, type=click.Choice(list(PARTS)), metavar="[PART]...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object as the last line.")
@click.option("--quick", is_flag=True, help="Use small sizes. Takes a few minutes; ratios are less exact.")
@click.option("--records", type=click.IntRange(min=1), help="Number of records of the catch-up part.")
def main(parts: tuple[str, ...], *, as_json: bool, quick: bool, records: int | None) -> None:
    """Measure all parts or the named ones: ratios are valid within one run only."""
    os.environ |= clean_environment()
    for name in ("SLUICE_CONFIG", "SLUICE_CONFIG_YAML", "SLUICE_HOME"):
        os.environ.pop(name, None)
    results: dict[str, Any] = {"machine": machine()}
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder, open_lab(Path(folder)) as lab:
        for part in parts or PARTS:
            chosen = PARTS[part]
            sizes = chosen.quick if quick else chosen.full
            if part == "catch_up" and records is not None:
                sizes = (records,)
            results[part] = chosen.measure(lab, *sizes)
            print_table(part, chosen.rows(results[part]))
    if as_json:
        print_json(results)


if __name__ == "__main__":
    main(prog_name="./sluice bench")

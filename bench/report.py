"""Output of measurements, for people and for programs."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.catch_up import GOAL_AUDIT_RATIO, GOAL_CPU_US_PER_ROW, GOAL_RATIO, CatchUpResult
from bench.cold_start import ColdStartResult
from bench.export_loop import GOAL_SPEED
from bench.footprint import (
    GOAL_HUNDRED_BYTES,
    GOAL_MORE_BYTES,
    GOAL_MORE_CORES,
    GOAL_REST_BYTES,
    FootprintResult,
    Usage,
)
from bench.formats import GOALS, FormatsResult
from bench.gateway import GOAL_ACK, GatewayResult
from bench.gateway import GOAL_RATIO as GATEWAY_GOAL_RATIO
from bench.hot import (
    GOAL_BYTES,
    GOAL_CPU,
    GOAL_IDLE,
    GOAL_LOOKUP,
    GOAL_TOGETHER,
    GOAL_WORKER_BYTES,
    Freshness,
    HotResult,
)
from bench.kafka_connect import KafkaConnectResult, Sunk, cpu_us_per_row
from bench.lookups import GOAL_COUNT, LookupsResult
from bench.lookups import GOAL_LOOKUP as GOAL_IN_LAKE
from bench.many_commits import GOAL_RATIO as MANY_COMMITS_GOAL_RATIO
from bench.many_commits import ManyCommitsResult
from bench.many_pipelines import (
    GOAL_AGE_P95_SECONDS,
    GOAL_AGE_SECONDS,
    GOAL_FIRST_TICK_SECONDS,
    ManyPipelinesResult,
)
from bench.memory import GOAL_GROWTH, MemoryResult
from bench.mirror import GOALS as MIRROR
from bench.mirror import MirrorResult
from bench.partitions import GOAL_CPU_RATIO, GOAL_SMALL_RATIO, SMALL_RECORDS, PartitionsResult
from bench.pipelines import GOAL_GROWTH as PIPELINES_GOAL_GROWTH
from bench.pipelines import PipelinesResult
from bench.redrives import GOAL as GOAL_REDRIVE
from bench.redrives import RedrivesResult
from bench.shapes_cost import GOALS as COST_GOALS
from bench.shapes_cost import PLAIN, ShapesCostResult
from bench.small_batches import GOAL_FIRST_SECONDS, GOAL_LATER_SECONDS, SmallBatchesResult
from bench.splits import SplitsResult
from bench.tick import GOAL_P50_SECONDS, GOAL_P95_SECONDS, TickResult

MIB = 1024 * 1024
PIPE_WIDTH = 140
SHARE = "drain's speed as a share of the bare loop's"  # 1 is as fast, 1.1 a tenth faster
Row = tuple[str, str, str]


def machine() -> dict[str, Any]:
    """Return what the figures depend on; ``load`` is the load at the start of the run."""
    return {
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "load": os.getloadavg()[0],
    }


def catch_up_rows(result: CatchUpResult) -> list[Row]:
    """Speed of the drain and the bare loop, and CPU a row."""
    own, bare = result.drain_cpu_us_per_row, result.bare_cpu_us_per_row
    steps = " · ".join(f"{step} {us:.2f}" for step, us in result.cpu_us_per_row_by_step.items())
    speed = f"{result.drain_rows_per_second:,.0f} rows/s, {result.drain_megabytes_per_second:,.0f} MB/s"
    return [
        (f"drain of {result.records:,} records", speed, ""),
        ("bare loop, two processes", f"{result.bare_rows_per_second:,.0f} rows/s", ""),
        (f"{SHARE}, by time", f"{result.ratio:.2f}", f">= {GOAL_RATIO}"),
        *((f"  round {r.order}", f"{r.ratio:.2f}", "") for r in result.rounds),
        (f"{SHARE}, by CPU time", _ratio(result.cpu_ratio), ""),
        ("drain's CPU µs a row, all processes", _ratio(own), f"<= {GOAL_CPU_US_PER_ROW}"),
        ("bare loop's CPU µs a row", f"{bare:.2f}", ""),
        ("CPU time of an audit over the drain's", _ratio(result.audit_ratio), f"<= {GOAL_AUDIT_RATIO}"),
        ("tasks' CPU µs a row, by step", steps, ""),
        *_steps("of the first drain, ms", result.rounds[0].drain_durations_ms, 0),
    ]


def memory_rows(result: MemoryResult) -> list[Row]:
    """Peak memory of a task by backlog."""
    return [
        (f"task's peak, {result.short_records:,} records", f"{result.short_peak_bytes / MIB:,.0f} MiB", ""),
        (f"task's peak, {result.long_records:,} records", f"{result.long_peak_bytes / MIB:,.0f} MiB", ""),
        ("growth", f"{result.growth:+.0%}", f"<= {GOAL_GROWTH:+.0%}"),
        *(
            (f"task's peak, {number} table partitions", f"{peak_bytes / MIB:,.0f} MiB", "")
            for number, peak_bytes in result.by_partitions.items()
        ),
        ("  their data files", " · ".join(map(str, result.files_by_partitions.values())), ""),
    ]


def splits_rows(result: SplitsResult) -> list[Row]:
    """Speed and CPU a row by number of tasks over one Kafka partition."""
    rows: list[Row] = []
    for tasks, drained in result.by_tasks.items():
        speed = f"{drained.rows_per_second:,.0f} rows/s; {result.gain(tasks):.2f} of one task"
        name = f"{result.records:,} records of one partition, {tasks} task{'s'[: tasks > 1]}"
        rows.append((name, f"{speed}; CPU µs a row {_ratio(drained.cpu_us_per_row)}", ""))
    return rows


def partitions_rows(result: PartitionsResult) -> list[Row]:
    """A long backlog and a small batch, of many partitions beside few."""
    rows: list[Row] = []
    for width, drained in result.by_width.items():
        name = f"{result.records:,} records over {width} partitions"
        rows += [
            (f"{name}, CPU µs a row", _ratio(drained.cpu_us_per_row), ""),
            (f"  a batch of {SMALL_RECORDS:,}", f"{drained.small_seconds:.2f} s", ""),
        ]
    few, many = result.by_width
    of = f"{many} partitions / {few}"
    return [
        *rows,
        (f"{of}, CPU a row", _ratio(result.cpu_ratio), f"<= {GOAL_CPU_RATIO}"),
        (f"{of}, a small batch", f"{result.small_ratio:.2f}", f"<= {GOAL_SMALL_RATIO:g}"),
    ]


def formats_rows(result: FormatsResult) -> list[Row]:
    """Each format's decoding and drain beside JSON's."""
    rows: list[Row] = [
        (f"decode, CPU µs a record: {name}", f"{us:.2f}", "") for name, us in result.decode_us.items()
    ]
    for name, ratio in result.ratios.items():
        rows.append((name if " / " in name else f"{name} / json", f"{ratio:.2f}", f"<= {GOALS[name]:g}"))
    for name, us in result.drain_us.items():
        rows.append((f"drain, tasks' CPU µs a row: {name}", f"{us:.2f}", ""))
    for name, (ratio, goal) in result.drain_ratios.items():
        rows.append((f"drain, {name}", f"{ratio:.2f}", f"<= {goal:g}"))
    export = result.export
    rows.append(
        (
            "export's speed as a share of a bare producer's, by time",
            f"{export.speed_ratio:.2f}",
            f">= {GOAL_SPEED:g}",
        )
    )
    both = f"{export.export_cpu_us:.2f}, {export.bare_cpu_us:.2f}"
    rows.append(("the same by CPU time; CPU µs a record of both", f"{export.cpu_ratio:.2f}; {both}", ""))
    return rows


def shapes_cost_rows(result: ShapesCostResult) -> list[Row]:
    """Return each case's CPU relative to rows without shaping."""
    rows: list[Row] = [("CPU µs a record: rows as they are", f"{result.us[PLAIN]:.2f}", "")]
    for name, ratio in result.ratios.items():
        goal = f"<= {COST_GOALS[name]:g}" if name in COST_GOALS else ""
        rows.append((f"{name} / as they are", f"{ratio:.2f}", goal))
    return rows


def redrives_rows(result: RedrivesResult) -> list[Row]:
    """Rows a second of both, and what part the redrive's are of the replay's."""
    sent, replayed = result.letters / result.redrive_seconds, result.rows / result.replay_seconds
    return [
        (f"redrive of {result.letters:,} dead letters", f"{sent:,.0f} rows/s", ""),
        (f"replay of {result.rows:,} rows", f"{replayed:,.0f} rows/s", ""),
        ("redrive / replay, rows/s", f"{result.ratio:.2f}", f">= {GOAL_REDRIVE:g}"),
    ]


def mirror_rows(result: MirrorResult) -> list[Row]:
    """Return costs of a mirror, of a table of its changes, of MERGE, and of a larger mirror."""
    load = result.append_load_seconds / result.load_seconds
    first, *between, last = result.batch_seconds
    worst = max(between, default=first)
    large = result.large_rows / result.large_load_seconds
    return [
        (f"load of {result.rows:,} rows, mirror / changes, rows/s", f"{load:.2f}", f">= {MIRROR['load']:g}"),
        (
            "10,000 changes: seconds of a drain, mirror / changes",
            _quotient(result.mirror_seconds, result.append_seconds),
            f"<= {MIRROR['append']:g}",
        ),
        (
            "10,000 changes: seconds of MERGE / fold and commit",
            _quotient(result.merge_seconds, result.commit_seconds),
            f">= {MIRROR['merge']:g}",
        ),
        ("  MERGE / the whole drain", _quotient(result.merge_seconds, result.mirror_seconds), ""),
        (
            f"{len(between) + 1} batches, {result.upkeeps} times upkeep: the slowest / the first",
            _quotient(worst, first),
            f"<= {MIRROR['worst']:g}",
        ),
        ("after upkeep / the first", f"{last / first:.2f}", f"<= {MIRROR['later']:g}"),
        (f"load of {result.large_rows:,} rows", f"{large:,.0f} rows/s", ""),
        (
            f"10,000 changes: seconds of a drain, {result.large_rows:,} / {result.rows:,} rows",
            _quotient(result.large_seconds, result.mirror_seconds),
            f"<= {MIRROR['large']:g}",
        ),
        (
            "  fold and commit alone",
            _quotient(result.large_commit_seconds, result.commit_seconds),
            f"<= {MIRROR['large']:g}",
        ),
        ("CPU a row, with schemas / without", f"{result.schema_cpu:.2f}", f"<= {MIRROR['schemas']:g}"),
    ]


def _quotient(seconds: float, by: float) -> str:
    return f"{seconds:.2f} / {by:.2f} = {seconds / by:.2f}"


def gateway_rows(result: GatewayResult) -> list[Row]:
    """Events a second of the gateway and of a bare producer, and how long an ack takes beside a commit."""
    told = f"{result.rate:,.0f} / {result.bare_rate:,.0f} = {result.rate / result.bare_rate:.2f}"
    acks = [
        f"{ms:.0f} / {result.commit_ms:.0f} = {ms / result.commit_ms:.2f}"
        for ms in (result.ack_ms, result.paced_ms)
    ]
    return [
        (
            f"{result.events:,} events of 20 clients: events/s, gateway / bare producer",
            told,
            f">= {GATEWAY_GOAL_RATIO:g}",
        ),
        ("p99 ms, an ack / the bare producer's window and commit", acks[0], ""),
        (f"  at {GATEWAY_GOAL_RATIO:g} of the bare producer's events/s", acks[1], f"<= {GOAL_ACK:g}"),
    ]


def hot_rows(result: HotResult) -> list[Row]:
    """Return freshness, the cost of following relative to a drain, and costs of queries."""
    rows = [row for each in result.freshness for row in hot_watch_rows(each)]
    follow = f"{result.follow_us:.2f} / {result.drain_us:.2f} = {result.follow_us / result.drain_us:.2f}"
    lookup = f"{result.lookup_ms:.1f} / {result.arrow_ms:.1f} = {result.lookup_ms / result.arrow_ms:.3f}"
    others = f"{result.sql_ms:.1f}; {result.both_ms:.1f}"
    most, own = result.asked_bytes
    asked = f"{most / 1e6:,.0f}; {own[0] / 1e6:,.0f}, {max(own[1:]) / 1e6:.0f}"
    goal = f"<= {GOAL_WORKER_BYTES / 1e6:.0f} a worker"
    rows += [
        ("cores, idle", f"{result.idle:.3f}", f"<= {GOAL_IDLE:g}"),
        (f"CPU µs a row of {result.rows:,}, following / tasks of a drain", follow, f"<= {GOAL_CPU:g}"),
        ("bytes a hot row", f"{result.row_bytes:.0f}", f"<= {GOAL_BYTES}"),
        ("the process's MB with them", f"{result.resident_bytes / 1e6:,.0f}", ""),
        (f"MB of {len(own)} processes that group; its own, a worker's at most", asked, goal),
        ("CPU ms of a key's lookup / by SQL over an Arrow table in DuckDB", lookup, f"<= {GOAL_LOOKUP:g}"),
        ("  as a query; as a lookup that opens a file of the lake", others, ""),
    ]
    for name, ms in result.together_ms.items():
        lake = result.lake_ms[name]
        told = f"{ms:.1f} / {lake:.1f} = {ms / lake:.2f}"
        rows.append((f"CPU ms of {name}, lake and hot / all in the lake", told, f"<= {GOAL_TOGETHER:g}"))
    return rows


def hot_watch_rows(result: Freshness) -> list[Row]:
    """Freshness at one rate beside a bare consumer, and whether it grew."""
    told = " / ".join(f"{ms:.0f}" for ms in (*result.hot_ms, *result.bare_ms))
    asked = f", {result.queries} queries/s" if result.queries else ""
    at = f"{result.rate:,} rows/s{asked}, {result.seconds} s"
    halves = " / ".join(f"{ms:.0f}" for ms in result.halves_ms)
    goal = "" if result.goal_ms is None else f"p99 <= {result.goal_ms:.0f}"
    return [
        (f"{at}: ms p50 / p99, follower's and bare consumer's", told, goal),
        (f"{at}: p99 of both halves; cores", f"{halves}; {result.cores:.2f}", "not growing"),
    ]


def lookups_rows(result: LookupsResult) -> list[Row]:
    """Return costs of lookups relative to a full scan."""
    found = zip(result.found, result.lookup_ms, strict=True)
    asked = [(f"a lookup that finds {rows}", ms, GOAL_IN_LAKE) for rows, ms in found]
    asked.append(("count(*)", result.count_ms, GOAL_COUNT))
    return [
        (
            f"CPU ms of {name} / of reading {result.rows:,} rows",
            f"{ms:.1f} / {result.whole_ms:,.0f} = {ms / result.whole_ms:.3f}",
            f"<= {goal:g}",
        )
        for name, ms, goal in asked
    ]


def shapes_rows(results: Mapping[str, CatchUpResult]) -> list[Row]:
    """Each shape's drain beside the bare loop over the same records."""
    return [row for name, result in results.items() for row in _shape_rows(name, result)]


def _shape_rows(name: str, result: CatchUpResult) -> list[Row]:
    steps = " · ".join(f"{step} {us:.2f}" for step, us in result.cpu_us_per_row_by_step.items())
    speed = f"{result.drain_rows_per_second:,.0f} rows/s, {result.drain_megabytes_per_second:,.0f} MB/s"
    own, bare = _ratio(result.drain_cpu_us_per_row), f"{result.bare_cpu_us_per_row:.2f}"
    by_cpu = _ratio(result.cpu_ratio)
    return [
        (f"{name}, {result.records:,} of {result.value_bytes_per_record:,.0f} bytes", speed, ""),
        (f"  {SHARE}, by time; by CPU time", f"{result.ratio:.2f}; {by_cpu}", ""),
        ("  CPU µs a row, drain; bare loop", f"{own}; {bare}", ""),
        ("  tasks' CPU µs a row, by step", steps, ""),
    ]


def kafka_connect_rows(result: KafkaConnectResult) -> list[Row]:
    """The drain and the Kafka Connect sink side by side."""
    return [
        (f"drain of {result.records:,} records", _speed(result.drains), ""),
        ("  CPU µs a row; commits", _cost(result.drains), ""),
        (f"Connect's sink, a commit each {result.commit_interval_ms / 1000:g} s", _speed(result.sinks), ""),
        ("  without the wait for its first and last commit", _busy(result.sinks), ""),
        ("  CPU µs a row; commits", _cost(result.sinks), ""),
        ("drain's speed as a multiple of Connect's, by time", f"{result.speed_ratio:.2f}", ""),
        ("drain's speed as a multiple of Connect's, by CPU time", _ratio(result.cpu_ratio), ""),
    ]


def _speed(rounds: Sequence[Sunk]) -> str:
    return " · ".join(f"{sunk.rows_per_second:,.0f}" for sunk in rounds) + " rows/s"


def _busy(rounds: Sequence[Sunk]) -> str:
    known = [sunk.busy_rows_per_second for sunk in rounds]
    return " · ".join("too few commits" if speed is None else f"{speed:,.0f} rows/s" for speed in known)


def _cost(rounds: Sequence[Sunk]) -> str:
    return f"{_ratio(cpu_us_per_row(rounds))}; {' · '.join(str(sunk.commits) for sunk in rounds)}"


def cold_start_rows(result: ColdStartResult) -> list[Row]:
    """Return start-up costs, and import times by package."""
    rows: list[Row] = [("Spark Connect server, until it answers", f"{result.spark_server_seconds:.1f} s", "")]
    for name, start in result.starts.items():
        rows.append((name, f"{start.seconds:.2f} s; CPU {start.cpu_seconds:.2f} s", ""))
        if name in result.packages_ms:
            rows += _steps("imports, ms", result.packages_ms[name], 0)
    return rows


def footprint_rows(result: FootprintResult) -> list[Row]:
    """Memory and processors of Dagster alone, ``up`` by number of pipelines, and Connect's worker."""
    rows = _used("Dagster alone, empty code location", result.dagster)
    for pipelines, footprint in result.up.items():
        name = f"up, {pipelines} pipeline{'s'[: pipelines > 1]}"
        goal = GOAL_HUNDRED_BYTES
        if pipelines == 1:
            goal = min(GOAL_REST_BYTES, result.dagster.largest_bytes + GOAL_MORE_BYTES)
        most = f"<= {goal / MIB:,.0f} MiB; <= {result.dagster.cores + GOAL_MORE_CORES:.2f}"
        rows += _used(f"{name}, at rest, Spark asleep", footprint.idle, most)
        rows += _used(f"{name}, draining", footprint.draining)
    rows += _used("Kafka Connect's worker, one sink, idle", result.connect.idle)
    return rows + _used("Kafka Connect's worker, one sink, draining", result.connect.draining)


def _used(name: str, usage: Usage, goal: str = "") -> list[Row]:
    kinds = sorted(usage.bytes_by_kind, key=lambda kind: -usage.bytes_by_kind[kind])
    held = " · ".join(f"{kind} {usage.bytes_by_kind[kind] / MIB:,.0f}" for kind in kinds)
    busy = " · ".join(f"{kind} {cores:.3f}" for kind, cores in usage.cores_by_kind.items() if cores > 0)
    return [
        (f"{name}, memory; processors", f"{usage.largest_bytes / MIB:,.0f} MiB; {usage.cores:.3f}", goal),
        ("  MiB", held, ""),
        ("  processors", busy, ""),
    ]


def small_batches_rows(result: SmallBatchesResult) -> list[Row]:
    """First and later batches of a run."""
    first = sorted(result.first, key=lambda one: one.warm_seconds)[len(result.first) // 2]
    parts = {
        "interpreter": first.start_seconds,
        "imports": first.import_seconds,
        "attach to Spark": first.connect_seconds,
        "recover, plan, drain, commit": first.drain_seconds,
    }
    return [
        (
            "first batch, attaching to commit, p50",
            f"{result.warm_p50_seconds:.2f} s",
            f"<= {GOAL_FIRST_SECONDS} s",
        ),
        ("the same with the process's start and imports, p50", f"{result.first_p50_seconds:.2f} s", ""),
        *_steps("of that, s", parts, 2),
        *_steps("inside its batch, ms", first.durations_ms, 0),
        ("each later batch, p50", f"{result.later_p50_seconds:.2f} s", f"<= {GOAL_LATER_SECONDS} s"),
        ("each later batch, slowest", f"{result.later_worst_seconds:.2f} s", ""),
        *_steps("of that, p50 ms", result.later_durations_ms, 0),
    ]


def many_commits_rows(result: ManyCommitsResult) -> list[Row]:
    """Cost of the first and the last commits, and what the table's metadata held at most."""
    most = result.most
    runs = " · ".join(f"{kind} {number}" for kind, number in result.upkeep_runs.items()) or "none"
    return [
        ("commits", f"{len(result.commit_ms):,}", ""),
        ("first commits, p50", f"{result.first_p50_ms:.0f} ms", ""),
        ("last commits, p50", f"{result.last_p50_ms:.0f} ms", ""),
        ("last / first", f"{result.ratio:.2f}", f"<= {MANY_COMMITS_GOAL_RATIO}"),
        ("data files, at most", f"{most.data_files:,}", ""),
        ("snapshots, at most", f"{most.snapshots:,}", ""),
        ("manifests, at most", f"{most.manifests:,}", ""),
        ("runs of upkeep", f"{runs}; {result.upkeep_seconds:.0f} s of {result.seconds:.0f} s", ""),
    ]


def pipelines_rows(result: PipelinesResult) -> list[Row]:
    """Cost of few and of many pipelines' definitions, to the code server and to a run of one."""
    rows: list[Row] = []
    for cost in (result.few, result.many):
        rows += [
            (f"definitions of {cost.pipelines:,} pipelines, CPU", f"{cost.definitions_seconds:.2f} s", ""),
            *_steps("code server, CPU s", cost.load_seconds, 2),
            *_steps("a run of one of them, CPU s", cost.run_seconds, 2),
        ]
    ratio = f"{result.many.pipelines:,} / {result.few.pipelines:,} pipelines"
    return [*rows, (ratio, f"{result.growth:.1f}", f"<= {PIPELINES_GOAL_GROWTH:g}")]


def many_pipelines_rows(result: ManyPipelinesResult) -> list[Row]:
    """Return ages of waiting records of many pipelines, and what keeping them low takes."""
    busy = " · ".join(f"{kind} {cores:.2f}" for kind, cores in result.cores_by_kind.items() if cores > 0)
    return [
        ("first tick", f"{result.first_tick_seconds:.1f} s", f"<= {GOAL_FIRST_TICK_SECONDS:g} s"),
        (f"{result.pipelines:,} tables filled after", f"{result.filled_seconds:.0f} s", ""),
        ("oldest waiting record, p50", f"{result.p50_seconds:.0f} s", ""),
        ("oldest waiting record, p95", f"{result.p95_seconds:.0f} s", f"<= {GOAL_AGE_P95_SECONDS:g} s"),
        ("oldest waiting record, oldest", f"{result.max_seconds:.0f} s", f"<= {GOAL_AGE_SECONDS:g} s"),
        ("runs of drains; failed", f"{result.runs}; {result.failed_runs}", "0 failed"),
        ("processors", busy, ""),
        ("processors of the producer", f"{result.producer_cores:.2f}", ""),
        ("highest load", f"{result.load:.1f}", ""),
    ]


def tick_rows(result: TickResult) -> list[Row]:
    """Return times from sensor tick to commit, and of a tick without work."""
    empty = result.empty
    return [
        ("sensor tick to commit, p50", f"{result.p50_seconds:.1f} s", f"<= {GOAL_P50_SECONDS:.0f} s"),
        ("sensor tick to commit, p95", f"{result.p95_seconds:.1f} s", f"<= {GOAL_P95_SECONDS:.0f} s"),
        *_steps("of that, p50 s", result.p50_stretches, 1),
        ("before: wait for the tick, p50", f"{result.p50_waited_seconds:.1f} s", ""),
        ("empty tick, p50", f"{empty.p50_seconds * 1000:.0f} ms", ""),
        ("empty tick, p95", f"{empty.p95_seconds * 1000:.0f} ms", ""),
        *_steps("of that, p50 ms", {"look at tables": empty.tables_ms, "look at topics": empty.topics_ms}, 0),
        ("daemon and code server while idle, cores", _ratio(empty.idle_cores), ""),
    ]


def print_table(title: str, rows: Sequence[Row]) -> None:
    """One part's figures beside their goals."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    for column in ("what", "measured", "goal"):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print()


def print_json(results: Mapping[str, Any]) -> None:
    """All figures, derived ones too, as one line."""
    print(json.dumps({name: _plain(value) for name, value in results.items()}, separators=(",", ":")))


def _ratio(value: float) -> str:
    return "not known on this system" if math.isnan(value) else f"{value:.2f}"


def _steps(title: str, steps: Mapping[str, float], digits: int) -> list[Row]:
    return [(f"  {title}", " · ".join(f"{step} {value:.{digits}f}" for step, value in steps.items()), "")]


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        kind = type(value)
        derived = [name for name in vars(kind) if isinstance(vars(kind)[name], property)]
        return {name: _plain(getattr(value, name)) for name in [f.name for f in fields(value)] + derived}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 4)
    return value

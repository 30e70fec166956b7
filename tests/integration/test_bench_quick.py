"""Every part of the benchmark at its smallest: it runs, its figures have a shape, nothing is lost."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from bench import (
    catch_up,
    cold_start,
    formats,
    hot,
    kafka_connect,
    many_commits,
    memory,
    partitions,
    processor_time,
    splits,
)
from bench.catch_up import measure_catch_up
from bench.cold_start import STARTS, measure_cold_start
from bench.formats import GOALS, measure_formats
from bench.gateway import measure_gateway
from bench.hot import measure_hot, measure_hot_watch
from bench.kafka_connect import measure_kafka_connect
from bench.lab import Lab
from bench.lookups import measure_lookups
from bench.many_commits import measure_many_commits
from bench.memory import MemoryResult, drain_alone
from bench.partitions import measure_partitions
from bench.pipelines import GOAL_GROWTH, measure_pipelines
from bench.report import (
    catch_up_rows,
    cold_start_rows,
    formats_rows,
    gateway_rows,
    hot_rows,
    hot_watch_rows,
    kafka_connect_rows,
    lookups_rows,
    many_commits_rows,
    memory_rows,
    partitions_rows,
    pipelines_rows,
    print_json,
    shapes_rows,
    small_batches_rows,
    splits_rows,
)
from bench.shapes import NESTED, measure_shapes
from bench.small_batches import measure_small_batches
from bench.splits import measure_splits
from servers.spark_connect import SparkConnectServer
from tests.support.warm_drains import run_warm_drains

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker
    from servers.process import ServerProcess

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@dataclass(frozen=True, slots=True)
class SmallLab(Lab):
    """The run's servers for all parts: at these sizes nothing is measured, and every start would be paid."""

    remote: str

    @contextmanager
    def spark(self, name: str) -> Iterator[SparkConnectServer]:
        """The server, whatever the part calls it; this process stands for the one whose time is told."""
        assert name
        yield SparkConnectServer(self.remote, cast("ServerProcess", SimpleNamespace(pid=os.getpid())))

    def configure(self, name: str, *rest: Any, **settings: Any) -> Path:
        """As it is, with two queries at once: each more one has a process of its own."""
        path = Lab.configure(
            self, name, *rest, **settings
        )  # Python 3.11: a class with slots has no bare super()
        path.write_text(f"{path.read_text()}serve: {{max_queries: 2}}\n")
        return path

    @contextmanager
    def busy_kafka(self) -> Iterator[str]:
        """The run's."""
        yield self.bootstrap_servers


@pytest.fixture(autouse=True)
def warm_drains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Imports are most of what a drain of so few records takes; small batches alone measure them."""
    for part in (catch_up, cold_start, formats, hot, kafka_connect, memory, partitions, splits):
        monkeypatch.setattr(part, "run_drains", run_warm_drains)


@pytest.fixture(scope="module")
def lab(kafka: KafkaBroker, spark_remote: str, tmp_path_factory: pytest.TempPathFactory) -> SmallLab:
    """A folder that all parts share."""
    return SmallLab(tmp_path_factory.mktemp("bench"), str(kafka), spark_remote)


def test_bench_catch_up_reads_everything_both_ways(lab: Lab) -> None:
    """Drain and bare loop each bring every record, and the figures compare the two."""
    result = measure_catch_up(lab, 20_000, rounds=1)
    (only,) = result.rounds
    assert (only.drain_rows, only.bare_rows) == (20_000, 20_000)
    assert result.ratio > 0
    assert {"fetch", "decode", "shape", "write"} <= result.cpu_us_per_row_by_step.keys()
    assert catch_up_rows(result)


def test_bench_splits_cut_one_partition(lab: Lab) -> None:
    """One partition is drained whole by one task and by two, which write a file each."""
    result = measure_splits(lab, 24_000, tasks=(1, 2), rounds=1)
    assert {tasks: (one.rows, one.files) for tasks, one in result.by_tasks.items()} == {
        1: (24_000, 1),
        2: (24_000, 2),
    }
    assert result.gain(2) > 0
    assert splits_rows(result)


def test_bench_partitions_drain_a_narrow_and_a_wide_topic(lab: Lab) -> None:
    """A topic of few partitions and one of many are drained whole, and a small batch after each."""
    result = measure_partitions(lab, 2_048, widths=(2, 16), rounds=1)
    assert {width: one.rows for width, one in result.by_width.items()} == {2: 2_048, 16: 2_048}
    assert result.small_ratio > 0
    assert partitions_rows(result)


def test_bench_hot_follows_asks_and_drains(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows are followed, a rate is watched, also while drains go on, and what is asked is timed."""
    monkeypatch.setattr(hot, "WARM_UP_SECONDS", 0.5)
    monkeypatch.setattr(hot, "_LATE_SECONDS", 1.0)
    monkeypatch.setattr(hot, "HELD_RECORDS", 500)
    result = measure_hot(lab, 8_000, 1, 1_000)
    watched = measure_hot_watch(lab, 1, 1_000)
    assert result.rows == 8_000
    for each in (*result.freshness, watched):
        assert min(each.hot_ms) > 0
    assert result.drain_us > 0
    assert min(result.lookup_ms, result.sql_ms, result.arrow_ms) > 0
    assert result.together_ms.keys() == result.lake_ms.keys()
    most, own = result.asked_bytes
    assert most > sum(own) > 0
    assert len(own) > 2
    assert hot_rows(result)
    assert hot_watch_rows(watched)


def test_bench_lookups_find_what_is_there(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """No row, one and all of a key's; what is counted is what was drained."""
    monkeypatch.setattr(processor_time, "_CALLS", 1)
    result = measure_lookups(lab, 2_000)
    assert [*result.found] == [0, 1, 1]
    assert result.rows == 2_001
    assert lookups_rows(result)


def test_bench_formats_are_decoded_and_drained(lab: Lab) -> None:
    """Records of a format and of an archive become rows as JSON's do, and the archive's are a topic again."""
    drained = ("json", "json archive", "avro")
    result = measure_formats(lab, 11_000, rounds=1, turns=1, drained=drained)
    assert result.drain_us.keys() == {*drained}
    assert result.drain_ratios.keys() == {"json archive / json", "avro / json"}
    assert set(result.ratios) <= {*result.decode_us, *GOALS}
    assert result.export.records == 26_000
    assert result.export.speed_ratio > 0
    assert formats_rows(result)


def test_bench_shapes_read_everything_both_ways(lab: Lab) -> None:
    """Records of another shape are drained into their columns, and the bare loop reads them all too."""
    results = measure_shapes(lab, 2_000, ((NESTED, 1.0),))
    (only,) = results["nested"].rounds
    assert (only.drain_rows, only.bare_rows) == (2_000, 2_000)
    assert shapes_rows(results)


def test_bench_memory_of_one_backlog(lab: Lab) -> None:
    """A backlog is drained whole, a file for each partition, and its peak is known; growth is between two."""
    drained = drain_alone(lab, 4_000, partitions=10)
    assert (drained.rows, drained.files) == (4_000, 10)
    assert drained.peak_bytes > 0
    peak_bytes, files = {10: drained.peak_bytes}, {10: drained.files}
    result = MemoryResult(
        4_000, 4_000, drained.peak_bytes, 40_000, 40_000, drained.peak_bytes * 2, peak_bytes, files
    )
    assert result.growth == 1.0
    assert memory_rows(result)


def test_bench_small_batches_tells_where_the_time_goes(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """Every batch is committed, the first of a run and the later ones apart, and all of it is JSON."""
    result = measure_small_batches(lab, runs=1, batches_per_run=2)
    assert result.rows == result.expected_rows == 2_000
    assert (len(result.first), len(result.later_seconds)) == (1, 1)
    assert "commit" in result.later_durations_ms
    assert small_batches_rows(result)
    print_json({"small_batches": result})
    assert asdict(result).keys() <= json.loads(capsys.readouterr().out)["small_batches"].keys()


def test_bench_kafka_connect_reads_everything_both_ways(lab: Lab) -> None:
    """Drain and Kafka Connect's sink each bring every record of the same topic into a table."""
    result = measure_kafka_connect(lab, 4_000, rounds=1, interval_ms=1_000)
    assert [sunk.rows for sunk in (*result.drains, *result.sinks)] == [4_000, 4_000]
    assert result.sinks[0].commits >= 1
    assert result.speed_ratio > 0
    assert kafka_connect_rows(result)


def test_bench_gateway_sends_everything_both_ways(lab: Lab) -> None:
    """Twenty clients are acknowledged all they send, and a bare producer sends as many events."""
    result = measure_gateway(lab, 1)
    assert result.events == 4_000  # of the two turns that count
    assert min(result.rate, result.bare_rate, result.ack_ms, result.commit_ms, result.paced_ms) > 0
    assert gateway_rows(result)


def test_bench_cold_start_tells_whose_imports_it_is(lab: Lab) -> None:
    """A command starts and ends well, and its imports are told by package."""
    names = ("interpreter alone", "status")
    result = measure_cold_start(lab, 1, {name: STARTS[name] for name in names})
    assert 0 < result.starts["interpreter alone"].seconds < result.starts["status"].seconds
    assert "pyiceberg" in result.packages_ms["status"]
    assert cold_start_rows(result)


def test_bench_pipelines_grow_with_their_number(lab: Lab) -> None:
    """Ten times the pipelines cost about ten times as much, far from the square of it."""
    result = measure_pipelines(lab, 100)
    assert (result.few.pipelines, result.many.pipelines) == (10, 100)
    assert result.few.run_seconds.keys() == {"imports", "build", "its job"}
    assert 1 < result.growth < 3 * GOAL_GROWTH
    assert pipelines_rows(result)


def test_bench_many_commits_keeps_the_table_small(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Upkeep runs by its own conditions between the commits, nothing is lost, and counts stay bounded."""
    monkeypatch.setattr(many_commits, "LOOK_EVERY", 8)
    result = measure_many_commits(lab, 24, upkeep={"keep_snapshots": 12, "compact_above": 12})
    assert result.rows == result.expected_rows == 24 * result.records_per_commit
    assert len(result.commit_ms) == 24
    assert {"compaction", "snapshots"} <= result.upkeep_runs.keys()
    assert result.looks[-1].snapshots < 24
    assert result.most.data_files < 24
    assert result.ratio > 0
    assert many_commits_rows(result)

"""The metrics endpoint over real drains: what is scraped, across restarts, folds and trouble."""

from __future__ import annotations

import math
import time
import urllib.request
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import configure
from servers.process import free_ports
from spark_jobs.books.fold import checkpoint
from spark_jobs.connections.endpoints import beat
from spark_jobs.kafka import reader as kafka_reader
from spark_jobs.monitoring import metrics as metrics_module
from spark_jobs.monitoring.metric_families import FAMILIES
from spark_jobs.monitoring.metrics import SluiceCollector
from spark_jobs.notices.failures import work_failed
from spark_jobs.protocol.errors import RetryableError
from tests.support.lake import Once
from tests.support.listening_command import listening
from tests.support.new_lab import NewLab, as_json

if TYPE_CHECKING:
    from prove.lab.pipeline_lab import Lab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

Samples = dict[tuple[str, ...], float]


def parse(text: str) -> Samples:
    """Every sample by its name and its labels' values beyond the pipeline, as Prometheus would read them."""
    samples: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = {name: value for name, value in sample.labels.items() if name != "pipeline"}
            samples[(sample.name, *labels.values())] = sample.value
    return samples


def scrape(lab: Lab) -> Samples:
    """What an exporter that was started just now tells."""
    registry = CollectorRegistry()
    registry.register(SluiceCollector(lab.config))
    return parse(generate_latest(registry).decode())


def test_a_real_drain_is_told_by_the_real_endpoint(new_lab: NewLab) -> None:
    """Rows, dead letters, batches, durations, lag and check results, in Prometheus' own format."""
    records = [*as_json(*({"id": n} for n in range(20))), Record(b"broken", partition=0), Record(None)]
    lab = new_lab(records, partitions=2)
    lab.drain()
    new_lab.produce(lab, as_json({"id": 1}, {"id": 2}, partition=1))
    with (
        listening("metrics", lab, "/metrics") as address,
        urllib.request.urlopen(address, timeout=60) as answer,  # noqa: S310  (our own)
    ):
        told = parse(answer.read().decode())
    assert told["sluice_rows_written_total",] == told["sluice_table_rows",] == 20
    assert (told["sluice_dead_letters_total",], told["sluice_tombstones_total",]) == (1, 1)
    assert told["sluice_dead_letters_by_phase_total", "decode"] == 1
    assert told["sluice_batches_total", "drain"] == told["sluice_batch_duration_seconds_count",] == 1
    assert told["sluice_commit_duration_seconds_bucket", "+Inf"] == 1
    assert (told["sluice_lag_records", "0"], told["sluice_lag_records", "1"]) == (0, 2)
    assert told["sluice_check_passed", "complete", "error"] == 1
    assert told["sluice_check_passed", "dead_letters", "warn"] == 0
    assert told["sluice_pipeline_readable",] == 1
    assert told["sluice_read_bytes_total",] > 100
    assert told["sluice_written_bytes_total",] >= told["sluice_table_bytes",] > 0
    assert 0 < told["sluice_last_commit_timestamp_seconds",] <= time.time()


def test_counters_survive_a_restart_and_a_fold(new_lab: NewLab) -> None:
    """A new exporter, and one that watched the log being folded into the books, tell the same sums."""
    lab = new_lab(as_json(*({"id": n} for n in range(5))))
    lab.drain()
    watching = CollectorRegistry()
    collector = SluiceCollector(lab.config)
    watching.register(collector)
    before = parse(generate_latest(watching).decode())
    assert before["sluice_rows_written_total",] == 5
    new_lab.produce(lab, as_json(*({"id": n} for n in range(7))))
    lab.drain()
    with lab.connections() as connections:
        assert checkpoint(lab.pipeline, connections).folded_attempts == 2
    new_lab.produce(lab, as_json({"id": 1}))
    lab.drain()
    collector._looked_at = -math.inf
    after = parse(generate_latest(watching).decode())
    fresh = scrape(lab)
    counters = [key for key in fresh if key[0].startswith(("sluice_batch", "sluice_rows", "sluice_commit"))]
    assert {key: fresh[key] for key in counters} == {key: after[key] for key in counters}
    assert after["sluice_rows_written_total",] == 13
    assert after["sluice_batches_total", "drain"] == after["sluice_batch_duration_seconds_count",] == 3


def test_every_family_is_told_of_a_working_pipeline(new_lab: NewLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """No declared name stays empty, since dashboards are made of them; many partitions are one series."""
    monkeypatch.setattr(kafka_reader, "INTERVAL_MS", "5")  # a fast machine is done before the first 200 ms
    records = as_json(*({"id": n, "text": "x" * 200} for n in range(60_000)))
    records.append(Record(b'{"\\u0069d": 60000}'))  # left to the slower decoder
    route = {"by": "id", "tables": {"7": "lab.sevens"}}
    lab = replace(new_lab(records, partitions=3, filter="id > 0", route=route), is_here=True)
    lab.drain()
    with lab.connections() as connections:
        uuid = str(lab.table().metadata.table_uuid)
        from spark_jobs.monitoring.audit_notes import audit_newest

        audit_newest(lab.pipeline, connections, uuid)
        away = RetryableError("away", code="broker-away", hint="Wait.")
        work_failed(lab.config.home, lab.pipeline, "drain", away)
    beat(lab.config.home)
    monkeypatch.setattr(metrics_module, "MAX_PARTITION_SERIES", 2)
    told = scrape(lab)
    names = {key[0].removesuffix("_bucket").removesuffix("_count").removesuffix("_sum") for key in told}
    assert FAMILIES.keys() - names == {"sluice_valid_through_timestamp_seconds"} - names
    assert [key for key in told if key[0] == "sluice_lag_records"] == [("sluice_lag_records", "all")]
    assert told["sluice_audit_findings", "missing"] == 0
    assert (told["sluice_filtered_total", "excluded"], told["sluice_rows_written_total",]) == (1, 59_999)
    assert told["sluice_routed_rows_total", "lab.sevens"] == 1
    assert told["sluice_failures_total", "broker-away"] == 1
    assert told["sluice_kafka_received_messages_total",] > 0
    assert told["sluice_kafka_rtt_p99_seconds",] > 0


def test_a_commit_that_another_one_came_before_is_counted(new_lab: NewLab) -> None:
    """Main moves between staging and swap: the batch lands at the second try, and the conflict is told."""
    lab = new_lab(as_json({"id": 0}))
    lab.drain()
    new_lab.produce(lab, as_json({"id": 1}))

    def come_first() -> None:
        table = lab.table()
        nothing = table.schema().as_arrow().empty_table()
        table.append(nothing, snapshot_properties={"sluice.attempt": "another"})

    lab.drain(fail_points=Once("commit.before-swap", come_first))
    told = scrape(lab)
    assert told["sluice_commit_conflicts_total",] == 1
    assert told["sluice_rows_written_total",] == 2


def test_a_pipeline_that_cannot_be_read_has_no_numbers(new_lab: NewLab) -> None:
    """An unreachable broker is told as such; nothing about it looks like zero."""
    lab = new_lab(as_json({"id": 0}))
    lab.drain()
    configure(lab, "kafka", {"bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}"})
    told = scrape(lab)
    assert told["sluice_pipeline_readable",] == 0
    assert told["sluice_check_passed", "fresh", "error"] == 0
    assert not [key for key in told if key[0] in {"sluice_lag_records", "sluice_freshness_seconds"}]
    assert told["sluice_rows_written_total",] == 1

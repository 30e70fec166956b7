"""``demo``: fill tables from an embedded Kafka, audit them and show how to read them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli import output
from cli.demo.change_data import CDC_CONFIG, produce_changes, show_mirror
from cli.stand.run_record import hold
from cli.stand.sample_data import (
    ROWS_PER_CHUNK,
    SAMPLE_TOPICS,
    Delivery,
    SampleTopic,
    create_sample_topics,
    end_offsets,
    lacking,
    package_file,
)
from servers.beside import SERVE
from servers.process import free_ports
from servers.registry import registry_url
from spark_jobs.config.file import (
    DEMO_CONFIG,
    DEMO_FILE,
    ENVIRONMENT_CONFIG,
    ENVIRONMENT_HOME,
    ENVIRONMENT_TEXT,
    find_config_file,
    home_folder,
    load_config,
)
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.connections.endpoints import embedded_kafka
from spark_jobs.monitoring.survey import Problem, Surveyed, Surveyor
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.storage.state_files import write_whole

if TYPE_CHECKING:
    from cli.stand.running import Servers

FORMATS_CONFIG = """\
  planes: {{topic: planes, table: lake.planes, value: {{format: avro, registry: main}}}}
  airports: {{topic: airports, table: lake.airports, value: {{format: protobuf, registry: main}}}}
registries:
  main: {{url: "{url}"}}
"""
POLL_SECONDS = 0.5
SAY_EVERY_SECONDS = 10.0
RUN_END_SECONDS = 30.0
QUIET_SECONDS = 300.0  # a cold first run takes half a minute; two minutes were seen on a busy small machine


@click.command("demo")
@click.option(
    "--formats",
    is_flag=True,
    help="Add an Avro topic, a Protobuf topic and a schema registry (downloads 158 MB once).",
)
@click.option(
    "--cdc", is_flag=True, help="Add change events of a database, as a mirror and as a table of changes."
)
@output.verbosely_reported
def command(report: output.Report, *, formats: bool, cdc: bool) -> int:
    """Fill two tables from an embedded Kafka and audit them. Exit code 1 if the audit finds a problem.

    Produces New York's flights and weather of 2013 into the topics `flights` and `weather`. Dagster's sensor
    sees the backlog and starts runs that drain it. A short tour follows: compaction, replay, checks, and a
    record that `serve` returns before and after its drain.

    --formats adds planes in Avro and airports in Protobuf, each in two versions of its schema. --cdc adds
    recorded change events of a PostgreSQL database, as Debezium wrote them.

    At the end all servers are stopped and the tables are kept. A second run continues where the first ended
    and adds one record.
    """
    package_file(SAMPLE_TOPICS[0].file)
    own = find_config_file(None)
    home = home_folder(own) / "demo" if own else home_folder(None)
    with hold(str(home), "./sluice demo"):
        from cli.demo.report import audit_all, print_report, to_json
        from cli.demo.tour import show_fresh_record, walk
        from cli.stand.running import servers_of

        registry_port = free_ports(1)[0] if formats else None
        config = _demo_config(own, home, registry_port, cdc=cdc)
        typed = "./sluice" if own is None else f"SLUICE_HOME={home} SLUICE_CONFIG={config.source} ./sluice"
        with servers_of(config) as servers:
            output.heading("1. Servers")
            servers.start_backends(registry_port=registry_port)
            output.heading("2. Records into Kafka")
            _produce(servers, registry_port, cdc=cdc)
            output.heading("3. Dagster's sensor fills the tables")
            output.say(f"  Dagster UI while this runs: {servers.start_dagster(0)}")
            output.say("  the sensor checks every few seconds; the first runs are slow while Spark warms up")
            _wait_until_drained(servers)
            servers.start_beside([SERVE])
            output.heading("4. Audit against Kafka")
            audited = audit_all(config)
            wait_for_runs(servers.home)
            output.heading("5. Maintenance: compaction, replay, checks")
            stays_whole = walk(config)
            output.heading("6. Query a record before it is in the table")
            is_there_once = show_fresh_record(servers)
            if cdc:
                output.heading("7. Mirror of a database table")
                is_there_once &= show_mirror(config, typed)
        print_report(config, audited, typed)
    report.add(**to_json(audited))
    is_whole = stays_whole and is_there_once
    return 0 if is_whole and all(one.result.is_clean for one in audited) else 1


def _demo_config(own: Path | None, home: Path, registry_port: int | None, *, cdc: bool) -> SluiceConfig:
    """Return the demo's configuration and write it to a file, so that other commands know its tables."""
    os.environ.pop(ENVIRONMENT_TEXT, None)
    file = home / DEMO_FILE
    if own not in {None, file}:
        output.say(f"{own} is not used: the demo has its own settings and state in {home}")
    more = CDC_CONFIG if cdc else ""
    more += FORMATS_CONFIG.format(url=registry_url(registry_port)) if registry_port else ""
    write_whole(file, DEMO_CONFIG + more)
    os.environ[ENVIRONMENT_HOME] = str(home)
    os.environ[ENVIRONMENT_CONFIG] = str(file)
    return load_config(file)


def _produce(servers: Servers, registry_port: int | None, *, cdc: bool) -> None:
    properties = embedded_kafka(servers.config.home)
    samples: tuple[SampleTopic, ...] = SAMPLE_TOPICS
    if registry_port is not None:
        from cli.stand.sample_schemas import samples_with_schemas

        samples += samples_with_schemas(registry_url(registry_port))
    create_sample_topics(properties, {sample.topic: sample.partitions for sample in samples})
    for sample in samples:
        _produce_one(servers, properties, sample)
    if cdc:
        produce_changes(servers.config)


def _produce_one(servers: Servers, properties: dict[str, str], sample: SampleTopic) -> None:
    ends = end_offsets(properties, sample.topic)
    there = sum(ends.values())
    if there >= sample.records:
        output.say(f"  {sample.topic}: {there:,} records already there")
        return
    began = time.monotonic()
    delivery = Delivery(properties)
    for record in lacking(sample, ends):
        delivery.send(sample.topic, record)
        if delivery.sent % ROWS_PER_CHUNK == 0:
            servers.mend()
    delivery.flush()
    took = output.seconds((time.monotonic() - began) * 1000)
    partitions = output.count(sample.partitions, "partition")
    output.say(f"  {sample.topic}: {delivery.sent:,} records into {partitions} in {took}")


def _wait_until_drained(servers: Servers) -> None:
    try:
        wait_until_drained(servers.config, servers.mend, output.say)
    except SluiceError:
        output.say(f"  logs: {Path(servers.home) / 'logs'}")
        raise


def wait_until_drained(
    config: SluiceConfig, check_servers: Callable[[], None], say: Callable[[str], None]
) -> None:
    """Return once every pipeline's table has reached its topic's last stable offsets.

    Raises ``RetryableError`` (``demo-stands-still``) after five minutes without progress, and any permanent
    error at once.
    """
    surveyor = Surveyor(config)
    began = last_moved = time.monotonic()
    last_said, before = 0.0, ""
    while True:
        check_servers()
        survey = surveyor.survey()
        for seen in survey:
            if isinstance(seen, Problem) and not seen.error.is_retryable:
                raise seen.error
        now, words = time.monotonic(), " · ".join(_words(seen) for seen in survey)
        is_done = all(isinstance(seen, Surveyed) and seen.table and not _lag(seen) for seen in survey)
        words_moved = words != before
        if words_moved:
            last_moved, before = now, words
        if is_done or words_moved or now - last_said >= SAY_EVERY_SECONDS:
            say(f"  {now - began:5.1f} s  {words}")
            last_said = now
        if is_done:
            return
        if now - last_moved > QUIET_SECONDS:
            raise fault("demo-stands-still", seconds=QUIET_SECONDS, words=words, folder=config.home)
        time.sleep(POLL_SECONDS)


def wait_for_runs(home: Path) -> None:
    """Wait briefly until runs that have committed have reported to Dagster."""
    from dagster import DagsterInstance, DagsterRunStatus, RunsFilter

    under_way = RunsFilter(statuses=[DagsterRunStatus.STARTING, DagsterRunStatus.STARTED])
    deadline = time.monotonic() + RUN_END_SECONDS
    with DagsterInstance.from_config(str(home / "dagster")) as instance:
        while instance.get_runs_count(under_way) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)


def _words(seen: Surveyed | Problem) -> str:
    if isinstance(seen, Problem):
        return f"{seen.pipeline.name} {seen.error.code}"
    there = sum(seen.source.end.values()) - sum(seen.source.low.values())
    return f"{seen.pipeline.name} {there - _lag(seen):,} of {there:,}"


def _lag(seen: Surveyed) -> int:
    return seen.source.lag(seen.table.progress.next_offsets if seen.table else {})

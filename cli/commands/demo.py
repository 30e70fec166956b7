"""``demo``: the main job on real parts and real input, then the proof, then how to look at it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli import output
from cli.demo.drain_watch import wait_for_runs, wait_until_drained
from cli.stand.run_record import hold
from cli.stand.sample_data import (
    ROWS_PER_CHUNK,
    SAMPLE_TOPICS,
    Delivery,
    create_sample_topics,
    end_offsets,
    lacking,
)
from spark_jobs.config.file import (
    DEMO_CONFIG,
    ENVIRONMENT_CONFIG,
    ENVIRONMENT_HOME,
    find_config_file,
    home_folder,
    load_config,
)
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.protocol.errors import SluiceError
from spark_jobs.storage.state_files import write_whole

if TYPE_CHECKING:
    from cli.stand.running import Servers


@click.command("demo")
@output.json_option
def command(as_json: bool) -> int:
    """Fill two tables from a real Kafka, by the sensor's own runs, and audit them against it.

    New York's flights and weather of 2013 go into the topics `flights` and `weather` of an embedded broker.
    Dagster's sensor sees the backlog and its runs drain it. Then a short tour: a compaction, a replay, the
    checks. At the end everything that was started is stopped; the tables stay. It can be run again: what is
    there is not done twice. Exit code 1 when the audit finds anything.
    """
    config = _demo_config()
    with hold(config.home, "./sluice demo"):
        from cli.demo.report import audit_all, print_report, to_json
        from cli.demo.tour import walk
        from cli.stand.running import servers_of

        with servers_of(config) as servers:
            output.heading("1. Servers")
            servers.start_backends()
            output.heading("2. Records into Kafka")
            _produce(servers)
            output.heading("3. Dagster's sensor fills the tables")
            output.say(f"  watch it at {servers.start_dagster('127.0.0.1', 0)} while this runs")
            output.say("  the sensor looks every few seconds; the first runs meet a cold Spark")
            _wait_until_drained(servers)
            output.heading("4. Audit against Kafka")
            audited = audit_all(config)
            wait_for_runs(servers.home)
            output.heading("5. A short tour of what keeps a table healthy")
            stays_whole = walk(config)
        print_report(config, audited)
    if as_json:
        output.json_line(to_json(audited))
    return 0 if stays_whole and all(one.result.is_clean for one in audited) else 1


def _demo_config() -> SluiceConfig:
    """Return the built-in defaults; beside a user's own configuration, in the demo's own state folder."""
    own = find_config_file(None)
    if own is None:
        return load_config()
    home = home_folder(own) / "demo"
    file = home / "demo.yaml"
    if own != file:
        output.say(f"{own} is left alone: the demo has its own settings and state under {home}")
    write_whole(file, DEMO_CONFIG)
    os.environ[ENVIRONMENT_HOME] = str(home)
    os.environ[ENVIRONMENT_CONFIG] = str(file)
    return load_config(file)


def _produce(servers: Servers) -> None:
    properties = {"bootstrap.servers": servers.endpoints.kafka_bootstrap_servers or ""}
    create_sample_topics(properties)
    for sample in SAMPLE_TOPICS:
        ends = end_offsets(properties, sample.topic)
        there = sum(ends.values())
        if there >= sample.records:
            output.say(f"  {sample.topic}: {there:,} records are there already")
            continue
        began = time.monotonic()
        delivery = Delivery(properties)
        for record in lacking(sample, ends):
            delivery.send(sample.topic, record)
            if delivery.sent % ROWS_PER_CHUNK == 0:
                servers.raise_if_ended()
        delivery.flush()
        took = output.seconds((time.monotonic() - began) * 1000)
        output.say(
            f"  {sample.topic}: {delivery.sent:,} records into {sample.partitions} partitions in {took}"
        )


def _wait_until_drained(servers: Servers) -> None:
    try:
        wait_until_drained(servers.config, servers.raise_if_ended, output.say)
    except SluiceError:
        output.say(f"  logs: {Path(servers.home) / 'logs'}")
        raise

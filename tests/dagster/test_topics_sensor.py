"""Topics of a ``topics_regex`` become pipelines while only Dagster runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
import yaml

from servers.dagster import DagsterSettings, start_dagster
from servers.process import free_ports
from spark_jobs.config.build import safe_name
from spark_jobs.config.file import load_config
from tests.dagster.test_code_server import PATIENCE_SECONDS, tables

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker

pytestmark = pytest.mark.kafka


def test_a_topic_becomes_a_pipeline_by_itself(
    tmp_path: Path, kafka: KafkaBroker, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sensor lists it, the code server loads again, and a process with another home finds the same."""
    kafka.create_topic(topic_name)
    file = tmp_path / "sluice.yaml"
    written = {
        "version": 1,
        "kafka": {"bootstrap.servers": str(kafka)},
        "state": str(tmp_path / "state"),
        "pipelines": {"all": {"topics_regex": f"{topic_name}.*", "table": "lake.{topic}"}},
    }
    file.write_text(yaml.safe_dump(written))
    servers = start_dagster(DagsterSettings(tmp_path / "home", file, free_ports(1)[0]))
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while tables(servers.url) != {safe_name(topic_name)}:
            assert time.monotonic() < deadline, tables(servers.url)
            time.sleep(0.5)
    finally:
        servers.stop()
    monkeypatch.setenv("SLUICE_HOME", "/sys/sluice")
    assert [pipeline.topic for pipeline in load_config(file).pipelines] == [topic_name]


def test_definitions_load_while_the_list_cannot_be_read(tmp_path: Path) -> None:
    """What is left of them has the sensor that goes on asking; a warning says why there is no pipeline."""
    text = """\
version: 1
catalog: {type: rest, uri: "http://127.0.0.1:1", s3.secret-access-key: "${NOT_THERE}"}
pipelines: {all: {topics_regex: ".*", table: "lake.{topic}"}}
"""
    code = "from orchestration.definitions import defs; print([sensor.name for sensor in defs.sensors])"
    loaded = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "SLUICE_CONFIG_YAML": text, "SLUICE_HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert loaded.stdout.strip() == "['topics_sensor']"
    assert "topics_regex matches no listed topic yet" in loaded.stderr

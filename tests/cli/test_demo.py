"""The demo: tables filled by the sensor's own runs and exact, in three formats; a second adds what lacks."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cli.commands.demo import _demo_config, _produce_one
from cli.demo import change_data
from cli.stand.recorded_changes import changes
from cli.stand.run_record import read_up
from cli.stand.running import Servers
from cli.stand.sample_data import WEATHER, Delivery, create_sample_topics, end_offsets, read_sample
from prove.lab.kafka_server import unique_name
from spark_jobs.config.file import ENVIRONMENT_CONFIG, ENVIRONMENT_HOME, ENVIRONMENT_TEXT
from spark_jobs.connections.endpoints import Endpoints, write_endpoints

if TYPE_CHECKING:
    from prove.lab.kafka_server import KafkaBroker
    from spark_jobs.config.settings import SluiceConfig
    from tests.cli.conftest import Sluice

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
NUMBER, ANY_NUMBER = re.compile(r"[0-9][0-9,.]*(?: m?s\b)?"), "[0-9,.]+(?: m?s)?"
EXPECTED = {"flights": 336_776, "weather": 26_115, "planes": 3_322, "airports": 1_458}
EXPECTED |= {"customers": 100, "customers_log": 100}
OF_CHANGES = {"customers": 28, "customers_log": 89}


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_a_demo_of_everything(sluice: Sluice, tmp_path: Path) -> None:
    """Every record is there once, a record is seen before its drain and after it, and no server is left.

    It runs in an empty home and prints the lines of README, with other figures. A mirror follows a change
    that comes last, and commands know the tables afterwards.
    """
    home = tmp_path / "home"
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")  # packages and jars: no download
    options = ("--json", "--formats", "--cdc")
    done = sluice("demo", *options, home=home, HOME=str(tmp_path), XDG_CACHE_HOME=cache)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line for line in readme_lines() if not re.search(line, done.stdout, re.MULTILINE)] == []
    pipelines = json.loads(done.stdout.splitlines()[-1])["pipelines"]
    assert {p["pipeline"]: p["records"] for p in pipelines} == EXPECTED
    assert {p["pipeline"]: p["rows"] for p in pipelines} == EXPECTED | OF_CHANGES
    assert all(p[name] == 0 for p in pipelines for name in ("missing", "duplicates", "lag"))
    assert "rows replaced by the same rows" in done.stdout
    assert "audit after both: every record is in the table once, unchanged" in done.stdout
    assert "checks of flights: complete, " in done.stdout
    assert re.search(r"before its drain: 1 row, not in the table, watermark 1.0/0:", done.stdout)
    assert re.search(r"after its drain: +1 row, in the table since \d{4}-.+, watermark 1.0/0:", done.stdout)
    assert re.search(r"compaction: [\d,]+ files became [\d,]+", done.stdout)
    assert "row 4: its score was 104, in the mirror it is 5000000000" in done.stdout
    asked = sluice("query", "customers", "SELECT score FROM customers WHERE id = 4", "--csv", home=home)
    assert (asked.returncode, asked.stdout) == (0, "score\n5000000000\n"), asked.stderr
    kept = sorted(file.name.partition("-")[0] for file in (home / "log" / "schemas" / "main").iterdir())
    assert kept == ["1", "2", "3", "4"]
    assert "mean_delay_minutes" in done.stdout
    assert read_up(str(home)) is None
    left = {path.name for path in (home / "run").iterdir()}
    assert left <= {"up.lock", "endpoints.lock", "spark.lock", "sockets"}


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SluiceConfig:
    """What a demo without options is configured by."""
    for name in (ENVIRONMENT_CONFIG, ENVIRONMENT_HOME, ENVIRONMENT_TEXT):
        monkeypatch.setenv(name, "")
    return _demo_config(None, tmp_path, None, cdc=False)


def test_a_plain_demo_has_two_pipelines_and_no_registry(plain: SluiceConfig) -> None:
    """Formats and changes come with their options alone."""
    assert [each.name for each in plain.pipelines] == ["flights", "weather"]
    assert not plain.registries


@pytest.mark.kafka
def test_a_second_demo_sends_only_what_the_first_did_not(
    kafka: KafkaBroker,
    plain: SluiceConfig,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of the sample, whose first production was cut short, and of the recorded changes."""
    write_endpoints(plain.home, Endpoints(kafka_bootstrap_servers=str(kafka)))
    properties, sample = {"bootstrap.servers": str(kafka)}, replace(WEATHER, topic=unique_name("weather"))
    create_sample_topics(properties, {sample.topic: sample.partitions})
    cut_short = Delivery(properties)
    for record in islice(read_sample(sample), 1_000):
        cut_short.send(sample.topic, record)
    cut_short.flush()
    for said in (f"{sample.records - 1_000:,} records into", f"{sample.records:,} records already there"):
        _produce_one(Servers(plain), properties, sample)
        assert said in capsys.readouterr().out
        assert sum(end_offsets(properties, sample.topic).values()) == sample.records
    monkeypatch.setattr(change_data, "TOPIC", unique_name("customers"))
    *but_one, _ = changes()
    sent = [change_data._deliver(plain, records) for records in (but_one, changes(), changes())]
    assert sent == [len(but_one), 1, 0]


def readme_lines() -> list[str]:
    """Return the lines of the demo's output in README, as patterns with any numbers."""
    (shown,) = re.findall(r"^```text\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    return [f"^{ANY_NUMBER.join(map(re.escape, NUMBER.split(line)))}$" for line in shown.splitlines()]

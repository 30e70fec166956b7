"""A secret of the configuration is nowhere after a drain: no file, no output, no error has it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Never
from urllib.parse import quote

import pytest

from prove.lab.pipeline_lab import PIPELINE, configure
from spark_jobs.protocol.errors import RetryableError
from tests.support.new_lab import as_json

if TYPE_CHECKING:
    from prove.lab.pipeline_lab import Lab
    from prove.servers import Servers
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
SECRETS = {
    "LAB_KAFKA_PASSWORD": "kafka+Secret/9f31c7",
    "LAB_CATALOG_TOKEN": "catalog+Secret/5a08de",
    "LAB_SPARK_SECRET": "spark+Secret/77b2e4",
}


class _FailingTask:
    """A defect inside a task, which Spark logs with its traceback."""

    def reach(self, name: str) -> None:
        """Fail while the split is being written."""
        if name == "split.after-chunk":
            _fail()


def _fail() -> Never:
    raise ValueError("the task has a defect")


@pytest.fixture
def lab(new_lab: NewLab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A pipeline with a secret in each section, every one by reference."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    lab = new_lab([*as_json({"id": 1}, {"id": 2}), b"broken", None])
    configure(lab, "kafka", {"sasl.username": "sluice", "sasl.password": "${LAB_KAFKA_PASSWORD}"})
    configure(
        lab, "catalog", {"token": "${LAB_CATALOG_TOKEN}", "s3.secret-access-key": "${LAB_CATALOG_TOKEN}"}
    )
    configure(lab, "spark", {"conf": {"spark.lab.password": "${LAB_SPARK_SECRET}"}})
    return lab


@pytest.fixture
def spark_folders(servers: Servers, spark_name: str) -> list[Path]:
    """Where the Connect server works and what it logs; not Kafka's segments, which are large."""
    return [servers.folder() / spark_name, servers.folder() / "logs"]


def _files_with_secrets(*folders: Path) -> list[tuple[str, str]]:
    """Files, whatever their format, in which a value stands."""
    found = []
    searched = 0
    for folder in folders:
        assert folder.is_dir()
        for file in (each for each in folder.rglob("*") if each.is_file()):
            try:
                content = file.read_bytes()
            except FileNotFoundError:  # another test's, which is over
                continue
            searched += 1
            found += [
                (str(file), name)
                for name, value in SECRETS.items()
                if value.encode() in content or quote(value, safe="").encode() in content
            ]
    assert searched > 5
    return found


def _run(lab: Lab, *arguments: str) -> subprocess.CompletedProcess[str]:
    home = lab.path.parent / "home"
    (home / "dagster").mkdir(exist_ok=True)
    environment = {
        **os.environ,
        "SLUICE_CONFIG": str(lab.path),
        "SLUICE_HOME": str(home),
        "DAGSTER_HOME": str(home / "dagster"),
    }
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def test_no_file_and_no_output_has_a_secret(lab: Lab, spark_folders: list[Path]) -> None:
    """A Dagster run, then one without a broker: log, table, storage, Spark's log and both outputs."""
    materialize = (
        *("dagster", "asset", "materialize"),
        *("-m", "orchestration.definitions", "--select", "lab/orders"),
    )
    done = _run(lab, *materialize)
    assert done.returncode == 0, done.stderr[-2000:]
    assert lab.table().scan().to_arrow().num_rows == 2
    configure(lab, "kafka", {"bootstrap.servers": "127.0.0.1:1"})
    failed = _run(lab, *materialize)
    assert failed.returncode != 0
    assert "broker-away" in failed.stdout + failed.stderr
    for output in (done.stdout, done.stderr, failed.stdout, failed.stderr):
        assert not [name for name, value in SECRETS.items() if value in output]
    assert _files_with_secrets(lab.path.parent, *spark_folders) == []


def test_a_task_that_fails_shows_none(
    lab: Lab, spark_folders: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the error, nor its causes, nor what Spark and our loggers write down."""
    with pytest.raises(RetryableError) as caught:
        lab.drain(fail_points=_FailingTask())
    assert caught.value.code == "spark-failed"
    assert "the task has a defect" in str(caught.value)
    with lab.connections() as connections:
        shown = repr(connections) + repr(lab.config) + str(lab.config.model_dump())
    causes = "".join(f"{e!r}{e}" for e in (caught.value, caught.value.__cause__))
    for text in (shown, causes, caplog.text):
        assert not [name for name, value in SECRETS.items() if value in text]
    assert _files_with_secrets(lab.path.parent, *spark_folders) == []
    assert PIPELINE in lab.path.read_text()

"""A secret of the configuration is nowhere after a drain: no file, no output, no error has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Never
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from prove.lab.pipeline_lab import PIPELINE, configure
from prove.servers import SPARK
from servers.process import ServerFolder, free_ports
from servers.spark_connect import SparkConnectSettings, start_spark_connect
from spark_jobs.config.redaction import MASK, is_secret_key
from spark_jobs.connections.spark_address import catalog_conf
from spark_jobs.protocol.errors import Unexpected
from spark_jobs.upkeep.figures import MIN_FILES_TO_MERGE
from tests.support.new_lab import as_json
from tests.support.upkeep_lab import drain_often, tidy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prove.lab.pipeline_lab import Lab
    from prove.servers import Servers
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
SECRETS = {
    name: f"{name.lower()}+Secret/{number:06d}"
    for number, name in enumerate(
        (
            *("KAFKA_PASSWORD", "KAFKA_CLIENT_SECRET", "KAFKA_KEY_PASSWORD"),
            *("CATALOG_TOKEN", "CATALOG_CREDENTIAL", "CATALOG_HEADER"),
            *("STORE_SECRET_KEY", "STORE_ACCOUNT_KEY", "LAKE_SAS"),
            *("LAB_SETTING", "WEBHOOK_PATH", "UI_TOKEN"),
        ),
        start=0x9F31C7,
    )
}
KAFKA = {
    "sasl.username": "sluice",
    "sasl.password": "${KAFKA_PASSWORD}",
    "sasl.oauthbearer.client.secret": "${KAFKA_CLIENT_SECRET}",
    "ssl.key.password": "${KAFKA_KEY_PASSWORD}",
}
CATALOG = {
    "token": "${CATALOG_TOKEN}",
    "credential": "sluice:${CATALOG_CREDENTIAL}",
    "header.X-Key": "${CATALOG_HEADER}",
    "s3.access-key-id": "sluice",
    "s3.secret-access-key": "${STORE_SECRET_KEY}",
    "adls.account-key": "${STORE_ACCOUNT_KEY}",
    "adls.sas-token": "${LAKE_SAS}",
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
    configure(lab, "kafka", KAFKA)
    configure(lab, "catalog", CATALOG)
    configure(lab, "spark", {"conf": {"spark.lab.password": "${LAB_SETTING}"}})
    configure(lab, f"pipelines/{PIPELINE}", {"notify": {"webhook": "http://127.0.0.1:1/${WEBHOOK_PATH}"}})
    configure(lab, "", {"ui": {"tokens": ["${UI_TOKEN}"]}})
    return lab


@pytest.fixture
def spark_folders(servers: Servers) -> list[Path]:
    """Where the Connect server works and what it logs; not Kafka's segments, which are large."""
    return [servers.folder() / SPARK, servers.folder() / "logs"]


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


@pytest.fixture
def shown_spark(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkConnectSettings]:
    """A server with pages and an event log as spark-cluster.md has it; its token is one of the secrets."""
    folder = ServerFolder(tmp_path / "spark", "spark-shown")
    port, pages = free_ports(2)
    events = tmp_path / "spark" / "events"
    events.mkdir(parents=True)
    told = {**catalog_conf(lab.config), **lab.config.spark.conf}
    conf = {
        **{key: MASK for key in told if is_secret_key(key)},
        "spark.ui.enabled": "true",
        "spark.ui.port": str(pages),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
    }
    settings = SparkConnectSettings(folder, home=folder.home, port=port, cores=2, conf=conf)
    monkeypatch.setitem(SECRETS, "SPARK_SERVERS", settings.token)
    monkeypatch.setenv("CONNECT_TOKEN", settings.token)
    server = start_spark_connect(settings)
    yield settings
    server.process.stop()


def _pages(settings: SparkConnectSettings) -> str:
    """What Spark's UI shows of its environment, its queries and its Connect sessions."""
    base = f"http://127.0.0.1:{settings.conf['spark.ui.port']}"
    with urlopen(f"{base}/api/v1/applications", timeout=60) as answer:  # noqa: S310  (our own)
        application = json.load(answer)[0]["id"]
    paths = ("environment/", "jobs/", "SQL/", "connect/", f"api/v1/applications/{application}/environment")
    pages = []
    for path in (*paths, f"api/v1/applications/{application}/sql?details=true"):
        with urlopen(f"{base}/{path}", timeout=60) as answer:  # noqa: S310  (our own)
            pages.append(answer.read().decode())
    return "".join(pages)


@contextmanager
def _command_lines() -> Iterator[set[bytes]]:
    """Those that every user of the machine is shown while the block runs."""
    seen: set[bytes] = set()
    ended = Event()

    def look() -> None:
        while not ended.wait(0.05):
            for process in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    seen.add((process / "cmdline").read_bytes())

    looking = Thread(target=look)
    looking.start()
    try:
        yield seen
    finally:
        ended.set()
        looking.join()


def test_no_file_and_no_output_has_a_secret(
    lab: Lab, new_lab: NewLab, shown_spark: SparkConnectSettings
) -> None:
    """Drains, one of them by Dagster, and a compaction of what they wrote, then a run without a broker.

    Command lines, both outputs, Dagster's database, logs, catalog, table, Spark's pages and event log: only
    the server's own settings, which its user alone reads, have its token.
    """
    remote = f"sc://localhost:{shown_spark.port}/;token=${{CONNECT_TOKEN}}"
    configure(lab, "spark", {"remote": remote})
    materialize = (
        *("dagster", "asset", "materialize"),
        *("-m", "orchestration.definitions", "--select", "lab/orders"),
    )
    with _command_lines() as lines:
        done = _run(lab, *materialize)
        assert done.returncode == 0, done.stderr[-2000:]
        assert lab.table().scan().to_arrow().num_rows == 2
        drain_often(lab, new_lab, MIN_FILES_TO_MERGE)
        tidy(lab, "compaction")
        assert len(list(lab.table().scan().plan_files())) == 1
        pages = _pages(shown_spark)
        configure(lab, "kafka", {"bootstrap.servers": "127.0.0.1:1"})
        failed = _run(lab, *materialize)
    assert failed.returncode != 0
    assert "broker-away" in failed.stdout + failed.stderr
    assert any(b"orchestration.definitions" in line for line in lines)
    assert "spark.lab.password" in pages + "".join(
        each.read_text() for each in (shown_spark.folder.root / "events").rglob("*") if each.is_file()
    )
    outputs = (done.stdout, done.stderr, failed.stdout, failed.stderr, pages, str(lines))
    for output in outputs:
        assert not [name for name, value in SECRETS.items() if value in output]
    (shown_spark.home / "conf" / "spark-defaults.conf").unlink()
    assert _files_with_secrets(lab.path.parent, shown_spark.folder.root) == []


def test_a_task_that_fails_shows_none(
    lab: Lab, spark_folders: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the error, nor its causes, nor what Spark and our loggers write down."""
    with pytest.raises(Unexpected) as caught:
        lab.drain(fail_points=_FailingTask())
    assert "a task failed the same way in every attempt" in str(caught.value)
    assert "the task has a defect" in str(caught.value)
    with lab.connections() as connections:
        shown = repr(connections) + repr(lab.config) + str(lab.config.model_dump())
    causes = "".join(f"{e!r}{e}" for e in (caught.value, caught.value.__cause__))
    for text in (shown, causes, caplog.text):
        assert not [name for name, value in SECRETS.items() if value in text]
    assert _files_with_secrets(lab.path.parent, *spark_folders) == []
    assert PIPELINE in lab.path.read_text()

"""Work that goes on for days: a secret that was rotated is followed, and a server that is silent is left."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.config.file import load_config
from spark_jobs.connections.connect import Connections, connect
from spark_jobs.hot.follower import Follower
from spark_jobs.monitoring import metrics
from spark_jobs.monitoring.metrics import SluiceCollector

if TYPE_CHECKING:
    import pytest

CONFIG = """\
version: 1
kafka: {{bootstrap.servers: "127.0.0.1:1", sasl.mechanism: PLAIN, security.protocol: SASL_PLAINTEXT,
  sasl.username: me, sasl.password: "${{file:{secret}}}"}}
catalog: {{{catalog}}}
state: {{uri: "s3://bucket/state", s3.access-key-id: me, s3.secret-access-key: "${{file:{secret}}}"}}
pipelines: {{orders: {{topic: orders, table: lake.orders, hot: true}}}}
"""


def _no_spark() -> None:
    raise AssertionError("no Spark is asked for")


def _connected(folder: Path, monkeypatch: pytest.MonkeyPatch, catalog: str) -> Connections:
    monkeypatch.setenv("SLUICE_HOME", str(folder / "home"))
    (folder / "secret").write_text("first-secret")
    (folder / "sluice.yaml").write_text(CONFIG.format(secret=folder / "secret", catalog=catalog))
    config = load_config(folder / "sluice.yaml")
    return connect(
        config, spark=_no_spark, interrupt=lambda _: None, parallelism=1, actor="me", run_id="test"
    )


def test_a_follower_takes_a_secret_that_was_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's password, the log's key and the catalog's: each is what its file has by now."""
    file, lake = tmp_path / "secret", tmp_path / "lake"
    database = f"type: sql, uri: 'sqlite:///${{file:{file}}}', warehouse: '{lake}'"
    monkeypatch.chdir(tmp_path)
    connections = _connected(tmp_path, monkeypatch, database)
    config = load_config(tmp_path / "sluice.yaml")
    follower = Follower(config.pipelines, connections, folder=tmp_path, memory_bytes=1 << 30)
    connections.open_catalog().close()
    assert (tmp_path / "first-secret").exists()
    (tmp_path / "secret").write_text("second-secret")
    follower._look()
    assert connections.kafka["sasl.password"] == "second-secret"
    assert connections.admin._properties["sasl.password"] == "second-secret"
    assert connections.txlog.store._properties["s3.secret-access-key"] == "second-secret"
    connections.open_catalog().close()
    assert (tmp_path / "second-secret").exists()


def test_metrics_are_read_by_keys_that_were_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log's and the catalog's are those of their files at each scrape, in an exporter that runs on."""
    monkeypatch.setattr(metrics, "PATIENCE_SECONDS", 0.5)
    monkeypatch.chdir(tmp_path)
    database = (
        f"type: sql, uri: 'sqlite:///${{file:{tmp_path / 'secret'}}}', warehouse: '{tmp_path / 'lake'}'"
    )
    _connected(tmp_path, monkeypatch, database)
    collector = SluiceCollector(load_config(tmp_path / "sluice.yaml"))
    (tmp_path / "secret").write_text("second-secret")
    collector._look()
    assert collector._log.store._properties["s3.secret-access-key"] == "second-secret"
    assert (tmp_path / "second-secret").exists()
    assert not (tmp_path / "first-secret").exists()


def test_a_silent_catalog_takes_no_metrics_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exporter answers in time, and says of each pipeline that it cannot be read."""
    monkeypatch.setattr(metrics, "PATIENCE_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        _connected(tmp_path, monkeypatch, f"type: rest, uri: 'http://127.0.0.1:{silent.getsockname()[1]}'")
        collector = SluiceCollector(load_config(tmp_path / "sluice.yaml"))
        began = time.monotonic()
        samples = {sample.name: sample.value for family in collector.collect() for sample in family.samples}
    assert time.monotonic() - began < 8
    assert samples["sluice_pipeline_readable"] == 0

"""The code server that daemon and webserver share: told of changes, its socket this user's alone."""

from __future__ import annotations

import json
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest
import yaml

from bench.processor_time import tree
from servers.code_server import LONGEST_FOLDER, socket_folder
from servers.dagster import DagsterSettings, start_dagster
from servers.process import free_ports
from spark_jobs.protocol.errors import ConfigError

PATIENCE_SECONDS = 90.0
_ASSETS = "{assetNodes{assetKey{path}}}"


def configure(file: Path, *topics: str) -> None:
    """One pipeline a topic, of a broker that is away."""
    pipelines = {topic: {"topic": topic, "table": f"lake.{topic}"} for topic in topics}
    kafka = {"bootstrap.servers": "127.0.0.1:1"}
    file.write_text(yaml.safe_dump({"version": 1, "kafka": kafka, "pipelines": pipelines}))


def tables(url: str) -> set[str]:
    """The tables that the UI shows."""
    body = json.dumps({"query": _ASSETS}).encode()
    request = urllib.request.Request(f"{url}/graphql", body, {"Content-Type": "application/json"})  # noqa: S310  (our own)
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310
        nodes = json.load(answer)["data"]["assetNodes"]
    paths = [node["assetKey"]["path"] for node in nodes]
    return {path[1] for path in paths if len(path) == 2 and path[0] == "lake"}


def test_all_of_dagster_shares_one_code_server_which_is_told_of_changes(tmp_path: Path) -> None:
    """Neither daemon nor webserver loads the definitions again, and a pipeline added later is shown soon."""
    file = tmp_path / "sluice.yaml"
    configure(file, "first")
    servers = start_dagster(DagsterSettings(tmp_path / ".sluice", file, free_ports(1)[0]))
    try:
        assert tables(servers.url) == {"first"}
        for process in (servers.daemon, servers.webserver):
            assert not [one for one in tree(process.pid) if "api grpc" in one.words]
        configure(file, "first", "second")
        servers.reload()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while tables(servers.url) != {"first", "second"}:
            assert time.monotonic() < deadline, tables(servers.url)
            time.sleep(0.2)
    finally:
        servers.stop()


def test_a_socket_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who can write beside the socket could take its place and be sent what Dagster would run."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        deep = tmp_path / ("d" * LONGEST_FOLDER)
        for home, parent in ((Path(short), Path(short) / "run"), (deep, tmp_path)):
            made = socket_folder(home)
            assert (made.parent, made.stat().st_mode & 0o777) == (parent, 0o700)
            assert socket_folder(home) == made
            made.chmod(0o777)
            with pytest.raises(ConfigError, match="this user alone"):
                socket_folder(home)

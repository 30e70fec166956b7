"""A Connect server that is somebody else's: told by a program, behind TLS and a token."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from prove.lab.pipeline_lab import configure
from tests.support.certificates import Certificates, make_certificates
from tests.support.new_lab import as_json
from tests.support.tls_proxy import tls_before

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prove.lab.pipeline_lab import Lab
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ROOT = Path(__file__).parents[2]


def token_of(spark_remote: str) -> str:
    """The token without which the run's server answers nobody."""
    return spark_remote.partition(";token=")[2]


def drain(lab: Lab, **environment: str) -> subprocess.CompletedProcess[str]:
    """A real `./sluice drain`, whose gRPC reads its authorities when it begins."""
    return subprocess.run(
        [sys.executable, "-m", "cli", "drain", lab.pipeline.name, "--config", str(lab.path)],
        cwd=ROOT,
        env={**os.environ, "SLUICE_HOME": str(lab.path.parent / "home"), **environment},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def test_a_program_tells_each_sessions_server(new_lab: NewLab, spark_remote: str, tmp_path: Path) -> None:
    """It is asked once for all drains of a process; the token that it prints is in no file afterwards."""
    asked, program = tmp_path / "asked", tmp_path / "session"
    program.write_text(f"#!/bin/sh\necho \"$1\" >> {asked}\necho '{spark_remote}'\n")
    program.chmod(0o755)
    lab = new_lab(as_json({"id": 1}, {"id": 2}))
    configure(lab, "spark", {"remote": None, "remote_command": [str(program), "warm"]})
    lab.drain()
    new_lab.produce(lab, as_json({"id": 3}))
    lab.drain()
    assert lab.table().scan().to_arrow().num_rows == 3
    assert asked.read_text().splitlines() == ["warm"]
    token = token_of(spark_remote).encode()
    files = [each for each in lab.path.parent.rglob("*") if each.is_file()]
    assert files
    assert not [each for each in files if token in each.read_bytes()]


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    """An authority's, and a server's on loopback."""
    return make_certificates(tmp_path / "certificates")


@pytest.fixture
def tls_remote(spark_remote: str, certificates: Certificates) -> Iterator[str]:
    """The run's server behind TLS, without the token."""
    with tls_before(urlsplit(spark_remote).port or 0, certificates) as port:
        yield f"sc://127.0.0.1:{port}/;use_ssl=true"


def test_work_goes_through_tls_with_a_token(
    new_lab: NewLab, spark_remote: str, tls_remote: str, certificates: Certificates
) -> None:
    """Code, tasks and results; a wrong token and an unknown authority are a line each, at once."""
    lab = new_lab(as_json({"id": 1}, {"id": 2}))
    trusted = {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(certificates.ca)}
    configure(lab, "spark", {"remote": f"{tls_remote};token=${{CONNECT_TOKEN}}"})
    done = drain(lab, CONNECT_TOKEN=token_of(spark_remote), **trusted)
    assert done.returncode == 0, done.stderr[-2000:]
    assert lab.table().scan().to_arrow().num_rows == 2
    new_lab.produce(lab, as_json({"id": 3}))
    refused = drain(lab, CONNECT_TOKEN="not-the-token", **trusted)
    assert refused.returncode == 78
    assert "spark-refused" in refused.stderr
    unknown = drain(lab, CONNECT_TOKEN=token_of(spark_remote))
    assert unknown.returncode == 78, unknown.stderr[-2000:]
    assert "spark-tls" in unknown.stderr
    for ended in (done, refused, unknown):
        assert not [t for t in (token_of(spark_remote), "not-the-token") if t in ended.stdout + ended.stderr]

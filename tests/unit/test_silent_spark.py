"""A Connect server that takes connections and says nothing, and one that is asked past a proxy."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest

from resources import spark_session
from resources.spark import WorkSpark, _interrupt_briefly
from resources.spark_session import wait_for_answer
from spark_jobs.config.settings import CatalogSettings, SluiceConfig, SparkSettings
from spark_jobs.connections.spark_address import connect_url
from spark_jobs.protocol.errors import RetryableError
from spark_jobs.spark.environment import reach_loopback


@contextmanager
def _listening(*, hangs_up: bool) -> Iterator[int]:
    """A balancer without a backend: it takes connections, and hangs up at once or never."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        kept: list[socket.socket] = []

        def take() -> None:
            while True:
                try:
                    kept.append(server.accept()[0])
                except OSError:
                    return
                if hangs_up:
                    kept.pop().close()

        threading.Thread(target=take, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("hangs_up", [True, False])
def test_a_server_that_says_nothing_is_an_error_in_time(
    *, hangs_up: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The wait is told while it lasts, and ends with a name; stopping work there takes no longer either."""
    monkeypatch.setattr(spark_session, "ANSWER_SECONDS", 1.5)
    monkeypatch.setattr(spark_session, "TELL_SECONDS", 0.5)
    monkeypatch.setattr("resources.spark.INTERRUPT_SECONDS", 0.5)
    caplog.set_level(logging.INFO)
    began = time.monotonic()
    with _listening(hangs_up=hangs_up) as port:
        config = SluiceConfig(
            home=str(tmp_path),
            state=str(tmp_path / "log"),
            catalog=CatalogSettings(properties={}),
            spark=SparkSettings(remote=f"sc://127.0.0.1:{port}"),
        )
        spark = WorkSpark(config, "drain")
        with pytest.raises(RetryableError, match="has not answered") as told:
            spark.session()
        spark.interrupt("an-attempt")
    assert told.value.code == "spark-away"
    assert time.monotonic() - began < 20
    assert "Spark has not answered for 1 s" in caplog.text
    assert "has not stopped the work" in caplog.text


def test_who_is_interrupted_does_not_wait_for_a_silent_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark stops the running operation before it lets Ctrl-C through; that wait has an end."""
    monkeypatch.setattr("resources.spark.INTERRUPT_SECONDS", 0.1)
    asked, speaks = list[str](), threading.Event()
    client = SimpleNamespace(interrupt_operation=lambda name: asked.append(name) or speaks.wait())
    _interrupt_briefly(client)
    client.interrupt_operation("an-operation")
    speaks.set()
    assert asked == ["an-operation"]


def test_loopback_is_reached_past_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a proxy in the environment that leads nowhere, a server on this machine answers."""
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    variables = {"NO_PROXY": "corp.example", "no_grpc_proxy": "grpc.example"}
    reach_loopback(variables)
    assert variables == {
        "no_proxy": "corp.example,localhost,127.0.0.1,::1",
        "NO_PROXY": "corp.example,localhost,127.0.0.1,::1",
        "no_grpc_proxy": "grpc.example,localhost,127.0.0.1,::1",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    server = grpc.server(ThreadPoolExecutor(1))  # one that knows no method: its refusal is an answer
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    wait_for_answer(connect_url(f"sc://127.0.0.1:{port}", "drain", 0, secret=b"s" * 32))
    server.stop(None)

"""A real ``./sluice serve`` of a lab's pipeline, queried over HTTP by the commands' client, and killed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import requests
import yaml

from prove.lab.pipeline_lab import PIPELINE
from servers.asking import ask_serve
from servers.environment import clean_environment
from servers.process import ServerFolder, ServerProcess, free_ports
from spark_jobs.config.file import load_config
from spark_jobs.protocol.errors import fault

if TYPE_CHECKING:
    from prove.lab.pipeline_lab import Lab

_ANSWER_SECONDS = 60.0


class ServeProcess:
    """At its own address, with the lab's configuration at its creation."""

    def __init__(self, lab: Lab) -> None:
        (port,) = free_ports(1)
        self._path = lab.path.with_name(f"serve-{port}.yaml")
        serve = {"listen": f"127.0.0.1:{port}", "flight": "off"}
        document = yaml.safe_load(lab.path.read_text()) | {"serve": serve}
        self._path.write_text(yaml.safe_dump(document))
        self._config = load_config(self._path)
        self._folder = ServerFolder(lab.path.parent, f"serve-{port}")
        self.start()

    def start(self) -> None:
        """Start or restart it, without waiting for its first answer."""
        command = [sys.executable, "-m", "cli", "serve", "--config", str(self._path)]
        self._process = ServerProcess(self._folder, command, clean_environment())

    def kill(self) -> None:
        """Kill it immediately."""
        self._process.kill()

    def stop(self) -> None:
        """Terminate it."""
        self._process.stop()

    def ask(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a complete answer.

        Raises what it refuses, and ``RetryableError`` (``serve-away``) while it is not there or broke off.
        """
        body = {"pipeline": PIPELINE, "sql": sql}
        answered = ask_serve(self._config, "POST", "/v1/query", body, seconds=_ANSWER_SECONDS)
        if answered is None:
            raise fault("serve-away", why="nobody listens")
        try:
            answer = answered.json()
        except requests.RequestException as error:
            raise fault("serve-away", why=f"its answer broke off: {error}") from error
        assert answered.headers["Sluice-Watermark"] == answer["watermark"]
        names = [column["name"] for column in answer["columns"]]
        return [dict(zip(names, row, strict=True)) for row in answer["rows"]]


@contextmanager
def serving(lab: Lab) -> Iterator[ServeProcess]:
    """Yield a server, and stop it at the end."""
    serve = ServeProcess(lab)
    try:
        yield serve
    finally:
        serve.stop()

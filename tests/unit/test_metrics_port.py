"""Where metrics are served when the port is taken."""

from __future__ import annotations

import socket

import pytest
from click.testing import CliRunner

from cli.commands.metrics import command
from servers import metrics
from spark_jobs.protocol.errors import ConfigError


def test_a_second_sluice_takes_a_free_port_unless_it_was_told_which(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual port being taken stops nothing; a port that was asked for is refused by name."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        taken = listening.getsockname()[1]
        monkeypatch.setattr(metrics, "DEFAULT_METRICS_PORT", taken)
        assert metrics._port(None) not in {0, taken}
        with pytest.raises(ConfigError, match="is taken") as refused:
            metrics._port(taken)
        assert refused.value.code == "port-taken"
    assert metrics._port(None) == taken


def test_port_zero_is_no_port_to_serve_on() -> None:
    """`metrics --port 0` is refused: it was taken for no port at all, and the usual one was served."""
    ended = CliRunner().invoke(command, ["--port", "0"])
    assert ended.exit_code == 2
    assert "--port" in ended.output

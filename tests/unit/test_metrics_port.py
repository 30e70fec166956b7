"""Where metrics are served when the port is taken."""

from __future__ import annotations

import contextlib
import socket

import pytest

from servers import metrics
from spark_jobs.core.config import DEFAULT_METRICS_PORT
from spark_jobs.core.errors import ConfigError


def test_a_second_sluice_takes_a_free_port_unless_it_was_told_which() -> None:
    """The usual port being taken stops nothing; a port that was asked for is refused by name."""
    with socket.socket() as listening:
        # Whoever listens there already, another Sluice perhaps, does as well.
        with contextlib.suppress(OSError):
            listening.bind(("127.0.0.1", DEFAULT_METRICS_PORT))
            listening.listen()
        assert metrics._port(None) not in {0, DEFAULT_METRICS_PORT}
        with pytest.raises(ConfigError, match="is taken") as refused:
            metrics._port(DEFAULT_METRICS_PORT)
        assert refused.value.code == "port-taken"

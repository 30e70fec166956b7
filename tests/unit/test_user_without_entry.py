"""A container's user that no list of users has, as OpenShift gives one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from cli.work import _actor
from servers.environment import write_spark_defaults
from spark_jobs.protocol.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _without_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_entry(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr("pwd.getpwuid", no_entry)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)


def test_who_did_something_is_known_by_number() -> None:
    """Every command that is logged asks for the name, and ended with a traceback."""
    assert _actor().startswith(f"uid-{os.getuid()}@")


def test_a_spark_that_cannot_start_is_named(tmp_path: Path) -> None:
    """Hadoop refuses such a user after half a minute, in words of its own."""
    with pytest.raises(ConfigError) as refused:
        write_spark_defaults(tmp_path, {})
    assert refused.value.code == "user-without-entry"
    assert "spark.remote" in refused.value.hint

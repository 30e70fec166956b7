"""What Spark's launcher is told of the user it runs as."""

from __future__ import annotations

import os
import pwd
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from servers import environment
from servers.environment import write_spark_defaults
from spark_jobs.protocol.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def test_jars_lie_in_the_state_folder_where_the_users_home_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of `nobody`; what is configured stays, and a user whom Java does not know is named."""
    monkeypatch.setattr(environment.pwd, "getpwuid", lambda _: SimpleNamespace(pw_dir="/nonexistent"))
    assert f"spark.jars.ivy {tmp_path}/ivy\n" in write_spark_defaults(tmp_path, {}).read_text()
    assert "spark.jars.ivy /own\n" in write_spark_defaults(tmp_path, {"spark.jars.ivy": "/own"}).read_text()
    monkeypatch.setattr(environment.pwd, "getpwuid", lambda _: SimpleNamespace(pw_dir=str(tmp_path)))
    assert "ivy" not in write_spark_defaults(tmp_path, {}).read_text()
    monkeypatch.undo()
    monkeypatch.setattr(os, "getuid", lambda: 987_654_321)
    with pytest.raises(KeyError):
        pwd.getpwuid(os.getuid())
    with pytest.raises(ConfigError, match="987654321"):
        write_spark_defaults(tmp_path, {})

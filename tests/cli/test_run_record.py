"""Who holds a state folder: one at a time, and nobody once the holder is gone."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from cli.app import main
from cli.stand.run_record import hold, read_up
from spark_jobs.protocol.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

HOLD_FOR_EVER = """
import sys, time
from cli.stand.run_record import hold
with hold(sys.argv[1], 'up'):
    print('held', flush=True)
    time.sleep(60)
"""


def test_a_holder_is_seen_only_while_it_holds(tmp_path: Path) -> None:
    """The record names pid and command during the hold and nobody before or after."""
    home = str(tmp_path)
    assert read_up(home) is None
    with hold(home, "up"):
        record = read_up(home)
        assert record is not None
        assert (record.pid, record.command) == (os.getpid(), "up")
    assert read_up(home) is None


def test_a_second_holder_is_refused_by_name(tmp_path: Path) -> None:
    """While one runs, another is told which command and process it is."""
    home = str(tmp_path)
    refusal = pytest.raises(ConfigError, match=f"demo.*{os.getpid()}")
    with hold(home, "demo"), refusal as refused, hold(home, "up"):
        pass
    assert refused.value.code == "already-up"


def test_a_killed_holder_leaves_nothing_to_stop(tmp_path: Path) -> None:
    """After kill -9 of the holder its record is history, although its pid may live on as another process."""
    holder = subprocess.Popen([sys.executable, "-c", HOLD_FOR_EVER, str(tmp_path)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    record = read_up(str(tmp_path))
    assert record is not None
    assert record.pid == holder.pid
    holder.kill()
    holder.wait()
    holder.stdout.close()
    assert read_up(str(tmp_path)) is None
    with hold(str(tmp_path), "up"):
        pass


def test_a_refused_demo_leaves_the_running_ones_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file names the registry that the other's runs ask."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path))
    monkeypatch.setenv("SLUICE_CONFIG", "")
    file = tmp_path / "demo.yaml"
    file.write_text("of the other")
    with hold(str(tmp_path), "./sluice demo"):
        assert main(["demo", "--formats"]) == 78
    assert file.read_text() == "of the other"

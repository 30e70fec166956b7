"""Whether an ``up`` runs, whether its sensor ticks, and whose endpoints are trusted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from cli.commands.status import UpState, up_state
from cli.stand.run_record import UpRecord
from cli.stand.running import CODE, Servers
from spark_jobs.config.settings import CatalogSettings, SluiceConfig
from spark_jobs.connections.endpoints import (
    Endpoints,
    beat,
    clear_endpoints,
    forget_beats,
    last_beat_ms,
    read_endpoints,
    write_endpoints,
)

if TYPE_CHECKING:
    from pathlib import Path

NOW_MS = 1_800_000_000_000
UP = UpRecord(7, "./sluice up", NOW_MS - 3_600_000)
WRITES = """
import sys, time
from spark_jobs.connections.endpoints import Endpoints, write_endpoints
write_endpoints(sys.argv[1], Endpoints(spark_remote="sc://localhost:1"))
print("written", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("up", "ticked_ms", "is_silent", "told"),
    [
        (
            UP,
            NOW_MS - 4_000,
            False,
            "`./sluice up` has been running since 2027-01-15T07:00:00Z; a sensor last ticked 4 s",
        ),
        (UP, NOW_MS - 720_000, True, "no sensor has ticked for 12 min: drains do not start automatically"),
        (UP, None, True, "no sensor has ticked for 1 h: drains do not start automatically"),
        (
            UpRecord(7, "./sluice up", NOW_MS - 9_000),
            NOW_MS - 10**7,
            False,
            "`./sluice up` has been running since",
        ),
        (UpRecord(7, "./sluice demo", NOW_MS - 10**6), None, False, "`./sluice demo` has been running since"),
        (
            None,
            NOW_MS - 4_000,
            False,
            "`up` is not running with this state folder; a sensor last ticked 4 s ago",
        ),
        (None, None, False, "`up` is not running with this state folder; start it with ./sluice up"),
    ],
)
def test_status_says_who_runs_and_whether_a_sensor_ticks(
    up: UpRecord | None, ticked_ms: int | None, is_silent: bool, told: str
) -> None:
    """An `up` whose sensor has not ticked for minutes needs a person; one that has just begun does not."""
    state = UpState(up, ticked_ms, NOW_MS)
    assert state.is_silent is is_silent
    assert state.sentence.startswith(told)
    assert ("./sluice down" in state.sentence) is is_silent


def test_a_tick_is_noted_until_what_ticks_is_stopped_on_purpose(tmp_path: Path) -> None:
    """Where nothing can be noted the tick goes on."""
    beat(str(tmp_path))
    ticked_ms = last_beat_ms(str(tmp_path))
    assert ticked_ms is not None
    assert up_state(str(tmp_path), ticked_ms + 5_000).quiet_seconds == 5
    forget_beats(str(tmp_path))
    assert last_beat_ms(str(tmp_path)) is None
    beat(f"{tmp_path / 'run' / 'last-tick'}")
    (tmp_path / "file").touch()
    beat(str(tmp_path / "file"))


def test_a_tick_while_dagster_is_stopped_is_no_trace_of_a_later_silence(tmp_path: Path) -> None:
    """The code server ticks until it has ended; `up` that was stopped on purpose is not silent."""

    class Ticking:
        def stop(self, _grace_seconds: float) -> None:
            beat(str(tmp_path))

    servers = Servers(SluiceConfig(home=str(tmp_path), state="/s", catalog=CatalogSettings(properties={})))
    servers.processes[CODE] = Ticking()  # type: ignore[assignment]
    servers.stop()
    assert last_beat_ms(str(tmp_path)) is None


def test_the_endpoints_of_a_dead_process_are_not_trusted(tmp_path: Path) -> None:
    """Killed with -9 it clears nothing: who reads them would ask servers that are gone."""
    home = str(tmp_path)
    with subprocess.Popen([sys.executable, "-c", WRITES, home], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written\n"
        assert read_endpoints(home).spark_remote == "sc://localhost:1"
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        assert read_endpoints(home) == Endpoints()
    write_endpoints(home, Endpoints(serve="http://here"))
    assert read_endpoints(home).serve == "http://here"
    clear_endpoints(home)
    assert read_endpoints(home) == Endpoints()

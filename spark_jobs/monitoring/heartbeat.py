"""When a sensor last looked at every pipeline: a small file of the state folder, that silence is noticed."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from spark_jobs.storage.state_files import write_whole

# Ticks come every five seconds; one over a thousand pipelines may take a minute.
SILENT_SECONDS = 180.0


def beat(home: str) -> None:
    """Note a tick that went well; where the state folder cannot be written none is noted."""
    with suppress(OSError):
        write_whole(_file(home), str(time.time_ns() // 1_000_000))


def last_beat_ms(home: str) -> int | None:
    """Return when the last one was, milliseconds since the epoch; None of none."""
    try:
        return int(_file(home).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def forget_beats(home: str) -> None:
    """What ticked was stopped on purpose."""
    _file(home).unlink(missing_ok=True)


def _file(home: str) -> Path:
    return Path(home) / "run" / "last-tick"

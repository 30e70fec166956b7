"""What ``status`` and ``up`` say of what runs here: who does, and whether its sensor ticks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cli import output
from cli.stand.run_record import UpRecord, read_up
from spark_jobs.checks.check import spoken_duration
from spark_jobs.monitoring.heartbeat import SILENT_SECONDS, last_beat_ms

_HINT = (
    "Switch backlog_sensor on in the UI if it is off; else ./sluice down, then ./sluice up."
    " logs/dagster-code-sluice.log in the state folder says more."
)


@dataclass(frozen=True, slots=True)
class UpState:
    """``up`` is None where none runs; ``ticked_ms`` when a sensor last ticked, by whoever runs it."""

    up: UpRecord | None
    ticked_ms: int | None
    now_ms: int

    @property
    def quiet_seconds(self) -> float:
        """Return for how long no sensor has ticked, since ``up`` began at the most."""
        since_ms = self.up.since_ms if self.up else 0
        return max(0, self.now_ms - max(since_ms, self.ticked_ms or 0)) / 1000

    @property
    def is_silent(self) -> bool:
        """True if something should tick and does not; a demo has no sensor."""
        runs = self.up is not None and self.up.command == "./sluice up"
        return runs and self.quiet_seconds > SILENT_SECONDS

    @property
    def sentence(self) -> str:
        """Return it in a line, with what to type where a person is needed."""
        quiet = spoken_duration(self.quiet_seconds)
        if self.is_silent:
            return f"no sensor has ticked for {quiet}: nothing is drained by itself\n  {_HINT}"
        has_ticked = self.ticked_ms is not None and (self.up is None or self.ticked_ms >= self.up.since_ms)
        ticked = f"; a sensor last ticked {quiet} ago" if has_ticked else ""
        if self.up is not None:
            return f"`{self.up.command}` runs since {output.when_ms(self.up.since_ms)}{ticked}"
        return f"no `up` runs with this state folder{ticked or ': ./sluice up'}"

    def to_json(self) -> dict[str, Any]:
        """Return the same for programs."""
        return {"up": self.up, "last_tick": output.when_ms(self.ticked_ms), "is_silent": self.is_silent}


def up_state(home: str, now_ms: int) -> UpState:
    """Look at what the state folder says."""
    return UpState(read_up(home), last_beat_ms(home), now_ms)

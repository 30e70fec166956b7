"""Where the servers that Sluice started itself answer; written when they are up, removed when they stop."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from spark_jobs.storage.state_files import write_whole


@dataclass(frozen=True, slots=True)
class Endpoints:
    """``kafka_bootstrap_servers`` is ``host:port``, ``spark_remote`` ``sc://host:port``; None: not up."""

    kafka_bootstrap_servers: str | None = None
    spark_remote: str | None = None


def read_endpoints(home: str) -> Endpoints:
    """Return what is said to run; a server killed since then is still named."""
    try:
        return Endpoints(**json.loads(_file(home).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return Endpoints()


def write_endpoints(home: str, endpoints: Endpoints) -> None:
    """Replace what is known."""
    write_whole(_file(home), json.dumps(asdict(endpoints)) + "\n")


def clear_endpoints(home: str) -> None:
    """Nothing runs any more; repeating it is harmless."""
    _file(home).unlink(missing_ok=True)


def _file(home: str) -> Path:
    return Path(home) / "run" / "endpoints.json"

"""What lies in the gateway's spool on this machine, read beside the gateway that has it, or without one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from spark_jobs.checks.facts import SpoolFacts
from spark_jobs.config.gateway import SPOOLED_BYTES
from spark_jobs.config.settings import SluiceConfig

_BYTES = f"coalesce(sum(length(events) + {SPOOLED_BYTES}), 0)"
_SIZES = f"""SELECT count(*), {_BYTES}, min(at_ms), (SELECT {_BYTES} FROM batches)
  FROM batches WHERE topic = ?"""  # noqa: S608


def spool_facts(config: SluiceConfig, topic: str) -> SpoolFacts | None:
    """Return what it has of a topic, None where there is no spool."""
    spool = config.gateway.spool
    path = Path(config.home) / spool.path
    if not path.exists():
        return None
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as file:
            batches, size, oldest_ms, whole = file.execute(_SIZES, (topic,)).fetchone()
    except sqlite3.Error as error:
        return SpoolFacts(0, 0, None, 0.0, unreadable=str(error))
    return SpoolFacts(batches, size, oldest_ms, whole / spool.max_bytes)

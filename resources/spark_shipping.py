"""Shipping of the job's code, and optionally Python, to a Spark Connect server elsewhere."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Any

from servers.cache import cache_folder, exclusive
from spark_jobs.connections.spark_address import no_answer
from spark_jobs.spark.shipped import LAUNCHER, pack_python

SHIPPING_PAUSES_SECONDS = (0.2, 0.5, 1.0)  # the code is well below a megabyte
WORKERS_PYTHON = "spark.sql.execution.pyspark.python"

_logger = logging.getLogger(__name__)


def ship_code(session: Any, code: Path, remote: str) -> None:
    """Upload the job's code to the session; uploading the same file again is harmless.

    Raises ``RetryableError`` if the server keeps refusing it.
    """
    _offer(session, str(code), remote, pyfile=True)


def ship_python(session: Any, name: str, remote: str, instead: Path) -> None:
    """Upload the Python archive of that name to a new session, for its tasks to use.

    It is kept in the user's cache, ``instead`` where that is on a root that nobody writes to. The session's
    own word of the Python tells whether it has the archive. Raises ``RetryableError`` as ``ship_code``.
    """
    python = f"{name}/{LAUNCHER}"
    if session.conf.get(WORKERS_PYTHON, None) == python:
        return
    folder = _cache_or(instead)
    with exclusive(folder):
        archive = pack_python(folder)
    _logger.info("sending Python to Spark, %d MB", archive.stat().st_size // 1_000_000)
    _offer(session, f"{archive}#{name}", remote, archive=True)
    session.conf.set(WORKERS_PYTHON, python)


def _cache_or(instead: Path) -> Path:
    try:
        folder = cache_folder("python")
    except OSError:
        return instead
    return folder if os.access(folder, os.W_OK) else instead


def _offer(session: Any, file: str, remote: str, **kind: bool) -> None:
    """Upload it with a few tries.

    Two processes that attach to a new session at once meet while the server puts the file away: it refuses
    one of them, and takes it from it a moment later.
    """
    from pyspark.errors import PySparkException  # noqa: PLC0415  (half a second, never at import)

    for pause_seconds in (*SHIPPING_PAUSES_SECONDS, None):
        try:
            session.addArtifacts(file, **kind)
        except PySparkException as error:
            if pause_seconds is None:
                raise no_answer(remote, error) from error
            time.sleep(pause_seconds)
        else:
            return

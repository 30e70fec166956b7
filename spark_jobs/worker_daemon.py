"""PySpark's worker daemon, with what tasks import already imported: a worker is forked ready to work.

Named in ``spark.python.daemon.module`` of the server Sluice starts. Otherwise each new worker imports Arrow,
Iceberg and Kafka by itself, which costs a first batch more than its work. A daemon ends when it has had no
worker for a while: Spark keeps one for each session there ever was, and of a session that was closed for
idleness nobody would stop it. Where it is still wanted, Spark starts another.
"""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
from contextlib import suppress
from importlib.machinery import PathFinder

# What Spark's JVM puts into its workers' path: PySpark in archives, which the environment has too, and a jar.
_SPARKS_OWN = re.compile(r"/python/lib/(pyspark|py4j-[^/]+)\.zip$|/jars/[^/]+\.jar$")

IDLE_SECONDS = 900.0  # Spark ends its workers a minute after their last task
_LOOKS = 10


def drop_sparks_archives() -> None:
    """Import PySpark from the environment; what was shipped with the job stays in the path.

    Each task has Python forget what it knows of its path, and of an archive that means reading all of its
    directory again: 85 ms of CPU a task.
    """
    rest = [entry for entry in sys.path if not _SPARKS_OWN.search(entry)]
    if PathFinder.find_spec("pyspark", rest) is None:
        return
    for entry in set(sys.path) - set(rest):
        sys.path_importer_cache.pop(entry, None)
    sys.path[:] = rest


def end_when_idle(idle_seconds: float) -> None:
    """Have this process ask itself to end once it has had no child process for so long.

    By a timer: forked workers have none, and there is no thread that a fork would leave halfway. Not before
    PySpark ignores SIGCHLD, so that a child that ended is none.
    """
    idle_looks = 0

    def look(*_: object) -> None:
        nonlocal idle_looks
        idle_looks = 0 if _has_children() else idle_looks + 1
        if idle_looks > _LOOKS:
            os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, idle_seconds / _LOOKS, idle_seconds / _LOOKS)


def _has_children() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


drop_sparks_archives()

from pyspark import daemon  # noqa: E402  (from the path that is left)

from spark_jobs.drain import split_task  # noqa: E402, F401  (for what it imports)

with suppress(ImportError):  # where JSON is decoded without it
    import wasmtime  # noqa: F401  (starts no thread before a worker makes its engine)

if __name__ == "__main__":
    gc.freeze()  # the imported modules live for ever: workers need not look through them again and again
    gc.set_threshold(50_000)  # a slice of messages is no garbage: its thousand objects go by their counts
    end_when_idle(IDLE_SECONDS)
    daemon.manager()  # type: ignore[no-untyped-call]

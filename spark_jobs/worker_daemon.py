"""PySpark's worker daemon, with what tasks import already imported: a worker is forked ready to work.

Named in ``spark.python.daemon.module`` of the server Sluice starts. Otherwise each new worker imports Arrow,
Iceberg and Kafka by itself, which costs a first batch more than its work.
"""

from __future__ import annotations

import gc
import re
import sys
from importlib.machinery import PathFinder

# What Spark's JVM puts into its workers' path: PySpark in archives, which the environment has too, and a jar.
_SPARKS_OWN = re.compile(r"/python/lib/(pyspark|py4j-[^/]+)\.zip$|/jars/[^/]+\.jar$")


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


drop_sparks_archives()

from pyspark import daemon  # noqa: E402  (from the path that is left)

import spark_jobs.drain.split_task  # noqa: E402, F401  (for what it imports)

if __name__ == "__main__":
    gc.freeze()  # the imported modules live for ever: workers need not look through them again and again
    gc.set_threshold(50_000)  # a slice of messages is no garbage: its thousand objects go by their counts
    daemon.manager()  # type: ignore[no-untyped-call]

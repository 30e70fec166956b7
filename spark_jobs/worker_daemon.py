"""PySpark's worker daemon, with what tasks import already imported: a worker is forked ready to work.

Named in ``spark.python.daemon.module`` of the server Sluice starts. Otherwise each new worker imports Arrow,
Iceberg and Kafka by itself, which costs a first batch more than its work.
"""

from __future__ import annotations

import gc

from pyspark import daemon

import spark_jobs.drain.split_task  # noqa: F401  (for what it imports)

if __name__ == "__main__":
    gc.freeze()  # the imported modules live for ever: workers need not look through them again and again
    gc.set_threshold(50_000)  # a slice of messages is no garbage: its thousand objects go by their counts
    daemon.manager()  # type: ignore[no-untyped-call]

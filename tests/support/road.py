"""The road: product files in which a function ran from a sensor's tick to the swap of one batch's commit.

The batch is the second of a table of flat JSON without routes, gates or mirror: the table is there, nothing
is learned, nothing is owed. All is real but Spark: the broker, the catalog (SQLite), lake and log on disk,
the tick of ``backlog_sensor``, the run it asks for, in this process with its one task. The first batch was
drained by another process, so that what is kept once it was asked for is asked for here.

Counting begins with the tick and ends when the catalog has taken the commit; what comes after it (the log's
last entries, notices, metadata) is not on the road. What runs while a module is imported is not counted, nor
are definitions, made before the tick. Of the way through Spark ``resources/spark.py`` is counted as far as it
runs without a session; sessions and the daemon of Python workers are not.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from dagster import DagsterInstance, RunRequest, SensorResult, build_sensor_context
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.update import AddSnapshotUpdate

from orchestration.backlog_sensor import backlog_sensor
from orchestration.build import build_definitions
from prove.lab.kafka_server import KafkaBroker, start_test_kafka
from prove.lab.pipeline_lab import TABLE, Lab, make_lab, orders
from prove.lab.tasks_here import TasksHere
from resources.sluice import Sluice
from resources.spark import WorkSpark
from servers.process import ServerFolder
from tests.support.met_files import MetFiles

RECORDS = 100
TOPIC = "road"


def road(root: Path, is_product: Callable[[Path], bool]) -> list[str]:
    """Return the files of a batch's road, from ``root`` and in the order they were first met."""
    with tempfile.TemporaryDirectory() as folder, _running_kafka(Path(folder)) as kafka:
        lab = _begun(Path(folder) / "lab", kafka)
        kafka.produce(TOPIC, orders(RECORDS, RECORDS))
        met = MetFiles(root)
        _drain(lab, met)
        assert lab.rows().num_rows == 2 * RECORDS
    return [file for file in met.files if is_product(Path(file))]


@contextmanager
def _running_kafka(folder: Path) -> Iterator[KafkaBroker]:
    server = start_test_kafka(ServerFolder(folder, "kafka"))
    try:
        yield KafkaBroker(server.bootstrap_servers)
    finally:
        server.process.stop()


def _begun(folder: Path, kafka: KafkaBroker) -> Lab:
    """Return a pipeline with one batch in its table, which another process drained."""
    kafka.create_topic(TOPIC)
    kafka.produce(TOPIC, orders(0, RECORDS))
    folder.mkdir()
    lab = make_lab(folder, bootstrap=kafka, topic=TOPIC, spark_remote=None, max_batch_records=RECORDS)
    answer = lab.start().answer()
    assert answer.named_error is None
    return lab


def _drain(lab: Lab, met: MetFiles) -> None:
    """Tick once and do the run that is asked for, met until the commit is in."""
    definitions = build_definitions(lab.config)
    with (
        DagsterInstance.ephemeral() as instance,
        patch.object(WorkSpark, "session", lambda _self: TasksHere()),
        patch.object(SqlCatalog, "commit_table", _ending(met)),
        build_sensor_context(
            instance=instance, resources={"sluice": Sluice(lab.config)}, definitions=definitions
        ) as context,
    ):
        job = definitions.resolve_job_def("drain")
        with met:
            result = backlog_sensor(context)
            assert isinstance(result, SensorResult)
            (request,) = result.run_requests or ()
            assert isinstance(request, RunRequest)
            run = job.execute_in_process(
                run_config={"loggers": {"console": {"config": {"log_level": "ERROR"}}}},
                instance=instance,
                tags=request.tags,
                asset_selection=request.asset_selection,
            )
        assert run.success
        assert met.has_ended, "no commit came by"


def _ending(met: MetFiles) -> Callable[..., Any]:
    """Return the catalog's ``commit_table``, which ends the meeting when the table has a snapshot more."""
    commit = SqlCatalog.commit_table

    def commit_table(catalog: SqlCatalog, table: Any, requirements: Any, updates: Any) -> Any:
        answer = commit(catalog, table, requirements, updates)
        is_swap = any(isinstance(update, AddSnapshotUpdate) for update in updates)
        if is_swap and table.name() == tuple(TABLE.split(".")):
            met.end()
        return answer

    return commit_table

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

import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
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

RECORDS = 100
TOPIC = "road"


def road(root: Path, is_product: Callable[[Path], bool]) -> list[str]:
    """Return the files of a batch's road, from ``root`` and in the order they were first met."""
    with tempfile.TemporaryDirectory() as folder, _running_kafka(Path(folder)) as kafka:
        lab = _begun(Path(folder) / "lab", kafka)
        kafka.produce(TOPIC, orders(RECORDS, RECORDS))
        met = _Met(root)
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


def _drain(lab: Lab, met: _Met) -> None:
    """Tick once and do the run that is asked for, met until the commit is in."""
    definitions = build_definitions(lab.config)
    with (
        DagsterInstance.ephemeral() as instance,
        patch.object(WorkSpark, "session", lambda _self: TasksHere()),
        patch.object(SqlCatalog, "commit_table", met.until(SqlCatalog.commit_table)),
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
                instance=instance, tags=request.tags, asset_selection=request.asset_selection
            )
        assert run.success
        assert met.has_ended, "no commit came by"


class _Met:
    """The files below a folder of which a function runs, in every thread that begins meanwhile."""

    def __init__(self, root: Path) -> None:
        self.files: dict[str, None] = {}
        self.has_ended = False
        self._root = f"{root}/"
        self._known: set[CodeType] = set()
        self._here = threading.local()

    def __enter__(self) -> None:
        threading.setprofile(self._see)
        sys.setprofile(self._see)

    def __exit__(self, *_error: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def until(self, commit: Callable[..., Any]) -> Callable[..., Any]:
        """Return the same, which ends the looking when the table has a snapshot more."""

        def commit_table(catalog: SqlCatalog, table: Any, requirements: Any, updates: Any) -> Any:
            answer = commit(catalog, table, requirements, updates)
            is_swap = table.name() == tuple(TABLE.split("."))
            if is_swap and any(isinstance(update, AddSnapshotUpdate) for update in updates):
                self.has_ended = True
            return answer

        return commit_table

    def _see(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if code.co_name == "<module>":
            step = {"call": 1, "return": -1}.get(event, 0)
            self._here.importing = self._importing() + step
        elif event == "call" and not self.has_ended and code not in self._known:
            self._meet(code)

    def _meet(self, code: CodeType) -> None:
        # A class's body is no function; what an import calls may be called again later.
        if not code.co_flags & CO_OPTIMIZED or self._importing():
            return
        self._known.add(code)
        if code.co_filename.startswith(self._root):
            self.files.setdefault(code.co_filename.removeprefix(self._root))

    def _importing(self) -> int:
        """How many modules this thread is amid the import of."""
        return int(getattr(self._here, "importing", 0))

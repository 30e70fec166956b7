"""Hostile machines: everything is killed at once, runs are terminated, Dagster's queue is full."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from dagster import DagsterRunStatus

from cli.stand.running import SPARK, Servers
from prove.crash.restart import ENDINGS_OF_REPLACED
from prove.hostile.case import History, judge
from prove.lab.dagster_daemon import PATIENCE_SECONDS, pipelines_of, running_dagster, wait_beyond
from prove.lab.kafka_server import kafka_settings, unique_name
from prove.lab.left_out import LeftOut
from prove.lab.pipeline_lab import PIPELINE, configure, orders
from prove.scenario import Findings, scenario_on
from prove.servers import spark_settings
from prove.workload import SQLITE, Testbed, Workload
from servers.kafka import KafkaServer, start_kafka
from servers.process import ServerFolder
from servers.spark_connect import SparkConnectServer, start_spark_connect

ROOT = Path(__file__).resolve().parents[2]
PROMISED_SECONDS = 60.0
# A machine with so much to do for each of its processors has other work than this run's.
BUSY_LOAD = 3.0
RECORDS = 3_000
# Small, so that a run is still at work when the fault comes.
BATCH_RECORDS = 100
OTHERS = 2
RECORDS_OF_OTHERS = 200
EXIT_INTERRUPTED = 130
ENDS_SECONDS = 10.0


@contextmanager
def _waiting(testbed: Testbed, *, max_batch_records: int = BATCH_RECORDS) -> Iterator[Workload]:
    """Yield a pipeline on Spark with a backlog."""
    settings = {"freshness": "5s", "max_batch_records": max_batch_records}
    with testbed.workload(SQLITE, on_spark=True, **settings) as workload:
        workload.produce(orders(0, RECORDS))
        yield workload


def _kill_everything(testbed: Testbed) -> Findings:
    """Kill all servers, which are the case's own."""
    root = testbed.folder / unique_name("machine")
    kafka, spark = (
        kafka_settings(ServerFolder(root, "kafka")),
        spark_settings(ServerFolder(root, "spark-connect")),
    )
    servers: list[KafkaServer | SparkConnectServer] = []

    def start() -> None:
        servers[:] = [start_kafka(kafka), start_spark_connect(spark)]

    start()
    try:
        bootstrap, remote = f"127.0.0.1:{kafka.port}", spark.remote
        with _waiting(replace(testbed, kafka=bootstrap, spark_remote=remote)) as workload:
            with running_dagster(workload.lab, workload.folder / "dagster") as dagster:
                wait_beyond(workload.lab, BATCH_RECORDS)
                dagster.kill()
                for server in servers:
                    server.process.kill()
                began = time.monotonic()
                start()
                reached = workload.lab.drained()
                dagster.start()
                wait_beyond(workload.lab, reached, PATIENCE_SECONDS)
                seconds = time.monotonic() - began
                load = os.getloadavg()[0]
                wait_beyond(workload.lab, RECORDS - 1)
            history = History(f"killed at {reached:,} of {RECORDS:,} records", recovery_seconds=seconds)
            found = judge(workload, history)
        if found.is_kept and seconds > PROMISED_SECONDS and load > BUSY_LOAD * (os.cpu_count() or 1):
            raise LeftOut(f"all is there after {seconds:.0f} s, which say nothing at a load of {load:.0f}")
        assert seconds < PROMISED_SECONDS, f"the next commit came after {seconds:.0f} s"
        return found
    finally:
        for server in servers:
            server.process.stop()


def _terminate_run(testbed: Testbed) -> Findings:
    with _waiting(testbed) as workload:
        with running_dagster(workload.lab, workload.folder / "dagster") as dagster:
            wait_beyond(workload.lab, BATCH_RECORDS)
            (run,) = dagster.drains(DagsterRunStatus.STARTED)
            with dagster.instance() as instance:
                assert instance.run_launcher.terminate(run.run_id)
            began = time.monotonic()
            while not (ended := dagster.drains(DagsterRunStatus.CANCELED)):
                assert time.monotonic() - began < PATIENCE_SECONDS, "the run went on"
                time.sleep(0.1)
            reached = workload.lab.drained()
            assert reached < RECORDS, "it had caught up"
            wait_beyond(workload.lab, reached)
            seconds = time.monotonic() - began
            wait_beyond(workload.lab, RECORDS - 1)
        assert [each.run_id for each in ended] == [run.run_id]
        return judge(
            workload, History(f"canceled at {reached:,} of {RECORDS:,} records", recovery_seconds=seconds)
        )


def _terminate_command(testbed: Testbed) -> Findings:
    with _waiting(testbed) as workload:
        command = [sys.executable, "-m", "cli", "drain", PIPELINE, "--config", str(workload.lab.path)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as drain:
            wait_beyond(workload.lab, BATCH_RECORDS)
            drain.send_signal(signal.SIGTERM)
            code = drain.wait(PATIENCE_SECONDS)
        assert code == EXIT_INTERRUPTED, code
        reached = workload.lab.drained()
        assert reached < RECORDS, "it had caught up"
        began = time.monotonic()
        workload.run()
        history = f"it ended with exit code {code} at {reached:,} of {RECORDS:,} records"
        return judge(workload, History(history, recovery_seconds=time.monotonic() - began))


def _terminate_beside_silent_spark(testbed: Testbed) -> Findings:
    """Terminate a run next to a silent Spark server, which accepts connections only."""
    settings = spark_settings(ServerFolder(testbed.folder / unique_name("silent"), "spark-connect"))
    spark = start_spark_connect(settings).process
    try:
        with _waiting(replace(testbed, spark_remote=settings.remote)) as workload:
            command = [sys.executable, "-m", "cli", "drain", PIPELINE, "--config", str(workload.lab.path)]
            with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as drain:
                wait_beyond(workload.lab, BATCH_RECORDS)
                os.killpg(spark.pid, signal.SIGSTOP)
                time.sleep(2)  # until it is waited for
                drain.send_signal(signal.SIGTERM)
                began = time.monotonic()
                code = drain.wait(PATIENCE_SECONDS)
                seconds = time.monotonic() - began
                os.killpg(spark.pid, signal.SIGCONT)
            assert code == EXIT_INTERRUPTED, code
            assert seconds < ENDS_SECONDS, f"it ended after {seconds:.0f} s"
            assert workload.lab.drained() < RECORDS, "it had caught up"
            began = time.monotonic()
            workload.run()
            return judge(workload, History("it ended", recovery_seconds=time.monotonic() - began))
    finally:
        spark.stop()


def _kill_spark_under_up(testbed: Testbed) -> Findings:
    with (
        _waiting(replace(testbed, spark_remote=""), max_batch_records=RECORDS) as workload,
        ExitStack() as stack,
    ):
        servers = Servers(workload.lab.config)
        stack.callback(servers.stop)
        servers.start_backends()
        workload.run()
        workload.produce(orders(RECORDS, RECORDS))
        killed = servers.processes[SPARK]
        killed.kill()
        began = time.monotonic()
        servers.mend()
        assert servers.processes[SPARK] is not killed
        workload.run()
        return judge(workload, History("it was started", recovery_seconds=time.monotonic() - began))


def _fill_queue(testbed: Testbed) -> Findings:
    with _waiting(testbed, max_batch_records=RECORDS) as workload:
        tables = _add_pipelines(workload)
        with running_dagster(workload.lab, workload.folder / "dagster", most_runs=1) as dagster:
            wait_beyond(workload.lab, RECORDS - 1)
            _wait_for_rows(workload, tables)
            runs = [pipelines_of(run) for run in dagster.drains()]
        assert sorted(name for run in runs for name in run) == sorted({*tables, PIPELINE}), runs
        return judge(workload, History(f"{len(runs)} runs in turn, each pipeline in one of them"))


def _add_pipelines(workload: Workload) -> dict[str, str]:
    """Add pipelines with backlogs; return their tables by name."""
    namespace = workload.lab.pipeline.table.rpartition(".")[0]
    added = {}
    for n in range(OTHERS):
        topic = workload.kafka.new_topic(1, retention_ms=-1)
        workload.kafka.produce(topic, orders(0, RECORDS_OF_OTHERS))
        added[f"other_{n}"] = {"topic": topic, "table": f"{namespace}.other_{n}", "freshness": "5s"}
    configure(workload.lab, "pipelines", added)
    return {name: settings["table"] for name, settings in added.items()}


def _wait_for_rows(workload: Workload, tables: dict[str, str]) -> None:
    deadline = time.monotonic() + OTHERS * PATIENCE_SECONDS
    while (found := {name: workload.lab.drained(table) for name, table in tables.items()}) != dict.fromkeys(
        tables, RECORDS_OF_OTHERS
    ):
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def _start_two_daemons(testbed: Testbed) -> Findings:
    """Run two machines with the same configuration, each with a daemon."""
    with _waiting(testbed) as workload:
        with (
            running_dagster(workload.lab, workload.folder / "one") as one,
            running_dagster(workload.lab, workload.folder / "two") as two,
        ):
            _flow(workload)
            counts = [len(each.drains()) for each in (one, two)]
            assert all(counts), counts
            failed = [*one.failures(), *two.failures()]
        history = f"{counts[0]} and {counts[1]} runs drained the same table; {_describe_failures(failed)}"
        return judge(workload, History(history))


def _start_two_sensors(testbed: Testbed) -> Findings:
    """Run one daemon with the same definitions twice: both sensors see the backlog."""
    locations = ("sluice", "again")
    with _waiting(testbed) as workload:
        with running_dagster(workload.lab, workload.folder / "dagster", locations=locations) as dagster:
            _flow(workload)
            looks = dagster.looks()
            assert all(looks[location] for location in locations), looks
            ended = Counter(str(run.status.value).lower() for run in dagster.drains())
            failed = dagster.failures()
        history = ", ".join(f"{number} {status}" for status, number in sorted(ended.items()))
        return judge(
            workload,
            History(f"both looked; runs that drained the table: {history}; {_describe_failures(failed)}"),
        )


def _flow(workload: Workload) -> None:
    """Produce thousands of records three times, each after the earlier ones are drained."""
    for start in range(RECORDS, 3 * RECORDS, RECORDS):
        wait_beyond(workload.lab, start - 1)
        workload.produce(orders(start, RECORDS))
    wait_beyond(workload.lab, 3 * RECORDS - 1)


def _describe_failures(failed: list[str]) -> str:
    """Return descriptions of failed runs; only conflicts are allowed."""
    assert all(code in ENDINGS_OF_REPLACED for code in failed), failed
    history = [f"{number} ended with {code}" for code, number in Counter(failed).items()]
    return ", ".join(history) or "none failed"


_case = partial(scenario_on, group="the machine", needs={"spark"}, is_alone=True)
SCENARIOS = (
    _case(
        "machine/everything-killed",
        "kill -9 of Kafka, Spark, Dagster and its run at once",
        f"started again, the next commit comes within {PROMISED_SECONDS:.0f} s",
        _kill_everything,
        needs=set(),
    ),
    _case(
        "machine/run-terminated",
        "a run is terminated in Dagster",
        "it ends as canceled; the sensor asks for another, which goes on",
        _terminate_run,
    ),
    _case(
        "machine/command-terminated",
        "SIGTERM of `./sluice drain`",
        "it ends; what it has committed stays, the next drain goes on",
        _terminate_command,
    ),
    _case(
        "machine/command-terminated-beside-silent-spark",
        "SIGTERM of `./sluice drain` while Spark's server stands still",
        f"it ends within {ENDS_SECONDS:.0f} s, the next drain goes on",
        _terminate_beside_silent_spark,
        needs=set(),
    ),
    _case(
        "machine/spark-killed-under-up",
        "kill -9 of the Spark server that `./sluice up` started",
        "`up` starts it again where it was, drains go on",
        _kill_spark_under_up,
        needs=set(),
    ),
    _case(
        "machine/full-queue",
        f"{OTHERS + 1} pipelines wait, one run at a time is allowed",
        "each waits in the queue once, and is drained in its turn",
        _fill_queue,
    ),
    _case(
        "machine/two-daemons",
        "two Dagster daemons, each with its own sensors, over the same pipelines",
        "conflicts between their runs are named errors; each batch is committed by one of them",
        _start_two_daemons,
    ),
    _case(
        "machine/two-sensors",
        "one Dagster daemon with two sensors over the same pipelines",
        "their runs do not work at once, or one ends with a named error; each batch is committed once",
        _start_two_sensors,
    ),
)

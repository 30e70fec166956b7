"""Rounds: a run of sixteen pipelines is killed in the middle, one of its drains hangs, the queue is full."""

from __future__ import annotations

import io
import os
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import Any

import fastavro
from dagster import DagsterRun, DagsterRunStatus

from assets.rounds import BUSY, MOST_PATIENCE, TAG_OVER_LIMIT, load_per_core
from prove.hostile.case import History, judge
from prove.lab.dagster_daemon import PATIENCE_SECONDS, DagsterDaemon, pipelines_of, running_dagster
from prove.lab.http_proxy import Client, Request
from prove.lab.pipeline_lab import PIPELINE, configure, orders
from prove.lab.registry_stand_in import RegistryStandIn
from prove.scenario import Findings, scenario_on
from prove.workload import SQLITE, Testbed, Workload
from resources.sluice import open_connections
from spark_jobs.audit.audit import audit

MEMBERS = 16
# A first drain also judges its table.
LONG_SECONDS = 3 * PATIENCE_SECONDS
RECORDS = 40
# A pipeline whose step comes in the middle of a round: they run by name.
HANGING = "other_05_hangs"
DELAYED_SECONDS = 45.0
LOCKED_SECONDS = 10.0
# The load is looked at here less often than by the run, which may have seen a higher one.
NEARLY = 0.8
_SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


class SilentRegistry(RegistryStandIn):
    """A registry that answers nobody until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.answers_now = threading.Event()

    def serve(self, request: Request, client: Client) -> None:
        self.answers_now.wait(PATIENCE_SECONDS)
        super().serve(request, client)


@contextmanager
def _due(testbed: Testbed, *, small: int = MEMBERS, rounds: int = 1) -> Iterator[Workload]:
    """Yield pipelines with small backlogs; the workload's own is one of them."""
    with testbed.workload(SQLITE, on_spark=True, freshness="5s") as workload:
        configure(workload.lab, "", {"runs": {"rounds": rounds}})
        workload.produce(orders(0, RECORDS))
        for n in range(small - 1):
            _add(workload, f"other_{n:02d}", orders(0, RECORDS))
        yield workload


def _add(workload: Workload, name: str, values: list[bytes], **settings: Any) -> None:
    topic = workload.kafka.new_topic(1, retention_ms=-1)
    workload.kafka.produce(topic, values)
    table = f"{workload.lab.pipeline.table.rpartition('.')[0]}.{name}"
    configure(
        workload.lab, "pipelines", {name: {"topic": topic, "table": table, "freshness": "5s"} | settings}
    )


def _tables(workload: Workload) -> dict[str, str]:
    return {pipeline.name: pipeline.table for pipeline in workload.lab.config.pipelines}


def _wait_for_rows(workload: Workload, tables: Mapping[str, str], records: int = RECORDS) -> float:
    """Return the highest load of each processor meanwhile."""
    deadline, load = time.monotonic() + LONG_SECONDS, load_per_core()
    waiting = dict(tables)
    while waiting := {name: t for name, t in waiting.items() if workload.lab.drained(t) < records}:
        assert time.monotonic() < deadline, f"not drained: {', '.join(waiting)}"
        time.sleep(0.2)
        load = max(load, load_per_core())
    return load


def _until(found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + LONG_SECONDS
    while not (result := found()):
        assert time.monotonic() < deadline, "it did not come so far"
        time.sleep(0.1)
    return result


def _round_with_begun(dagster: DagsterDaemon, steps: int) -> DagsterRun | None:
    """Return the round when so many of its steps have begun."""
    for run in dagster.drains(DagsterRunStatus.STARTED):
        if len(dagster.begun(run)) >= steps:
            return run
    return None


def _judge_all(workload: Workload, history: History, records: int = RECORDS) -> Findings:
    """Audit every pipeline; the workload's own is drained once more, and judged whole."""
    for pipeline in workload.lab.config.pipelines:
        if pipeline.name != PIPELINE:
            with open_connections(
                workload.lab.config, pipeline.name, kind="drain", actor="test", run_id="test"
            ) as connections:
                found = audit(pipeline, connections)
            assert (found.records, found.lag) == (records, 0), f"{pipeline.name}: {found}"
            assert found.is_clean, f"{pipeline.name}: {found}"
    return judge(workload, history)


def _kill(testbed: Testbed, begun: int) -> Findings:
    """Kill a round's process when so many of its drains have begun."""
    with _due(testbed) as workload:
        tables = _tables(workload)
        with running_dagster(workload.lab, workload.folder / "dagster") as dagster:
            killed = _until(partial(_round_with_begun, dagster, begun))
            os.kill(_until(partial(dagster.pid, killed)), signal.SIGKILL)
            began = time.monotonic()
            _wait_for_rows(workload, tables)
            seconds = time.monotonic() - began
            runs, reached = dagster.drains(), len(dagster.begun(killed))
            failed = dagster.drains(DagsterRunStatus.FAILURE)
        assert len(pipelines_of(killed)) == MEMBERS, pipelines_of(killed)
        assert [run.run_id for run in failed] == [killed.run_id], failed
        later = [run for run in runs if run.run_id != killed.run_id]
        alone = [name for run in later if len(pipelines_of(run)) == 1 for name in pipelines_of(run)]
        again = Counter(name for run in later for name in pipelines_of(run))
        # Nobody is drained twice, and who was not reached shares a run again, unless it is the last one.
        assert set(again.values()) <= {1}, again
        assert not begun or len(alone) <= 2, alone
        return _judge_all(
            workload,
            History(
                f"killed in drain {reached} of {MEMBERS}; {len(again)} were asked for again,"
                f" {len(alone)} of them alone",
                recovery_seconds=seconds,
            ),
        )


def _hang(testbed: Testbed) -> Findings:
    """Let one drain of a round wait for a registry that does not answer."""
    with SilentRegistry() as registry, _due(testbed, small=MEMBERS - 1) as workload:
        configure(workload.lab, "", {"registries": {"main": {"url": registry.url, "timeout": "10m"}}})
        registry.register("orders-value", str(_SCHEMA).replace("'", '"'))
        _add(
            workload, HANGING, list(map(_avro, range(RECORDS))), value={"format": "avro", "registry": "main"}
        )
        tables = _tables(workload)
        others = {name: table for name, table in tables.items() if name != HANGING}
        with running_dagster(workload.lab, workload.folder / "dagster") as dagster:
            ended = _until(partial(_round_with_begun, dagster, 1))
            load = _wait_for_rows(workload, others)
            seconds = dagster.seconds_of_last_step(ended)
            is_noted = TAG_OVER_LIMIT in dagster.drain(ended.run_id).tags
            registry.answers_now.set()
            _wait_for_rows(workload, tables)
            first = dagster.drains()
            for name in tables:
                _produce_again(workload, name)
            _wait_for_rows(workload, tables, 2 * RECORDS)
            then = [run for run in dagster.drains() if run.run_id not in {each.run_id for each in first}]
        assert HANGING in pipelines_of(ended), pipelines_of(ended)
        for run in (run for run in first if run.run_id != ended.run_id):
            assert HANGING not in pipelines_of(run) or pipelines_of(run) == [HANGING], pipelines_of(run)
        # A busy machine stretches the limit, and a drain that is over it there may share runs again.
        assert is_noted or load >= NEARLY * BUSY, f"not noted at a load of {load:.1f}"
        assert not is_noted or [HANGING] in map(pipelines_of, then), list(map(pipelines_of, then))
        limit = DELAYED_SECONDS * min(MOST_PATIENCE, max(1.0, load / NEARLY))
        assert seconds < limit, f"the round ended after {seconds:.0f} s at a load of {load:.1f}"
        since = "and from then on too" if is_noted else f"the machine was busy, at a load of {load:.1f}"
        history = f"its round ended within {limit:.0f} s, it was drained in a run of its own, {since}"
        return _judge_all(workload, History(history, recovery_seconds=seconds), 2 * RECORDS)


def _avro(n: int) -> bytes:
    out = io.BytesIO(b"\0\0\0\0\1")
    out.seek(0, io.SEEK_END)
    fastavro.schemaless_writer(out, _SCHEMA, {"id": n})
    return out.getvalue()


def _produce_again(workload: Workload, name: str) -> None:
    if name == PIPELINE:
        workload.produce(orders(RECORDS, RECORDS))
        return
    pipeline = workload.lab.config.pipeline(name)
    assert pipeline is not None
    values = list(map(_avro, range(RECORDS))) if name == HANGING else orders(RECORDS, RECORDS)
    workload.kafka.produce(pipeline.topic, values)


def _fill_queue(testbed: Testbed) -> Findings:
    """Let two rounds and a full batch wait for one place."""
    with _due(testbed, small=MEMBERS + 2, rounds=2) as workload:
        _add(workload, "full", orders(0, RECORDS), max_batch_records=RECORDS)
        with running_dagster(workload.lab, workload.folder / "dagster", most_runs=1) as dagster:
            _wait_for_rows(workload, _tables(workload))
            runs = list(map(pipelines_of, dagster.drains()))
        assert ["full"] in runs, runs
        asked = Counter(name for members in runs for name in members)
        assert asked == dict.fromkeys(_tables(workload), 1), asked
        return _judge_all(workload, History(f"{len(runs)} runs in turn, each pipeline in one of them"))


def _disturb(testbed: Testbed, disturb: Callable[[DagsterDaemon, int], None]) -> Findings:
    """Disturb Dagster in the first drain of a round, whose process is told."""
    with _due(testbed) as workload:
        tables = _tables(workload)
        with running_dagster(workload.lab, workload.folder / "dagster") as dagster:
            run = _until(partial(_round_with_begun, dagster, 1))
            disturb(dagster, _until(partial(dagster.pid, run)))
            began = time.monotonic()
            _wait_for_rows(workload, tables)
            seconds = time.monotonic() - began
            _until(lambda: dagster.drain(run.run_id).is_finished)
            runs = dagster.drains()
        assert [(each.run_id, each.status) for each in runs] == [(run.run_id, DagsterRunStatus.SUCCESS)], runs
        return _judge_all(
            workload, History(f"it went on and drained all {MEMBERS}", recovery_seconds=seconds)
        )


def _reload(dagster: DagsterDaemon, pid: int) -> None:
    assert dagster.servers is not None
    os.kill(pid, signal.SIGSTOP)  # a reload may take longer than the run
    dagster.servers.reload()
    os.kill(pid, signal.SIGCONT)


def _lock_databases(dagster: DagsterDaemon, _pid: int) -> None:
    """Hold all of Dagster's SQLite files for a while, as a backup does."""
    with ExitStack() as held:
        for path in (dagster.home / "dagster").rglob("*.db"):
            database = held.enter_context(closing(sqlite3.connect(path, timeout=PATIENCE_SECONDS)))
            database.execute("BEGIN IMMEDIATE")
        time.sleep(LOCKED_SECONDS)


_case = partial(scenario_on, group="rounds", needs={"spark"}, is_alone=True)
SCENARIOS = (
    *(
        _case(
            f"rounds/killed-{begun}",
            f"kill -9 of a run of {MEMBERS} pipelines when {begun} of its drains have begun",
            "who was drained is left alone, who was not is drained once by another run",
            partial(_kill, begun=begun),
        )
        for begun in (0, 1, 8, MEMBERS - 1)  # once the last has begun, the process may have ended
    ),
    _case(
        "rounds/hanging-step",
        f"one of {MEMBERS} drains in a run waits for a registry that does not answer",
        f"it delays the others by at most {DELAYED_SECONDS:.0f} s, on a busy machine by as many times as"
        " processes wait for each processor; it has runs of its own",
        _hang,
    ),
    _case(
        "rounds/reloaded",
        f"the definitions are loaded again while a run drains {MEMBERS} pipelines",
        "it goes on, nobody is asked for twice",
        partial(_disturb, disturb=_reload),
    ),
    _case(
        "rounds/dagster-locked",
        f"Dagster's SQLite files are locked for {LOCKED_SECONDS:.0f} s in a run of {MEMBERS} pipelines",
        "it waits and goes on, nobody is asked for twice",
        partial(_disturb, disturb=_lock_databases),
    ),
    _case(
        "rounds/full-queue",
        f"{MEMBERS + 3} pipelines wait in shared runs and alone, one run at a time is allowed",
        "each waits in the queue once, and is drained in its turn",
        _fill_queue,
    ),
)

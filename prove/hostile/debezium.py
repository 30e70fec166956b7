"""A real database captured by a real Debezium: rows must add up to the database's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from prove.lab.change_fold import folded
from prove.lab.debezium import Debezium, avro_converters, ends, open_debezium, settled
from prove.lab.debezium_moments import (
    COLUMNS,
    KILLED,
    MOMENTS,
    OVERLAPPED,
    OVERLAPPING,
    PARTITIONS,
    ROWS,
    TABLES,
    TOLD,
)
from prove.lab.kafka_server import unique_name
from prove.lab.pipeline_lab import configure
from prove.scenario import Findings, scenario_on
from prove.workload import SQLITE, Testbed, Workload
from servers.process import ServerFolder
from servers.registry import start_registry
from spark_jobs.audit.source_audit import SourceAudit, audit_source
from spark_jobs.health.table_facts import table_facts

LATER = 2  # keys
RESTARTS = 20
_EACH_TIME = (
    "UPDATE customers SET score = {0} WHERE id <= 20",
    "DELETE FROM customers WHERE id = 25",
    "INSERT INTO customers (id, name) VALUES (25, 'again {0}')",
    "DELETE FROM customers WHERE id = 25; UPDATE customers SET name = '{0}' WHERE id = 3",
)
_TOLD_TABLES = ("customers", "marks")


class Telling(StrEnum):
    """Ways of capturing changes."""

    WITH_SCHEMAS = "with-schemas"
    WITHOUT_SCHEMAS = "without-schemas"
    IN_AVRO = "in-avro"


def run(testbed: Testbed, *, layout: str, telling: Telling) -> Findings:
    """Change the database, drain its events, and compare, step by step."""
    settings: dict[str, Any] = {"layout": layout}
    if telling is Telling.WITHOUT_SCHEMAS:
        columns = {"amount": "decimal(12,2)", "seen": "timestamptz", "note": "string", "score": "long"}
        settings |= {"columns": columns}
    with (
        testbed.workload(SQLITE, **settings) as workload,
        open_debezium(workload.folder / "debezium", testbed.kafka) as source,
        _registry(workload.folder, telling) as registry,
    ):
        captured = CapturedTable(workload, source, unique_name("shop").replace("-", "_"))
        captured.begin(with_schemas=telling is not Telling.WITHOUT_SCHEMAS, registry=registry)
        unlike = list(captured.moments())
        audited = workload.lab.audit()
        if workload.lab.pipeline.layout == "mirror":
            unlike += captured.audits()
        rows = workload.lab.rows().num_rows
    return Findings(
        f"{rows} events in {len(MOMENTS) + 1} moments, {captured.again} of them repeated",
        lost=audited.missing + audited.differing + audited.lag,
        doubled=audited.duplicates,
        unkept="; ".join(unlike),
    )


def run_restarts(testbed: Testbed) -> Findings:
    """Kill the worker repeatedly while it produces, and drain its repetitions."""
    with (
        testbed.workload(SQLITE, layout="mirror") as workload,
        open_debezium(workload.folder / "debezium", testbed.kafka) as source,
    ):
        captured = CapturedTable(workload, source, unique_name("shop").replace("-", "_"))
        captured.begin(with_schemas=True)
        unlike = list(captured.differences("as it was"))
        for number in range(RESTARTS):
            source.run(*(each.format(number) for each in _EACH_TIME))
            source.kill_worker()
            unlike += captured.differences(f"restart {number}")
        audited = workload.lab.audit()
        batches = table_facts(workload.lab.table(), schema_since_ms=0).batches
    again = sum(batch.balance.get("told_again", 0) for batch in batches)
    return Findings(
        f"{RESTARTS} restarts, no drain stopped, {again} events told again",
        lost=audited.missing + audited.differing,
        doubled=audited.duplicates,
        unkept="; ".join(unlike),
    )


@contextmanager
def _registry(folder: Path, telling: Telling) -> Iterator[str | None]:
    """Start a registry for events in Avro, and stop it at the end."""
    if telling is not Telling.IN_AVRO:
        yield None
        return
    registry = start_registry(ServerFolder(folder, "registry"))
    try:
        yield registry.url
    finally:
        registry.process.stop()


class CapturedTable:
    """A pipeline over a table's changes, and a second topic whose events mark steps."""

    def __init__(self, workload: Workload, source: Debezium, name: str) -> None:
        self._workload = workload
        self._source = source
        self._name = name
        self._marks = 0
        self.again = 0

    def begin(self, *, with_schemas: bool, registry: str | None = None) -> None:
        """Create the tables and start the connector, in Avro with a registry: first a snapshot."""
        broker, lab = self._workload.kafka, self._workload.lab
        for table in ("customers", "marks", "signals"):
            broker.create_topic(self.topic(table), PARTITIONS, retention_ms=-1)
        pipeline: dict[str, Any] = {"topic": self.topic("customers")}
        more = {} if with_schemas else {"decimal.handling.mode": "string"}
        if registry is not None:
            configure(lab, "", {"registries": {"main": {"url": registry}}})
            pipeline |= {part: {"format": "avro", "registry": "main"} for part in ("key", "value")}
            more |= avro_converters(registry)
        configure(lab, f"pipelines/{lab.pipeline.name}", pipeline)
        self._source.run(*TABLES, ROWS)
        self._source.capture(self._name, *_TOLD_TABLES, with_schemas=with_schemas, more=more)

    def snapshot_again(self) -> None:
        """Start another connector for the same topics, with a new snapshot."""
        more = {"topic.prefix": self._name}
        self._source.capture(f"{self._name}_anew", *_TOLD_TABLES, with_schemas=True, more=more)
        self.wait()

    def wait(self) -> None:
        """Wait until all events are produced."""
        self._mark()
        settled(partial(self._count, "customers"))

    def moments(self) -> Iterator[str]:
        """Yield the steps at which rows differ from the database."""
        yield from self.differences("as it was")
        for moment, statements in MOMENTS.items():
            before = self._count("customers")
            self._source.run(*statements)
            if moment == KILLED:
                self._kill_after(before)
            if moment == OVERLAPPING:
                self._source.overlap(*OVERLAPPED)
            yield from self.differences(moment)

    def audits(self) -> Iterator[str]:
        """Yield errors of audits against the database: with equal and with different rows."""
        if not (found := self.audited()).is_clean or not found.rows:
            yield f"an audit says of what is alike: {found.examples}"
        # What is not drained.
        self._source.run("UPDATE customers SET name = 'later' WHERE id = 9")
        self._source.run("INSERT INTO customers (id, name) VALUES (77, 'later')")
        if (found := self.audited()).differing != LATER:
            yield f"an audit says of {LATER} keys that differ: {found.examples}"

    def audited(self) -> SourceAudit:
        """Compare the mirror with the database, by the command."""
        lab = self._workload.lab
        configure(lab, "", {"sources": {"shop": self._source.database.properties["uri"]}})
        configure(lab, f"pipelines/{lab.pipeline.name}", {"mirror": {"source": "shop"}})
        with lab.connections() as connections:
            return audit_source(lab.config, lab.pipeline, connections, patience_seconds=0)

    def _kill_after(self, before: int) -> None:
        """Kill the worker as soon as it produced the changes, which it then repeats."""
        while self._count("customers") < before + TOLD:
            time.sleep(0.01)
        self._source.kill_worker()
        self._mark()
        self.again = self._count("customers") - before - TOLD

    def differences(self, moment: str) -> Iterator[str]:
        """Produce and drain everything; describe keys whose rows differ from the database."""
        self.wait()
        self._workload.run()
        held = self.database_rows()
        rows = self._workload.lab.rows().to_pylist()
        if self._workload.lab.pipeline.layout != "mirror":
            rows = list(folded(rows, COLUMNS).values())
        found = {row["id"]: tuple(row[name] for name in COLUMNS) for row in rows}
        if found != held or len(found) != len(rows):
            keys = sorted(key for key in {*found, *held} if found.get(key) != held.get(key))
            yield f"{moment}: other rows of the keys {keys[:5]}"

    def database_rows(self) -> dict[int, tuple[Any, ...]]:
        """Return the database's rows by key."""
        names = ", ".join(COLUMNS)
        return {row[0]: row for row in self._source.run(f"SELECT {names} FROM customers")}  # noqa: S608

    def _mark(self) -> None:
        """Wait for the event of a change made after all others."""
        self._marks += 1
        told = self._count("marks")
        self._source.run(f"INSERT INTO marks VALUES ({self._marks})")  # noqa: S608
        settled(partial(self._count, "marks"), at_least=told + 1)

    def _count(self, table: str) -> int:
        return sum(ends(self._workload.kafka, self.topic(table)).values())

    def topic(self, table: str) -> str:
        """Return the topic of a table's changes."""
        return f"{self._name}.public.{table}"


LAYOUTS = (
    ("changes", "debezium", "at each moment the rows of all changes add up to what the database holds"),
    ("mirror", "debezium-mirror", "at each moment the mirror has the rows that the database has"),
)
SCENARIOS = [
    scenario_on(
        f"{place}/{telling}",
        f"a PostgreSQL is changed, altered and emptied, and a Debezium that is killed tells it {telling}",
        promise,
        partial(run, layout=layout, telling=telling),
        group="a database's changes",
    )
    for layout, place, promise in LAYOUTS
    for telling in Telling
]
SCENARIOS.append(
    scenario_on(
        "debezium-mirror/restarts",
        f"a Debezium is killed {RESTARTS} times while it tells a PostgreSQL's changes",
        "no drain stops; after each the mirror has the rows that the database has",
        run_restarts,
        group="a database's changes",
    )
)

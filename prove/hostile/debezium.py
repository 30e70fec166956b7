"""A real database whose changes a real Debezium tells: their rows add up to what the database holds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from prove.lab.change_fold import folded
from prove.lab.debezium import Debezium, ends, open_debezium, settled
from prove.lab.debezium_moments import COLUMNS, KILLED, MOMENTS, PARTITIONS, ROWS, TABLES, TOLD
from prove.lab.kafka_server import unique_name
from prove.lab.pipeline_lab import configure
from prove.scenario import Findings, scenario_on
from prove.workload import SQLITE, Testbed, Workload


def run(testbed: Testbed, *, with_schemas: bool) -> Findings:
    """Change the database, drain what is told of it, add up and compare, moment by moment."""
    settings: dict[str, Any] = {"layout": "changes"}
    if not with_schemas:
        columns = {"amount": "decimal(12,2)", "seen": "timestamptz", "note": "string", "score": "long"}
        settings |= {"columns": columns}
    with (
        testbed.workload(SQLITE, **settings) as workload,
        open_debezium(workload.folder / "debezium", testbed.kafka) as source,
    ):
        told = _Told(workload, source, unique_name("shop").replace("-", "_"))
        told.begin(with_schemas=with_schemas)
        unlike = list(told.moments())
        audited = workload.lab.audit()
        rows = workload.lab.rows().num_rows
    return Findings(
        f"{rows} events in {len(MOMENTS) + 1} moments, {told.again} of them told again",
        lost=audited.missing + audited.differing + audited.lag,
        doubled=audited.duplicates,
        unkept="; ".join(unlike),
    )


class _Told:
    """A pipeline over the topic of the table's changes, and a second topic whose events mark moments."""

    def __init__(self, workload: Workload, source: Debezium, name: str) -> None:
        self._workload = workload
        self._source = source
        self._name = name
        self._marks = 0
        self.again = 0

    def begin(self, *, with_schemas: bool) -> None:
        """Make the tables and have them told: first all rows as they are."""
        broker = self._workload.kafka
        for table in ("customers", "marks", "signals"):
            broker.create_topic(self._topic(table), PARTITIONS, retention_ms=-1)
        configure(
            self._workload.lab,
            f"pipelines/{self._workload.lab.pipeline.name}",
            {"topic": self._topic("customers")},
        )
        self._source.run(*TABLES, ROWS)
        options = () if with_schemas else (("decimal.handling.mode", "string"),)
        self._source.tell(self._name, "customers", "marks", with_schemas=with_schemas, more=dict(options))

    def moments(self) -> Iterator[str]:
        """Yield each moment at which the rows do not add up to what the database holds."""
        yield from self._unlike("as it was")
        for moment, statements in MOMENTS.items():
            before = self._count("customers")
            self._source.run(*statements)
            if moment == KILLED:
                self._kill_after(before)
            yield from self._unlike(moment)

    def _kill_after(self, before: int) -> None:
        """Kill the worker as soon as it told what was done, which it does again then."""
        while self._count("customers") < before + TOLD:
            time.sleep(0.01)
        self._source.kill_worker()
        self._mark()
        self.again = self._count("customers") - before - TOLD

    def _unlike(self, moment: str) -> Iterator[str]:
        self._mark()
        settled(partial(self._count, "customers"))
        self._workload.run()
        names = ", ".join(COLUMNS)
        held = {row[0]: row for row in self._source.run(f"SELECT {names} FROM customers")}  # noqa: S608
        by_key = folded(self._workload.lab.rows().to_pylist(), COLUMNS)
        found = {row["id"]: tuple(row[name] for name in COLUMNS) for row in by_key.values()}
        if found != held or len(found) != len(by_key):
            keys = sorted(key for key in {*found, *held} if found.get(key) != held.get(key))
            yield f"{moment}: other rows of the keys {keys[:5]}"

    def _mark(self) -> None:
        """Wait until something is told that was done after all else."""
        self._marks += 1
        self._source.run(f"INSERT INTO marks VALUES ({self._marks})")  # noqa: S608
        settled(partial(self._count, "marks"), at_least=self._marks)

    def _count(self, table: str) -> int:
        return sum(ends(self._workload.kafka, self._topic(table)).values())

    def _topic(self, table: str) -> str:
        return f"{self._name}.public.{table}"


SCENARIOS = [
    scenario_on(
        f"debezium/{name}",
        f"a PostgreSQL is changed, altered and emptied, and a Debezium that is killed tells it {name}",
        "at each moment the rows of all changes add up to what the database holds",
        partial(run, with_schemas=with_schemas),
        group="a database's changes",
    )
    for name, with_schemas in (("with-schemas", True), ("without-schemas", False))
]

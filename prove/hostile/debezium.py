"""A real database whose changes a real Debezium tells: their rows add up to what the database holds."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from prove.lab.change_fold import folded
from prove.lab.debezium import Debezium, open_debezium, settled
from prove.lab.kafka_server import unique_name
from prove.lab.pipeline_lab import configure
from prove.scenario import Findings, scenario_on
from prove.workload import SQLITE, Testbed, Workload

PARTITIONS = 3
_TABLE = """CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL, note text, score int,
 amount numeric(12,2), seen timestamptz)"""
_ROWS = """INSERT INTO customers
 SELECT i, 'c'||i, CASE WHEN i % 5 = 0 THEN repeat(md5(i::text), 200) END, i, i / 4.0,
 '2024-02-29 12:00+02'::timestamptz + i * interval '1 s' FROM generate_series(1, 30) i"""
_SWAP = """BEGIN; UPDATE customers SET id = -1 WHERE id = 1; UPDATE customers SET id = 1 WHERE id = 2;
 UPDATE customers SET id = 2 WHERE id = -1; COMMIT"""
_SNAPSHOT = """INSERT INTO signals VALUES (md5(random()::text), 'execute-snapshot',
 '{"data-collections": ["public.customers"], "type": "incremental"}')"""
_COLUMNS = ("id", "name", "note", "score", "amount", "seen")
_KILLED, _TOLD = "told again by a worker that was killed", 4  # a delete is two records

# Each is one moment at which the rows must add up; a statement is a transaction.
_MOMENTS: Mapping[str, tuple[str, ...]] = {
    "changed, gone and there again": (
        "UPDATE customers SET score = score + 100 WHERE id <= 5",
        "DELETE FROM customers WHERE id IN (6, 7)",
        "INSERT INTO customers (id, name) VALUES (6, 'again')",
    ),
    "a value that is not told": ("UPDATE customers SET score = 0 WHERE id IN (10, 20)",),
    "keys that change, with a value that is not told": (
        "UPDATE customers SET id = 110 WHERE id = 10",
        "UPDATE customers SET id = id + 1000 WHERE id IN (15, 16)",
    ),
    "two rows that swap their keys": (_SWAP,),
    _KILLED: (
        "UPDATE customers SET amount = 1 WHERE id = 4",
        "DELETE FROM customers WHERE id = 9",
        "INSERT INTO customers (id, name) VALUES (9, 'told again')",
    ),
    "an incremental snapshot": (
        "UPDATE customers SET name = 'before' WHERE id = 3",
        _SNAPSHOT,
        "DELETE FROM customers WHERE id = 8",
    ),
    "altered: a column more, a wider one": (
        "ALTER TABLE customers ADD extra text",
        "UPDATE customers SET extra = 'e' WHERE id = 9",
        "ALTER TABLE customers ALTER score TYPE bigint",
        "UPDATE customers SET score = 5000000000 WHERE id = 4",
    ),
    "emptied, and a row after": (
        "TRUNCATE customers",
        "INSERT INTO customers (id, name, amount) VALUES (9, 'after', 2.25)",
    ),
}


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
        f"{rows} events in {len(_MOMENTS) + 1} moments, {told.again} of them told again",
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
        self._source.run(
            _TABLE,
            "ALTER TABLE customers ALTER note SET STORAGE EXTERNAL",
            "CREATE TABLE marks (id int PRIMARY KEY)",
            "CREATE TABLE signals (id text PRIMARY KEY, type text NOT NULL, data text)",
            _ROWS,
        )
        options = () if with_schemas else (("decimal.handling.mode", "string"),)
        self._source.tell(self._name, "customers", "marks", with_schemas=with_schemas, more=dict(options))

    def moments(self) -> Iterator[str]:
        """Yield each moment at which the rows do not add up to what the database holds."""
        yield from self._unlike("as it was")
        for moment, statements in _MOMENTS.items():
            before = self._count("customers")
            self._source.run(*statements)
            if moment == _KILLED:
                self._kill_after(before)
            yield from self._unlike(moment)

    def _kill_after(self, before: int) -> None:
        """Kill the worker as soon as it told what was done, which it does again then."""
        while self._count("customers") < before + _TOLD:
            time.sleep(0.01)
        self._source.kill_worker()
        self._mark()
        self.again = self._count("customers") - before - _TOLD

    def _unlike(self, moment: str) -> Iterator[str]:
        self._mark()
        settled(partial(self._count, "customers"))
        self._workload.run()
        names = ", ".join(_COLUMNS)
        held = {row[0]: row for row in self._source.run(f"SELECT {names} FROM customers")}  # noqa: S608
        by_key = folded(self._workload.lab.rows().to_pylist(), _COLUMNS)
        found = {row["id"]: tuple(row[name] for name in _COLUMNS) for row in by_key.values()}
        if found != held or len(found) != len(by_key):
            keys = sorted(key for key in {*found, *held} if found.get(key) != held.get(key))
            yield f"{moment}: other rows of the keys {keys[:5]}"

    def _mark(self) -> None:
        """Wait until something is told that was done after all else."""
        self._marks += 1
        self._source.run(f"INSERT INTO marks VALUES ({self._marks})")  # noqa: S608
        settled(partial(self._count, "marks"), at_least=self._marks)

    def _count(self, table: str) -> int:
        reader = Consumer({"bootstrap.servers": self._workload.kafka, "group.id": "of-nobody"})
        partitions = (TopicPartition(self._topic(table), number) for number in range(PARTITIONS))
        ends = [reader.get_watermark_offsets(each, timeout=30) for each in partitions]
        reader.close()
        return sum(end for _, end in ends)

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

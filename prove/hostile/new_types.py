"""Type changes in a mirrored database: a rebuild accepts them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from prove.hostile.debezium import CapturedTable
from prove.lab.debezium import ends, open_debezium
from prove.lab.debezium_moments import COLUMNS, SNAPSHOT
from prove.lab.kafka_server import unique_name
from prove.scenario import Findings, scenario_on
from prove.workload import SQLITE, Testbed
from spark_jobs.lake.moments import Moment
from spark_jobs.protocol.errors import SluiceError
from spark_jobs.query.query import query
from spark_jobs.replay.rebuild import rebuild

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prove.lab.pipeline_lab import Lab

_BEFORE = (
    "UPDATE customers SET score = score + 100 WHERE id <= 5",
    "DELETE FROM customers WHERE id IN (6, 7)",
    "UPDATE customers SET score = NULL, amount = -0.05 WHERE id = 8",
    "INSERT INTO customers (id, name, amount) VALUES (31, 'large', 9999999999.99)",
)
# What their changes do to rows is told by nobody. The notes of 10 and 20 are not told either.
_ALTERED = (
    "ALTER TABLE customers ALTER score TYPE text",
    "ALTER TABLE customers ALTER amount TYPE numeric(16,4)",
    "ALTER TABLE customers ADD extra int",
    "UPDATE customers SET score = 'many', amount = 0.0001, extra = 1 WHERE id IN (3, 10, 20)",
    "UPDATE customers SET id = id + 1000 WHERE id IN (15, 16)",
    "DELETE FROM customers WHERE id = 9",
    "INSERT INTO customers (id, name, score, amount) VALUES (9, 'again', '007', 1.2345)",
)
_AFTER = ("UPDATE customers SET score = score || '!' WHERE id <= 4", "DELETE FROM customers WHERE id = 5")
# Not told are the days of times that were told before, nor what rows are rounded to.
_DAYS = ("ALTER TABLE customers ALTER seen TYPE date", "UPDATE customers SET amount = 0.1 WHERE id = 1")
# The column of the mirror holds the narrower type; nobody tells what was rounded, or is gone.
_NARROWED = (
    "ALTER TABLE customers ALTER amount TYPE numeric(11)",
    "ALTER TABLE customers DROP score",
    "ALTER TABLE customers ADD score text",
    "DELETE FROM customers WHERE id = 2",
)


def run(testbed: Testbed) -> Findings:
    """Mirror, alter, and rebuild: from all events, then from a new snapshot."""
    with (
        testbed.workload(SQLITE, layout="mirror") as workload,
        open_debezium(workload.folder / "debezium", testbed.kafka) as source,
    ):
        lab, captured = workload.lab, CapturedTable(workload, source, unique_name("shop").replace("-", "_"))
        captured.begin(with_schemas=True)
        source.run(*_BEFORE)
        unlike = [*captured.differences("before it was altered")]
        before, held = lab.table().metadata.current_snapshot_id, captured.database_rows()
        source.run(*_ALTERED)
        captured.wait()
        unlike += _stopped(lab.drain, "schema-incompatible", "./sluice rebuild")
        _rebuild(lab)
        unlike += captured.differences("made anew")
        source.run(*_AFTER)
        unlike += captured.differences("changed after that")
        unlike += captured.audits()
        unlike += captured.differences("changed after the audit")
        source.run(*_DAYS)
        captured.wait()
        unlike += _stopped(lab.drain, "schema-incompatible", "./sluice rebuild")
        unlike += _stopped(partial(_rebuild, lab), "bad-change", "--from TIME")
        begins = ends(testbed.kafka, captured.topic("customers"))
        source.run(SNAPSHOT)
        captured.wait()
        _rebuild(lab, begins)
        unlike += captured.differences("made anew of what was told anew")
        source.run(*_NARROWED)
        captured.wait()
        workload.run()
        if captured.audited().is_clean:
            unlike.append("an audit says nothing of what nobody told")
        source.run(SNAPSHOT)
        unlike += captured.differences("told anew in a narrower type")
        if not (found := captured.audited()).is_clean:
            unlike.append(f"an audit says of what is alike: {found.examples}")
        if _as_of(lab, before) != held:
            unlike.append("the snapshot of before is read as other rows")
        audited = lab.audit()
    return Findings(
        f"{len(held)} rows, altered three times",
        lost=audited.missing + audited.differing + audited.lag,
        doubled=audited.duplicates,
        unkept="; ".join(unlike),
    )


def _rebuild(lab: Lab, begins: Mapping[int, int] | None = None) -> None:
    with lab.connections() as connections:
        rebuild(lab.pipeline, connections, reason="altered", begins=begins)


def _stopped(act: Callable[[], object], code: str, hint: str) -> Iterator[str]:
    """Run work that must end with this error and hint; yield deviations."""
    try:
        act()
    except SluiceError as error:
        if error.code != code or hint not in error.hint:
            yield f"what was to end with {code} ended with {error.code}: {error.hint}"
    else:
        yield f"what was to end with {code} went through"


def _as_of(lab: Lab, snapshot_id: int | None) -> dict[int, tuple[object, ...]]:
    """Return the rows of a query in an earlier snapshot, by key."""
    sql = f"SELECT {', '.join(COLUMNS)} FROM {lab.pipeline.name}"  # noqa: S608
    with (
        lab.connections() as connections,
        query(lab.pipeline, connections, sql, as_of=Moment(snapshot_id=snapshot_id)) as answer,
    ):
        rows = [tuple(row.values()) for batch in answer.batches for row in batch.to_pylist()]
    return {row[0]: row for row in rows}


SCENARIOS = [
    scenario_on(
        "debezium-mirror/new-types",
        "a PostgreSQL gives columns other types, then one that nothing is converted to, then a narrower one;"
        " of the last two a Debezium tells all rows anew",
        "drains stop (`schema-incompatible`) but for the last, which the column holds; made anew the mirror"
        " has the rows that the database has, and drains go on; the snapshot of before is read as it was",
        run,
        group="a database's changes",
    )
]

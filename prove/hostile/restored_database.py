"""A database that is lost and restored from a backup: its log restarts from an earlier position."""

from __future__ import annotations

from functools import partial

from prove.hostile.debezium import CapturedTable
from prove.lab.debezium import Debezium, ends, open_debezium
from prove.lab.kafka_server import unique_name
from prove.scenario import Findings, scenario_on
from prove.workload import SQLITE, Testbed
from spark_jobs.replay.rebuild import rebuild

# Its log goes on in the next file of 16 MB, far beyond the place where it stood.
_FURTHER = "SELECT pg_switch_wal()"
# What the backup has not, and what is done after it was restored; a statement is a transaction.
_NEW_AND_LOST = "INSERT INTO customers (id, name) VALUES (31, 'lost'), (32, 'lost')"
_LOST = (
    "UPDATE customers SET score = score + 100 WHERE id <= 10",
    "DELETE FROM customers WHERE id IN (11, 12)",
    "UPDATE customers SET id = 115 WHERE id = 15",
)
_LEFT = 3  # keys: those that were new
_AFTER = (
    "UPDATE customers SET name = 'after' WHERE id <= 10",
    "UPDATE customers SET score = 0 WHERE id <= 10",
)
_LATER = ("DELETE FROM customers WHERE id = 3", "UPDATE customers SET score = -1 WHERE id = 20")


def run(testbed: Testbed, *, is_noticed: bool) -> Findings:
    """Mirror, back up, continue, lose, restore, continue; take a snapshot, and rebuild."""
    with (
        testbed.workload(SQLITE, layout="mirror") as workload,
        open_debezium(workload.folder / "debezium", testbed.kafka) as source,
    ):
        name, backup = unique_name("shop").replace("-", "_"), workload.folder / "backup"
        captured = CapturedTable(workload, source, name)
        captured.begin(with_schemas=True)
        unlike = list(captured.differences("as it was"))
        source.database.back_up(backup)
        source.run(_NEW_AND_LOST, *(_FURTHER,) * is_noticed, *_LOST)
        unlike += captured.differences("before it was lost")
        stood = _stands(source)
        source.database.restore(backup)
        source.run(*(_FURTHER,) * (not is_noticed))
        stands = _stands(source)
        source.remove_connector(name)
        begins = ends(testbed.kafka, captured.topic("customers"))
        captured.snapshot_again()
        source.run(*_AFTER)
        captured.wait()
        error = workload.lab.start().answer().named_error
        if error != ("source-restarted" if is_noticed else None):
            unlike.append(f"the drain ended with {error}")
        if not is_noticed and (found := captured.audited()).differing != _LEFT:
            unlike.append(f"an audit says of {_LEFT} keys that are left: {found.examples}")
        with workload.lab.connections() as connections:
            rebuild(workload.lab.pipeline, connections, reason="restored", begins=begins)
        unlike += captured.differences("made anew")
        source.run(*_LATER)
        unlike += captured.differences("changed after that")
        unlike += captured.audits()
        audited = workload.lab.audit()
    return Findings(
        f"its log stood at {stood}, stands at {stands}; drained after it: {error or 'noticed nothing'}",
        lost=audited.missing + audited.differing,
        doubled=audited.duplicates,
        unkept="; ".join(unlike),
    )


def _stands(source: Debezium) -> str:
    """Return the position of the database's log."""
    return str(source.run("SELECT pg_current_wal_lsn()")[0][0])


_ANEW = "made anew from there the mirror has the rows that the database has"
SCENARIOS = [
    scenario_on(
        f"debezium-mirror/{name}",
        f"a PostgreSQL is lost and restored from a backup, its log then is {where} where it was, and a new"
        " Debezium tells all its rows anew",
        f"{promise}; {_ANEW}",
        partial(run, is_noticed=is_noticed),
        group="a database's changes",
    )
    for name, where, promise, is_noticed in (
        ("restored", "before", "drains stop (`source-restarted`)", True),
        (
            "restored-unnoticed",
            "past",
            "drains go on, an audit against the database names what is left",
            False,
        ),
    )
]

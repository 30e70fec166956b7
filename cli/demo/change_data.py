"""Change-data step of the demo: a mirror of a database table and a table of all changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cli import output
from cli.stand.recorded_changes import PARTITIONS, TOPIC, changes, rows_held
from cli.stand.sample_data import Delivery, SampleRecord, create_sample_topics, end_offsets
from cli.work import connections_for
from spark_jobs.config.settings import PipelineConfig, SluiceConfig
from spark_jobs.connections.endpoints import embedded_kafka

MIRROR, CHANGES = "customers", "customers_log"
CHANGED, NEW_SCORE = 4, 5_000_000_000  # the row of the last change, and what it has since
CDC_CONFIG = f"""\
  {MIRROR}: {{topic: {TOPIC}, table: shop.customers, layout: mirror}}
  {CHANGES}: {{topic: {TOPIC}, table: shop.customers_log, layout: changes}}
"""


def produce_changes(config: SluiceConfig) -> None:
    """Produce the recorded changes except the last one; records already in the topic are skipped."""
    *but_one, _ = changes()
    sent = _deliver(config, but_one)
    output.say(
        f"  {TOPIC}: {sent:,} of {len(but_one):,} recorded change events of a PostgreSQL 18, by Debezium 3.6"
        " (no database is started)"
    )


def show_mirror(config: SluiceConfig, typed: str) -> bool:
    """Show the rows, drain one more change, and return True if the mirror has the database's rows."""
    from cli.demo.tour import drain_now

    mirror, log = (next(each for each in config.pipelines if each.name == name) for name in (MIRROR, CHANGES))
    before = _rows(config, mirror)
    output.say(
        f"  {CHANGES}: {len(_rows(config, log)):,} events, one row each; {MIRROR}: {len(before):,} rows"
    )
    sent = _deliver(config, changes())
    for pipeline in (mirror, log):
        drain_now(config, pipeline)
    rows = _rows(config, mirror)
    was, became = ({row["id"]: row["score"] for row in each}[CHANGED] for each in (before, rows))
    when = "then the database changed" if sent else "an earlier demo had already changed"
    output.say(f"  {when} row {CHANGED}: its score was {was}, in the mirror it is {became}")
    is_alike: bool = {row["id"]: row["name"] for row in rows} == rows_held() and len(rows) == len(rows_held())
    is_alike &= became == NEW_SCORE
    output.say(f"  {MIRROR} has {'' if is_alike else 'NOT '}the rows that the database had")
    output.say(f'  {typed} query {MIRROR} "SELECT id, name, score, _cdc_operation FROM {MIRROR}"')  # noqa: S608
    output.say("  with your own database, ./sluice audit PIPELINE --source compares row by row")
    return is_alike


def _deliver(config: SluiceConfig, records: Iterable[SampleRecord]) -> int:
    properties = embedded_kafka(config.home)
    create_sample_topics(properties, {TOPIC: PARTITIONS})
    there = end_offsets(properties, TOPIC)
    delivery = Delivery(properties)
    passed = dict.fromkeys(there, 0)
    for record in records:
        if passed[record.partition] >= there[record.partition]:
            delivery.send(TOPIC, record)
        passed[record.partition] += 1
    delivery.flush()
    return delivery.sent


def _rows(config: SluiceConfig, pipeline: PipelineConfig) -> list[dict[str, Any]]:
    from spark_jobs.connections.connect import load_drained

    with connections_for(config, pipeline, "query") as connections:
        table = load_drained(pipeline, connections)
        rows: list[dict[str, Any]] = (
            table.scan(selected_fields=("id", "name", "score")).to_arrow().to_pylist()
        )
    return rows

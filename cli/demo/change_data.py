"""The demo's step on change data: a mirror has the rows that the database had, a table has all changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli import output
from cli.stand.recorded_changes import PARTITIONS, TOPIC, changes, rows_held
from cli.stand.sample_data import Delivery, create_sample_topics, end_offsets
from cli.work import connections_for
from spark_jobs.connections.endpoints import embedded_kafka
from spark_jobs.connections.tables import load_drained

if TYPE_CHECKING:
    from spark_jobs.config.settings import SluiceConfig

MIRROR, CHANGES = "customers", "customers_log"
CDC_CONFIG = f"""\
  {MIRROR}: {{topic: {TOPIC}, table: shop.customers, layout: mirror}}
  {CHANGES}: {{topic: {TOPIC}, table: shop.customers_log, layout: changes}}
"""


def produce_changes(config: SluiceConfig) -> None:
    """Have the topic hold what was recorded; what is there already is not produced again."""
    properties = embedded_kafka(config.home)
    create_sample_topics(properties, {TOPIC: PARTITIONS})
    there = end_offsets(properties, TOPIC)
    delivery = Delivery(properties)
    passed = dict.fromkeys(there, 0)
    for record in changes():
        if passed[record.partition] >= there[record.partition]:
            delivery.send(TOPIC, record)
        passed[record.partition] += 1
    delivery.flush()
    output.say(
        f"  {TOPIC}: {delivery.sent:,} of {sum(passed.values())} records that a Debezium 3.6 told of a"
        " PostgreSQL 18 (recorded: no database is started)"
    )


def show_mirror(config: SluiceConfig) -> bool:
    """Tell what the events came to; whether the mirror has the rows that the database had."""
    counts, names = {}, {}
    for pipeline in config.pipelines:
        if pipeline.name in {MIRROR, CHANGES}:
            with connections_for(config, pipeline, "query") as connections:
                rows = load_drained(pipeline, connections).scan(selected_fields=("id", "name")).to_arrow()
            counts[pipeline.name] = len(rows)
            names[pipeline.name] = dict(zip(*rows.to_pydict().values(), strict=True))
    is_alike = names[MIRROR] == rows_held() and counts[MIRROR] == len(rows_held())
    verdict = "the rows that the database had" if is_alike else "NOT the rows that the database had"
    output.say(
        f"  {CHANGES}: {counts[CHANGES]:,} events, a row each; {MIRROR}: {counts[MIRROR]:,} rows, {verdict}"
    )
    output.say(f'  ./sluice query {MIRROR} "SELECT id, name, _cdc_operation FROM {MIRROR}"')  # noqa: S608
    output.say("  a database of your own: ./sluice audit PIPELINE --source compares row by row")
    return is_alike

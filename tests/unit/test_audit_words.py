"""What is said of a table's content says no more than is so."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from assets.pipeline_asset import table_key
from assets.tables import table_asset
from cli.work import verdict
from spark_jobs.audit import audit as audits
from spark_jobs.audit.counts import AuditResult
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.work import layout_named

NAMES = {"pipeline": "orders", "topic": "orders", "table": "lake.orders"}


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (AuditResult(**NAMES, rows=5), "every record is in the table once, unchanged"),
        (
            AuditResult(**NAMES, rows=2_220, filtered=198_000, dead_letters=3),
            "every record was found once, unchanged: 2,220 rows, 3 dead letters, 198,000 filtered",
        ),
        (
            AuditResult(**NAMES, rows=4, skipped=1),
            "every record was found once, unchanged: 4 rows, 1 skipped",
        ),
        (
            AuditResult(**NAMES, layout=layout_named("mirror"), rows=28, folded=72, passed={"heartbeats": 1}),
            "every key is in the table once, as its newest change has it: 28 rows, 72 folded",
        ),
    ],
)
def test_an_audit_says_in_the_table_only_of_what_is_a_row(result: AuditResult, said: str) -> None:
    """What a filter left out, a mirror folded or an operator skipped is named with its count."""
    assert verdict(result) == said


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "Every record of the Kafka topic `o`, once, as a row of `lake.o`"),
        (
            {"filter": "id > 3"},
            "Every record of the Kafka topic `o` that the filter keeps, once, as a row of",
        ),
        (
            {"layout": layout_named("mirror")},
            "One row for each key in the Kafka topic `o`, as of its newest change;",
        ),
    ],
)
def test_dagster_says_of_a_table_what_is_in_it(settings: dict[str, object], said: str) -> None:
    """A filter keeps some of the records, a mirror the newest of each key."""
    pipeline = PipelineConfig.model_validate({"name": "o", "topic": "o", "table": "lake.o", **settings})
    assert table_asset(pipeline).descriptions_by_key[table_key(pipeline)].startswith(said)


def test_an_audit_names_a_required_column_before_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that another engine added, in the table or beside it, whatever Kafka has."""
    first = Schema(NestedField(1, "id", LongType(), required=False))
    later = Schema(*first.fields, NestedField(2, "team", StringType(), required=True), schema_id=1)

    def table(name: str, *schemas: Schema) -> SimpleNamespace:
        known = {each.schema_id: each for each in schemas}
        return SimpleNamespace(name=lambda: ("lake", name), schema=lambda: schemas[-1], schemas=lambda: known)

    connections: Any = SimpleNamespace(admin=SimpleNamespace(source_state=lambda _: None))
    pipeline = PipelineConfig(name="orders", topic="orders", table="lake.orders")
    for data, letters, named in (
        (table("orders", first, later), None, "column team of lake.orders is required"),
        (table("orders", first), table("letters", later), "column team of lake.letters is required"),
    ):
        tables = SimpleNamespace(data=data, dead_letters=letters, routed={})
        monkeypatch.setattr(audits, "tables_as_one", lambda *_, tables=tables: tables)
        with pytest.raises(ConfigError, match=named) as raised:
            audits.audit(pipeline, connections)
        assert raised.value.code == "required-column"

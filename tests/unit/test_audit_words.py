"""What is said of a table's content says no more than is so."""

from __future__ import annotations

import pytest

from assets.keys import table_key
from assets.tables import table_asset
from cli.work import verdict
from spark_jobs.audit.counts import AuditResult, MirrorAuditResult
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.config.value_format import Layout

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
            MirrorAuditResult(**NAMES, rows=28, folded=72, passed={"heartbeats": 1}),
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
        ({"layout": Layout.MIRROR}, "Each key of the Kafka topic `o`, once, as its newest change has it;"),
    ],
)
def test_dagster_says_of_a_table_what_is_in_it(settings: dict[str, object], said: str) -> None:
    """A filter keeps some of the records, a mirror the newest of each key."""
    pipeline = PipelineConfig.model_validate({"name": "o", "topic": "o", "table": "lake.o", **settings})
    assert table_asset(pipeline).descriptions_by_key[table_key(pipeline)].startswith(said)

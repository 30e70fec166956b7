"""One topic into several tables: through drains that die, replays, rollbacks and other engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from prove.lab.pipeline_lab import by_offset, configure, progress
from spark_jobs.acts.rollback import rollback
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.query.query import query
from tests.support.new_lab import DEAD_LETTERS, NewLab, as_json, column_types
from tests.support.recovery_scene import FailAt, Killed

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker
    from prove.lab.pipeline_lab import Lab

pytestmark = [pytest.mark.kafka]

REFUNDS, VOIDS = "sales.refunds", "sales.voids"
ROUTE = {"by": "kind", "tables": {"refund": REFUNDS, "void": VOIDS}}
FIRST: list[dict[str, Any]] = [
    {"kind": "sale", "n": 0},
    {"kind": "refund", "n": 1, "why": {"code": 7}},
    {"kind": "void", "n": 2},
    {"kind": "refund", "n": "x"},
    {"kind": "refund", "n": 4},
    {"n": 5},
]


@pytest.fixture
def new_lab_here(kafka: KafkaBroker, tmp_path: Path) -> NewLab:
    """Pipelines whose tasks run here."""
    return NewLab(kafka, "", tmp_path, is_here=True)


@pytest.fixture
def lab(new_lab_here: NewLab) -> Lab:
    """A pipeline that routes, over a topic with some records of each kind."""
    return new_lab_here(as_json(*FIRST), columns={"n": "long"}, route=ROUTE, sort_by=["n"])


def places(lab: Lab) -> dict[str, list[int]]:
    """The offsets in each table."""
    tables = (lab.pipeline.table, REFUNDS, VOIDS, DEAD_LETTERS)
    return {name: sorted(offset for _, offset in by_offset(lab, name)) for name in tables}


SEEN = " UNION ALL ".join(
    f"SELECT _kafka_offset AS at FROM {table}" for table in ("lab.orders", REFUNDS, VOIDS, "dead_letters")
)
WHOLE = {"lab.orders": [0, 5], REFUNDS: [1, 4], VOIDS: [2], DEAD_LETTERS: [3]}


def test_each_record_is_in_one_table_with_the_columns_it_needs(lab: Lab, new_lab_here: NewLab) -> None:
    """Also those that come later, and fields inside a struct; counts say where everything went."""
    (batch,) = lab.drain().batches
    assert places(lab) == WHOLE
    assert batch.counts.balance == {"rows": 2, "dead_letters": 1, "tombstones": 0, "gaps": 0, "routed": 3}
    assert batch.counts.routed_tables == {REFUNDS: 2, VOIDS: 1}
    assert column_types(lab, REFUNDS) == {
        "n": "int64",
        "kind": "large_string",
        "why": "struct<code: int64>",
    }
    assert column_types(lab, VOIDS) == {"n": "int64", "kind": "large_string"}
    assert by_offset(lab, REFUNDS)[0, 1]["why"] == {"code": 7}
    new_lab_here.produce(
        lab, as_json({"kind": "void", "n": 6, "why": {"text": "a"}}, {"kind": "refund", "n": 7})
    )
    lab.drain()
    assert column_types(lab, VOIDS)["why"] == "struct<code: int64, text: large_string>"
    assert column_types(lab, REFUNDS)["why"] == "struct<code: int64>"
    assert lab.audit().is_clean
    own = progress(lab)
    assert (own.routes, own.format_version) == ((REFUNDS, VOIDS), 3)
    assert progress(lab, REFUNDS).routed_from == str(lab.table().metadata.table_uuid)


@pytest.mark.parametrize(
    "fail_at",
    ["drain.after-parquet-written", "drain.after-commit", "routes.before-swap", "routes.after-swap"],
)
def test_what_is_owed_is_paid_once_whoever_dies(lab: Lab, fail_at: str, new_lab_here: NewLab) -> None:
    """Recovery pays all of it before a new batch, also to a table whose route is gone from the file."""
    lab.kill_at(fail_at)
    configure(lab, "pipelines/orders", {"route": {"by": "kind", "tables": {"refund": REFUNDS}}})
    new_lab_here.produce(lab, as_json({"kind": "void", "n": 6}))
    lab.drain()
    assert places(lab) == {**WHOLE, "lab.orders": [0, 5, 6]}
    assert lab.audit().is_clean


def test_a_dropped_table_is_made_anew_and_what_it_was_owed_is_kept(lab: Lab) -> None:
    """Other engines drop and rename: the rows that were on their way come to the table of the name."""
    lab.kill_at("drain.after-commit")
    with lab.connections() as connections:
        connections.open_catalog().rename_table(REFUNDS, "sales.gone")
    lab.drain()
    assert places(lab) == WHOLE
    assert by_offset(lab, REFUNDS)[0, 1]["why"] == {"code": 7}


def test_a_table_that_is_not_ours_stops_the_route_with_a_way_out(lab: Lab) -> None:
    """Neither is anything written to it nor does the pipeline go on without it."""
    lab.drain()
    with lab.connections() as connections:
        catalog = connections.open_catalog()
        catalog.rename_table(REFUNDS, "sales.gone")
        catalog.rename_table(DEAD_LETTERS, REFUNDS)
    with pytest.raises(ConfigError) as refused:
        lab.drain()
    assert refused.value.code == "not-routed-from"
    with pytest.raises(ConfigError) as refused:
        lab.replay(OffsetRange(0, 0, 6))
    assert refused.value.code == "not-routed-from"


def test_replays_and_rollbacks_clear_every_table_ever_routed_to(lab: Lab) -> None:
    """Rows move where today's route has them, and what a rollback takes out is drained again."""
    before = lab.drain().metadata
    assert before is not None
    configure(lab, "pipelines/orders", {"route": {"by": "kind", "tables": {"sale": REFUNDS}}})
    outdated = lab.audit()
    assert (outdated.is_clean, outdated.outdated) == (True, 4)
    lab.replay(OffsetRange(0, 0, 6))
    assert places(lab) == {"lab.orders": [1, 2, 4, 5], REFUNDS: [0], VOIDS: [], DEAD_LETTERS: [3]}
    assert lab.audit().is_clean


def test_a_dead_letter_that_goes_through_again_goes_where_its_record_would(new_lab_here: NewLab) -> None:
    """Also after a kill between the commit of the table and that of the one its row is owed to."""
    fails = {"half": {"type": "long", "sql": "CASE WHEN n = 1 THEN CAST('x' AS BIGINT) ELSE n END"}}
    lab = new_lab_here(as_json(*FIRST), columns={"n": "long", **fails}, route=ROUTE)
    lab.drain()
    assert places(lab) == {**WHOLE, REFUNDS: [4], DEAD_LETTERS: [1, 3]}
    mended = {"n": "long", "half": {"type": "long", "sql": "n"}}
    configure(lab, "pipelines/orders", {"columns": mended})
    with pytest.raises(Killed):
        lab.redrive(fail_points=FailAt("redrive.after-swap"))
    with lab.connections() as connections, query(lab.pipeline, connections, f"{SEEN} ORDER BY at") as answer:
        assert [row["at"] for batch in answer.batches for row in batch.to_pylist()] == [0, 1, 2, 3, 4, 5]
    lab.drain()
    assert places(lab) == WHOLE
    assert by_offset(lab, REFUNDS)[0, 1]["half"] == 1
    assert lab.audit().is_clean
    (refused,) = (each.snapshot_id for each in lab.table().metadata.snapshots[:1])
    with lab.connections() as connections, pytest.raises(ConfigError, match="redriven since"):
        rollback(lab.pipeline, connections, to_snapshot=refused, reason="test", force=True)

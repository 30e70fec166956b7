"""One topic into several tables: through drains that die, replays, rollbacks and other engines."""

from __future__ import annotations

import io
import json
from functools import partial
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.types import StringType

from cli.commands.check_steps import _table
from cli.commands.state_word import StateWord
from cli.commands.status import look as look_for_status
from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import TABLE, by_offset, configure, progress
from spark_jobs.acts.rollback import rollback
from spark_jobs.audit.metadata import audit_metadata
from spark_jobs.audit.trace import trace
from spark_jobs.audit.trace_answers import Where
from spark_jobs.connections.connect import load_routed, open_catalog
from spark_jobs.lake.catalog import released
from spark_jobs.lake.moments import Moment
from spark_jobs.notices.failures import work_failed
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.query.query import query
from spark_jobs.upkeep.upkeep import tables_of
from tests.support.new_lab import DEAD_LETTERS, NewLab, as_json, column_types
from tests.support.recovery_scene import FailAt, Killed

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table

    from prove.lab.kafka_server import KafkaBroker
    from prove.lab.pipeline_lab import Lab

pytestmark = [pytest.mark.kafka]

REFUNDS, VOIDS = "sales.refunds", "sales.voids"
ROUTE = {"by": "kind", "tables": {"refund": REFUNDS, "void": VOIDS}}
FIRST: list[dict[str, Any]] = [
    {"kind": "sale", "n": 0},
    {"kind": "refund", "n": 1, "why": {"code": 7}, "amount": 5},
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


def snapshots(lab: Lab) -> list[int | None]:
    """Where each table stands."""
    tables = (lab.pipeline.table, REFUNDS, VOIDS, DEAD_LETTERS)
    return [lab.table(name).metadata.current_snapshot_id for name in tables]


SEEN = """
SELECT _kafka_offset AS seen FROM lab.orders UNION ALL SELECT _kafka_offset FROM sales.refunds
UNION ALL SELECT _kafka_offset FROM sales.voids UNION ALL SELECT _kafka_offset FROM dead_letters ORDER BY seen
"""
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
        "amount": "int64",
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


def test_values_with_schemas_are_routed_too(new_lab_here: NewLab) -> None:
    """By a column of theirs; what the pipeline's own table keeps of a schema's fields stays its own."""
    fields = [{"name": "kind", "type": "string"}, {"name": "n", "type": ["null", "long"]}]
    schema = {"type": "record", "name": "Order", "fields": fields}

    def order(kind: str, n: int | None) -> Record:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {"kind": kind, "n": n})
        return Record(out.getvalue())

    value = {"format": "avro", "file": "order.avsc", "framing": "none"}
    lab = new_lab_here([order("refund", 0), order("void", None), order("sale", 2)], value=value, route=ROUTE)
    (lab.path.parent / "order.avsc").write_text(json.dumps(schema))
    lab.drain()
    assert (by_offset(lab, REFUNDS)[0, 0]["n"], *by_offset(lab, VOIDS)) == (0, (0, 1))
    assert column_types(lab, VOIDS) == {"kind": "large_string"}
    assert lab.audit().is_clean


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
    copied = by_offset(lab, REFUNDS)[0, 1]
    assert (copied["kind"], copied["why"], copied["amount"]) == ("refund", {"code": 7}, 5)


def test_a_table_that_is_not_ours_stops_the_route_with_a_way_out(lab: Lab) -> None:
    """Neither is anything written to it nor does the pipeline go on without it."""
    lab.drain()
    with lab.connections() as connections:
        catalog = connections.open_catalog()
        catalog.rename_table(REFUNDS, "sales.gone")
        catalog.rename_table(DEAD_LETTERS, REFUNDS)
    for work in (lab.drain, partial(lab.replay, OffsetRange(0, 0, 6))):
        with pytest.raises(ConfigError) as refused:
            work()
        assert refused.value.code == "not-routed-from"


def test_a_debt_that_cannot_be_paid_says_the_way_out(lab: Lab) -> None:
    """A foreign table of the name takes nothing; the others get theirs, and renamed away it is made anew."""
    lab.kill_at("drain.after-commit")
    with lab.connections() as connections:
        catalog = connections.open_catalog()
        catalog.rename_table(REFUNDS, "sales.gone")
        catalog.create_table(REFUNDS, pa.schema([("n", pa.int64())]))
    with pytest.raises(ConfigError) as refused:
        lab.drain()
    assert refused.value.code == "route-stands-still"
    assert f"ALTER TABLE {REFUNDS} RENAME TO refunds_old" in refused.value.hint
    assert sorted(by_offset(lab, VOIDS)) == [(0, 2)]
    catalog.rename_table(REFUNDS, "sales.refunds_old")
    lab.drain()
    assert places(lab) == WHOLE


def ask(lab: Lab, sql: str) -> list[dict[str, Any]]:
    """The answer's rows."""
    with lab.connections() as connections, query(lab.pipeline, connections, sql) as answer:
        return [row for batch in answer.batches for row in batch.to_pylist()]


EVERYWHERE = " UNION ALL ".join(
    f"SELECT _kafka_offset AS o, '{name}' AS t FROM {name}"  # noqa: S608  (no value in it)
    for name in ("lab.orders", REFUNDS, VOIDS, "dead_letters")
)


def test_queries_and_traces_have_each_record_once_while_it_is_owed(lab: Lab) -> None:
    """After a drain whose debts are open, and after a replay that moves rows; where it is says `trace`."""
    lab.kill_at("drain.after-commit")
    there = sorted((row["o"], row["t"]) for row in ask(lab, EVERYWHERE))
    assert there == [
        *((0, "lab.orders"), (1, REFUNDS), (2, VOIDS), (3, "dead_letters"), (4, REFUNDS), (5, "lab.orders"))
    ]
    lab.drain()
    configure(lab, "pipelines/orders", {"route": {"by": "kind", "tables": {"sale": VOIDS, "void": REFUNDS}}})
    lab.kill_at("replay.after-commit", work="replay 0:0-3")
    moved = sorted((row["o"], row["t"]) for row in ask(lab, EVERYWHERE))
    assert moved == [
        *((0, VOIDS), (1, "lab.orders"), (2, REFUNDS), (3, "dead_letters"), (4, REFUNDS), (5, "lab.orders"))
    ]
    assert lab.audit().missing == lab.audit().duplicates == 0
    with lab.connections() as connections:
        (found,) = trace(lab.pipeline, connections, 0, 4)
    assert (found.where, found.why) == (Where.ROW, f"it is in {REFUNDS}")


def test_a_rollback_takes_rows_out_of_every_table(lab: Lab, new_lab_here: NewLab) -> None:
    """They are drained again, once each; tables are tidied like the pipeline's own."""
    lab.drain()
    first = lab.table().metadata.current_snapshot_id
    new_lab_here.produce(lab, as_json({"kind": "void", "n": 6}, {"kind": "sale", "n": 7}))
    lab.drain()
    assert places(lab)[VOIDS] == [2, 6]
    with lab.connections() as connections:
        rollback(lab.pipeline, connections, to_snapshot=first, reason="test")
    assert places(lab) == WHOLE
    lab.drain()
    assert places(lab) == {**WHOLE, "lab.orders": [0, 5, 7], VOIDS: [2, 6]}
    assert lab.audit().is_clean
    with lab.connections() as connections:
        audited = audit_metadata(lab.pipeline, connections)
        assert tables_of(lab.pipeline, connections)[2:4] == (REFUNDS, VOIDS)
    assert audited.is_clean


def test_a_replay_clears_every_table_ever_routed_to(lab: Lab) -> None:
    """Rows move where today's route has them; an audit before it calls them outdated."""
    lab.drain()
    configure(lab, "pipelines/orders", {"route": {"by": "kind", "tables": {"sale": "sales.sales"}}})
    outdated = lab.audit()
    assert (outdated.is_clean, outdated.outdated) == (True, 4)
    lab.kill_at("replay.after-flush-start", work="replay 0:0-6")
    # Before there is a file: a version that knows of no routes must adopt none.
    assert progress(lab).routes == (REFUNDS, "sales.sales", VOIDS)
    lab.replay(OffsetRange(0, 0, 6))
    assert places(lab) == {"lab.orders": [1, 2, 4, 5], REFUNDS: [], VOIDS: [], DEAD_LETTERS: [3]}
    assert [*by_offset(lab, "sales.sales")] == [(0, 0)]
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
    with lab.connections() as connections, query(lab.pipeline, connections, SEEN) as answer:
        assert [row["seen"] for batch in answer.batches for row in batch.to_pylist()] == [0, 1, 2, 3, 4, 5]
    lab.drain()
    assert places(lab) == WHOLE
    assert by_offset(lab, REFUNDS)[0, 1]["half"] == 1
    assert lab.audit().is_clean
    (refused,) = (each.snapshot_id for each in lab.table().metadata.snapshots[:1])
    with lab.connections() as connections, pytest.raises(ConfigError, match="have become rows since"):
        rollback(lab.pipeline, connections, to_snapshot=refused, reason="test", force=True)


def test_tables_may_share_a_folder_and_the_last_part_of_their_names(
    new_lab_here: NewLab, tmp_path: Path
) -> None:
    """What a replay wrote again of one is not swept with another's; a query knows each by its whole name."""
    shared = {"write.data.path": f"file://{tmp_path}/shared"}
    route = {"by": "kind", "tables": {"refund": "other.orders"}}
    lab = new_lab_here(as_json(*FIRST), columns={"n": "long"}, route=route, table_properties=shared)
    lab.drain()
    before = lab.table().metadata.current_snapshot_id
    lab.replay(OffsetRange(0, 1, 3))
    assert sorted(offset for _, offset in by_offset(lab)) == [0, 2, 5]
    assert sorted(offset for _, offset in by_offset(lab, "other.orders")) == [1, 4]
    assert lab.audit().is_clean
    counts = "SELECT (SELECT count(*) FROM orders) AS own, (SELECT count(*) FROM other.orders) AS others"
    assert _ask(lab, counts) == [{"own": 3, "others": 2}]
    first = lab.table().metadata.snapshots[0]
    assert first.snapshot_id != before
    assert _ask(lab, "SELECT count(*) AS own FROM orders", Moment(snapshot_id=first.snapshot_id)) == [
        {"own": 0}
    ]


def test_a_routed_table_that_cannot_be_looked_at_is_not_passed_over(lab: Lab) -> None:
    """Who may not read it would find each of its records missing, or leave rows there that have to go."""

    def refuse(name: str) -> Table | None:
        raise ConfigError(f"no rights on {name}", code="catalog-refused", hint="Grant them.")

    lab.drain()
    with pytest.raises(ConfigError, match="no rights on sales"):
        load_routed(refuse, lab.table())


def test_a_routed_table_that_was_set_back_takes_nothing_until_it_is_right_again(
    lab: Lab, new_lab_here: NewLab
) -> None:
    """The rows of the commits between would be gone, and its next commit would hide it."""
    lab.drain()
    refunds = lab.table(REFUNDS)
    whole = refunds.metadata.current_snapshot_id
    assert whole is not None
    _set_main(refunds, refunds.metadata.snapshots[0].snapshot_id)
    new_lab_here.produce(lab, as_json({"kind": "refund", "n": 7}))
    with pytest.raises(ConfigError) as raised:
        lab.drain()
    assert (raised.value.code, f"set_current_snapshot('{REFUNDS}', {whole})" in raised.value.hint) == (
        "route-stands-still",
        True,
    )
    _set_main(lab.table(REFUNDS), whole)
    lab.drain()
    assert places(lab)[REFUNDS] == [1, 4, 6]
    assert lab.audit().is_clean


def _set_main(table: Table, snapshot_id: int) -> None:
    with table.manage_snapshots() as change:
        change.set_current_snapshot(snapshot_id)


def _ask(lab: Lab, sql: str, as_of: Moment | None = None) -> list[dict[str, Any]]:
    with (
        lab.connections() as connections,
        query(lab.pipeline, connections, sql, as_of=as_of) as answer,
    ):
        return [row for batch in answer.batches for row in batch.to_pylist()]


@pytest.mark.parametrize("name", [TABLE, REFUNDS, DEAD_LETTERS])
def test_a_required_column_that_nothing_fills_stops_before_anything_is_written(
    new_lab_here: NewLab, lab: Lab, name: str
) -> None:
    """Another engine added it: the error names it with the line that makes it optional, then all goes on."""
    lab.drain()
    before = snapshots(lab)
    with lab.table(name).update_schema(allow_incompatible_changes=True) as update:
        update.add_column("region", StringType(), required=True)
    new_lab_here.produce(lab, as_json(*FIRST))
    with pytest.raises(ConfigError) as stopped:
        lab.drain()
    assert stopped.value.code == "required-column"
    assert f"ALTER TABLE {name} ALTER COLUMN region DROP NOT NULL" in stopped.value.hint
    assert (snapshots(lab), lab.stray_files()) == (before, set())
    if name != TABLE:  # status looks at a pipeline's own table, and at how its last run ended
        work_failed(lab.config.home, lab.pipeline, "drain", stopped.value)
    ((_, state),) = look_for_status(lab.config)
    assert (state.word, "DROP NOT NULL" in state.next_step) == (StateWord.FAILED, True)
    with released(open_catalog(lab.config)) as catalog, pytest.raises(ConfigError, match="region"):
        _table(catalog, lab.pipeline)
    with pytest.raises(ConfigError, match="region"):
        lab.audit()
    with lab.table(name).update_schema() as update:
        update.make_column_optional("region")
    lab.drain()
    found = lab.audit()
    assert (found.is_clean, found.lag) == (True, 0), found

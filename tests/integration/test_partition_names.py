"""Fields of records that are called as a partitioning's: their columns, rows, replays and audits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from prove.lab.pipeline_lab import by_offset, configure
from prove.lab.registry_stand_in import RegistryStandIn
from spark_jobs.hot.fresh import read_fresh
from spark_jobs.preview.preview import preview
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.replay.diff import diff_replay
from spark_jobs.replay.plan import plan_replay
from spark_jobs.reshape.repartition import repartition
from spark_jobs.reshape.retype import retype
from tests.integration.test_drain_by_schema import FIRST, by_registry, framed, order
from tests.support.new_lab import NewLab, as_json, column_types

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker
    from prove.lab.pipeline_lab import Lab

pytestmark = [pytest.mark.kafka]

AT = "2026-01-01T12:00:00Z"


@pytest.fixture
def lab_here(kafka: KafkaBroker, tmp_path: Path) -> NewLab:
    """Pipelines whose tasks run in the test's process."""
    return NewLab(kafka, "", tmp_path, is_here=True)


def _repartition(lab: Lab, *terms: str) -> None:
    configure(lab, "pipelines/orders", {"partition_by": list(terms)})
    with lab.connections() as connections:
        repartition(lab.pipeline, connections, reason="reads are otherwise")


def test_a_column_of_the_first_batch_keeps_its_name(lab_here: NewLab) -> None:
    """The partition field takes another, which preview tells."""
    lab = lab_here(
        as_json({"id": 1, "created": AT, "created_day": "d", "id_bucket": 3, "ID_BUCKET_1": 4}),
        partition_by=["day(created)", "bucket(4, id)"],
    )
    with lab.connections() as connections:
        seen = preview(lab.pipeline, connections, max_records=10)
    told = [use.term for use in seen.partitioning]
    assert told == ["day(created) as created_day_1", "bucket[4](id) as id_bucket_2"]
    lab.drain()
    assert by_offset(lab)[0, 0].items() >= {"created_day": "d", "id_bucket": 3, "ID_BUCKET_1": 4}.items()
    lab.replay(OffsetRange(0, 0, 1))
    assert lab.audit().is_clean


def test_a_field_that_comes_later_has_a_column_of_a_free_name(
    lab_here: NewLab, caplog: pytest.LogCaptureFixture
) -> None:
    """Said once; widened, read again and audited like any other, its neighbours in peace."""
    lab = lab_here(as_json({"id": 1, "created": AT}), partition_by=["day(created)"])
    lab.drain()
    later = [
        {"id": 2, "created": AT, "created_day": {"n": 1}},
        {"id": 3, "created": AT, "created_day": {"n": 2, "m": "x"}, "created_day_1": 5},
    ]
    lab_here.produce(lab, as_json(later[0]))
    with lab.connections() as connections:
        assert "created_day_1" in str(preview(lab.pipeline, connections, max_records=10).added)
    lab.drain()
    lab_here.produce(lab, as_json(later[1]))
    lab.drain()
    lab.drain()
    sentence = "the field created_day is in the column created_day_1"
    assert sum(sentence in record.getMessage() for record in caplog.records) == 1
    rows = by_offset(lab)
    assert rows[0, 1]["created_day_1"] == {"n": 1, "m": None}
    assert rows[0, 2]["created_day_1"] == {"n": 2, "m": "x"}
    assert rows[0, 2]["created_day_1_1"] == 5
    lab.replay(OffsetRange(0, 0, 3))
    assert lab.audit().is_clean
    with lab.connections() as connections:
        same = diff_replay(
            lab.pipeline, connections, plan_replay(lab.pipeline, connections, [OffsetRange(0, 0, 3)])
        )
    assert (same.rows_same, same.rows_changed) == (3, 0), same


def test_expressions_and_another_type_know_the_field_by_its_name(lab_here: NewLab) -> None:
    """What is filtered, computed and shown before it is drained goes by the field; a retype by the column."""
    sql = {"type": "double", "sql": "created_day * 2"}
    lab = lab_here(
        as_json({"id": 1, "created": AT}),
        partition_by=["day(created)"],
        columns={"twice": sql},
        filter="created_day IS DISTINCT FROM 3",
        hot=True,
    )
    lab.drain()
    lab_here.produce(lab, as_json({"id": 2, "created_day": 2.5}, {"id": 3, "created_day": 3}))
    lab.drain()
    assert {at: row["twice"] for (_, at), row in by_offset(lab).items()} == {0: None, 1: 5.0}
    lab_here.produce(lab, as_json({"id": 4, "created_day": 3}, {"id": 5, "created_day": 5}))
    with lab.connections() as connections:
        (fresh,) = read_fresh(lab.pipeline, connections).rows
        assert fresh.column("twice").to_pylist() == [10.0]
        retype(lab.pipeline, connections, "created_day_1", "long", reason="counts")
    lab.drain()
    lab.replay(OffsetRange(0, 0, 5))
    assert {at: row["created_day_1"] for (_, at), row in by_offset(lab).items()} == {0: None, 4: 5}
    assert lab.audit().is_clean  # where 2.5 is a dead letter


def test_a_schemas_field_that_comes_later_is_bound_to_its_column(lab_here: NewLab) -> None:
    """By the schema's own way: a later type of it has a column beside, the rows are audited."""
    with RegistryStandIn() as registry:
        fields = [*FIRST, {"name": "id_bucket", "type": "int", "default": 0}]
        wider = [*FIRST, {"name": "id_bucket", "type": "string", "default": ""}]
        ids = [registry.register("t-value", order(each)) for each in (FIRST, fields, wider)]
        first = framed(ids[0], order(FIRST), {"id": 1, "total": None})
        lab = by_registry(lab_here, registry.url, [first], partition_by=["bucket(4, id)"])
        lab.drain()
        for number, schema, value in ((1, fields, 7), (2, wider, "x")):
            record = {"id": 2, "total": None, "id_bucket": value}
            lab_here.produce(lab, [framed(ids[number], order(schema), record)])
            lab.drain()
        rows = by_offset(lab)
        assert (rows[0, 1]["id_bucket_1"], rows[0, 2]["id_bucket_2"]) == (7, "x")
        lab.replay(OffsetRange(0, 0, 3))
        assert lab.audit().is_clean


def test_names_of_a_past_partitioning_are_kept_for_it(lab_here: NewLab) -> None:
    """Its column gone by another engine, the field comes back beside it; drains, replays, retypes go on."""
    lab = lab_here(
        as_json(*({"id": n, "region": "no", "price": n} for n in range(4))),
        partition_by=["region", "bucket(2, id)"],
        columns={"price": "double"},
    )
    lab.drain()
    _repartition(lab)
    with lab.table().update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("region")
        update.delete_column("id")
    lab_here.produce(lab, as_json({"id": 9, "region": "se", "price": 1}))
    lab.drain()
    assert by_offset(lab)[0, 4].items() >= {"region_1": "se", "id": 9}.items()
    lab.replay(OffsetRange(0, 1, 3))
    configure(lab, "pipelines/orders", {"columns": {"price": "long"}})
    with lab.connections() as connections:
        retype(lab.pipeline, connections, "price", "long", reason="counts")
    lab.replay(OffsetRange(0, 0, 5))
    assert [row["price"] for _, row in sorted(by_offset(lab).items())] == [0, 1, 2, 3, 1]
    assert [row["region_1"] for _, row in sorted(by_offset(lab).items())] == ["no"] * 4 + ["se"]
    assert lab.audit().is_clean


def test_a_column_that_a_table_was_partitioned_by_is_not_retyped(lab_here: NewLab) -> None:
    """Iceberg keeps its name for it: told before anything is changed, with a way that works."""
    lab = lab_here(
        as_json({"id": 1.0}, {"id": 2.0}), partition_by=["k"], columns={"k": "int", "id": "double"}
    )
    lab.drain()
    _repartition(lab)
    configure(lab, "pipelines/orders", {"columns": {}})
    before = lab.table().metadata.last_sequence_number
    with lab.connections() as connections, pytest.raises(ConfigError, match="cannot-retype") as refused:
        retype(lab.pipeline, connections, "k", "string", reason="ids")
    assert "was partitioned by k" in refused.value.message
    assert lab.table().metadata.last_sequence_number == before


def test_a_declared_column_of_such_a_name_is_a_named_stop(lab_here: NewLab) -> None:
    """And so is a field inside an object; the hint's declaration works."""
    lab = lab_here(as_json({"in": {"at": 1}}), partition_by=["bucket(2, in.at)"])
    lab.drain()
    lab_here.produce(lab, as_json({"in": {"at": 1, "at_bucket": 2}}))
    with pytest.raises(ConfigError, match="column-clash") as nested:
        lab.drain()
    assert "in.at_bucket" in nested.value.message
    configure(lab, "pipelines/orders", {"schema": {"new_fields": "dead_letter"}})
    assert lab.drain().balance["dead_letters"] == 1
    assert json.dumps(column_types(lab)["in"])


def test_the_declaration_that_a_clash_names_fills_its_column(lab_here: NewLab) -> None:
    """Declared before the field came, by the name that it has in records."""
    lab = lab_here(
        as_json({"id": 1, "created": AT}), partition_by=["day(created)"], columns={"created_day": "string"}
    )
    lab.drain()
    configure(lab, "pipelines/orders", {"columns": {}})
    _repartition(lab)
    _repartition(lab, "day(created)")
    lab_here.produce(lab, as_json({"id": 2, "created": AT, "created_day_1": "d"}))
    configure(lab, "pipelines/orders", {"columns": {"created_day_1": "string"}})
    with pytest.raises(ConfigError, match="column-clash") as refused:
        lab.drain()
    assert "{created_day_1_1: {type: string, sql: created_day_1}}" in refused.value.hint
    declared = {"created_day_1_1": {"type": "string", "sql": "created_day_1"}}
    configure(lab, "pipelines/orders", {"columns": declared})
    lab.drain()
    assert by_offset(lab)[0, 1]["created_day_1_1"] == "d"
    assert lab.audit().is_clean


def test_a_retype_whose_second_half_cannot_land_does_not_begin(
    lab_here: NewLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values stay in their column, and the same command does it once that is mended; no file is left."""
    lab = lab_here(as_json({"id": 1}, {"id": 2}), columns={"id": "double"})
    lab.drain()
    configure(lab, "pipelines/orders", {"columns": {"id": "long"}})
    before = lab.table().metadata.last_sequence_number
    with monkeypatch.context() as broken:
        broken.setattr("spark_jobs.commit.retype_commit.exchange_files", _refused)
        with lab.connections() as connections, pytest.raises(ConfigError, match="cannot-commit"):
            retype(lab.pipeline, connections, "id", "long", reason="counts")
    assert lab.table().metadata.last_sequence_number == before
    assert [row["id"] for _, row in sorted(by_offset(lab).items())] == [1.0, 2.0]
    with lab.connections() as connections:
        retype(lab.pipeline, connections, "id", "long", reason="counts")
    assert [row["id"] for _, row in sorted(by_offset(lab).items())] == [1, 2]
    assert lab.stray_files() == set()


def _refused(*_args: object, **_more: object) -> int:
    raise ValueError("no file can be dropped")

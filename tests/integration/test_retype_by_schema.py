"""Columns of values with schemas in another type: the field goes with its column, each value is in one."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from prove.lab.pipeline_lab import by_offset, configure, progress
from prove.lab.registry_stand_in import RegistryStandIn
from spark_jobs.preview.preview import preview
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.replay.diff import diff_replay
from spark_jobs.replay.plan import plan_replay
from spark_jobs.reshape.retype import Retyped, retype
from tests.support.new_lab import DEAD_LETTERS, NewLab

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker
    from prove.lab.pipeline_lab import Lab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

WAS = "_id_was_string"


def _order(amount: str) -> dict[str, Any]:
    fields = [{"name": "id", "type": "string", "doc": "the shop's"}, {"name": "amount", "type": amount}]
    return {"type": "record", "name": "Order", "fields": fields}


def _written(number: int, schema: dict[str, Any], *row: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(
        out, fastavro.parse_schema(schema), dict(zip(("id", "amount"), row, strict=True))
    )
    return b"\0" + number.to_bytes(4) + out.getvalue()


def _retype(lab: Lab, column: str, type_name: str) -> Retyped:
    with lab.connections() as connections:
        return retype(lab.pipeline, connections, column, type_name, reason="ids are numbers")


def _rows(lab: Lab, *columns: str) -> dict[int, tuple[Any, ...]]:
    return {offset: tuple(row[name] for name in columns) for (_, offset), row in by_offset(lab).items()}


def test_text_becomes_numbers_where_it_is_one(new_lab: NewLab) -> None:
    """Later records go on in the new column, or are dead letters, those of before too once read again."""
    with RegistryStandIn() as registry:
        texts = [_order("int"), _order("string")]
        ids = [registry.register(f"s{n}", json.dumps(text)) for n, text in enumerate(texts)]
        first, second = ((each, text) for each, text in zip(ids, texts, strict=True))
        lab = new_lab(
            [_written(*first, "7", 1), _written(*first, "x", 2), _written(*second, "8", "3")],
            value={"format": "avro", "registry": "main"},
        )
        configure(lab, "", {"registries": {"main": {"url": registry.url}}})
        lab.drain()
        configure(lab, "pipelines/orders", {"columns": {"id": "long"}})
        with pytest.raises(ConfigError, match="column-clash") as refused:
            lab.drain()
        assert "./sluice retype orders id 'long' --reason" in refused.value.hint
        assert _retype(lab, "id", "long") == Retyped("id", WAS, files=1, left=1)
        assert _retype(lab, "amount_2", "long") == Retyped(
            "amount_2", "_amount_2_was_string", files=1, left=0
        )
        new_lab.produce(lab, [_written(*second, "9", "4"), _written(*second, "y", "5")])
        with lab.connections() as connections:
            seen = preview(lab.pipeline, connections, max_records=10)
        assert (seen.balance.rows, [each.field for each in seen.dead_letters]) == (1, ["id"])
        lab.drain()
        wanted = {
            0: (7, None, 1, None),
            1: (None, "x", 2, None),
            2: (8, None, None, 3),
            3: (9, None, None, 4),
        }
        assert _rows(lab, "id", WAS, "amount", "amount_2") == wanted
        assert [(at[1], row["field"]) for at, row in by_offset(lab, DEAD_LETTERS).items()] == [(4, "id")]
        schema = lab.table().schema()
        assert schema.find_field("id").doc == "the shop's"
        assert progress(lab).columns == {
            "id": {"string": (schema.find_field("id").field_id,)},
            "amount": {
                "int": (schema.find_field("amount").field_id,),
                "string": (schema.find_field("amount_2").field_id,),
            },
        }
        found = lab.audit()
        assert found.is_clean, found
        with lab.connections() as connections:
            plan = plan_replay(lab.pipeline, connections, [OffsetRange(0, 3, 5)])
            assert diff_replay(lab.pipeline, connections, plan).rows_same == 1
        lab.replay(OffsetRange(0, 0, 5))
        del wanted[1]
        assert _rows(lab, "id", WAS, "amount", "amount_2") == wanted
        assert sorted(by_offset(lab, DEAD_LETTERS)) == [(0, 1), (0, 4)]
        assert lab.stray_files() == set()


def test_a_long_becomes_the_time_that_its_column_says_it_is_written_as(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    """`from:` holds for what is taken over; what is no time then stays a long."""
    new_lab = NewLab(kafka, "", tmp_path, is_here=True)
    beside = {"name": "amount", "type": "long", "logicalType": "timestamp-millis"}
    schema = {**_order("int"), "fields": [{"name": "id", "type": "string"}, beside]}
    with RegistryStandIn() as registry:
        number = registry.register("s", json.dumps(schema))
        lab = new_lab(
            [_written(number, schema, "a", 0), _written(number, schema, "b", 10**17)],
            value={"format": "avro", "registry": "main"},
        )
        configure(lab, "", {"registries": {"main": {"url": registry.url}}})
        lab.drain()
        new_lab.produce(lab, [_written(number, schema, "c", 1000)])
        lab.drain()
        configure(
            lab, "pipelines/orders", {"columns": {"amount": {"type": "timestamptz", "from": "epoch_ms"}}}
        )
        with pytest.raises(ConfigError, match="column-clash") as refused:
            lab.drain()
        assert "./sluice retype orders amount 'timestamptz' --reason" in refused.value.hint
        kept = "_amount_was_long"
        assert _retype(lab, "amount", "timestamptz") == Retyped("amount", kept, files=2, left=1)
        new_lab.produce(lab, [_written(number, schema, "d", 2000)])
        lab.drain()
        rows = _rows(lab, "amount", kept)
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        assert {at: (time and (time - epoch).total_seconds(), left) for at, (time, left) in rows.items()} == {
            0: (0, None),
            1: (None, 10**17),
            2: (1, None),
            3: (2, None),
        }
        assert lab.audit().is_clean

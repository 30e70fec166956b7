"""What Debezium writes beside changes is no row and no bad value: it is counted by its kind."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from prove.lab.beside_changes import BESIDE
from prove.lab.connect_avro import AvroConverter
from prove.lab.debezium_events import Column, Source
from spark_jobs.protocol.work import Layout, layout_named
from tests.support.change_rows import Table
from tests.unit.test_avro_changes import IN_AVRO, TOPIC, Registry

TYPED, PLAIN = Source({"id": Column("int32", optional=False)}), Source()
_TYPES = {int: "int64", str: "string", type(None): "string"}
_NAMES = count()


def connect(item: Any, *, optional: bool = True) -> dict[str, Any]:
    """Return the schema that a connector writes around a value."""
    if isinstance(item, dict):
        fields = [{"field": name, **connect(each)} for name, each in item.items()]
        return {"type": "struct", "name": f"a.S{next(_NAMES)}", "fields": fields, "optional": optional}
    if isinstance(item, list):
        return {"type": "array", "items": {"type": "string", "optional": False}, "optional": optional}
    return {"type": _TYPES[type(item)], "optional": optional}


def written(item: dict[str, Any], *, with_schema: bool) -> bytes:
    """Return a key or a value in JSON."""
    whole = {"schema": connect(item, optional=False), "payload": item}
    return json.dumps(whole if with_schema else item).encode()


@pytest.mark.parametrize("layout", [layout_named("changes"), layout_named("mirror")])
@pytest.mark.parametrize("way", ["plain", "with schemas", "avro"])
def test_each_kind_is_passed_over_and_counted(way: str, layout: Layout) -> None:
    """Both decoders say the same; the changes around them are rows."""
    source = PLAIN if way == "plain" else TYPED
    first, last = ((source.key(number), source.event("c", {"id": number})) for number in (1, 2))
    beside = [tuple(written(part, with_schema=way != "plain") for part in pair) for pair in BESIDE.values()]
    records: list[Any] = [first, *beside, last]
    table = Table(layout=layout, **(IN_AVRO if way == "avro" else {}))
    if way == "avro":
        registry = Registry()
        convert = AvroConverter(registry.register).convert
        records = [(convert(TOPIC, "key", key), convert(TOPIC, "value", value)) for key, value in records]
        table.known = registry.known()
    decoded = table.drain(records)
    assert [row["id"] for row in decoded.table.to_pylist()] == [1, 2]
    assert decoded.bad == ()
    assert dict(decoded.passed) == {kind: [at] for at, kind in enumerate(BESIDE, start=1)}


@pytest.mark.parametrize(
    "value", [{"ts_ms": 5, "id": 1}, {"id": 1, "status": "BEGIN"}, {"source": {}, "table": "t"}, {"op": "x"}]
)
def test_what_only_looks_like_one_stays_a_bad_value(value: dict[str, Any]) -> None:
    """A row without its envelope is told, not passed over."""
    row = (PLAIN.key(1), PLAIN.event("c", {"id": 1}))
    decoded = Table().drain([row, (None, json.dumps(value).encode())])
    assert ([bad.index for bad in decoded.bad], dict(decoded.passed)) == ([1], {})


@pytest.mark.parametrize(
    "value", [b'{"schema":null,"payload":null}', b'{"payload":null,"schema":null}', b" null"]
)
def test_a_tombstone_that_is_written_as_json_is_counted(value: bytes) -> None:
    """It repeats the delete before it, as one without a value does."""
    row = (PLAIN.key(1), PLAIN.event("c", {"id": 1}))
    decoded = Table().drain([row, (PLAIN.key(1), value)])
    assert (decoded.bad, dict(decoded.passed)) == ((), {"nulls": [1]})

"""A drain that meets a schema nobody has seen: the registry is asked, the table's columns change, rows come.

A field of it is new, one has another name, one is wider than its column, one is of a type that it cannot be.
"""

from __future__ import annotations

import io
import json
from functools import cache
from typing import Any

import fastavro

from prove.crash.jobs import DRAIN, Job
from prove.lab.pipeline_lab import configure, orders
from prove.lab.registry_stand_in import RegistryStandIn
from prove.workload import Workload

_ID, _PRICE = {"name": "id", "type": "long"}, {"name": "price", "type": "float"}
_CODE = {"name": "code", "type": "int", "default": 0}
_EARLIER = {"type": "record", "name": "Order", "fields": [_ID, _PRICE, _CODE]}
_LATER_FIELDS = [
    _ID,
    {"name": "amount", "aliases": ["price"], "type": "double"},
    {"name": "code", "type": "string", "default": "x"},
    {"name": "customer", "type": ["null", "string"]},
]
_LATER = {**_EARLIER, "fields": _LATER_FIELDS}


def _drain_one_schema_and_produce_two(workload: Workload) -> None:
    """Bring a batch of one schema into the table; of the next one every other value is of a new one."""
    configure(workload.lab, "", {"registries": {"main": {"url": _registry().url}}})
    workload.contents.orders = _earlier
    workload.drain_batches()
    workload.contents.orders = _both
    workload.produce_batch()


def _earlier(first: int, count: int) -> list[bytes]:
    return [_framed(json.loads(order), _EARLIER) for order in orders(first, count)]


def _both(first: int, count: int) -> list[bytes]:
    return [
        _framed(json.loads(order), _LATER if number % 2 else _EARLIER)
        for number, order in enumerate(orders(first, count))
    ]


def _framed(order: dict[str, Any], schema: dict[str, Any]) -> bytes:
    order["amount"] = order["price"]
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), order)
    schema_id = _registry().register("orders", json.dumps(schema))
    return b"\0" + schema_id.to_bytes(4) + out.getvalue()


@cache
def _registry() -> RegistryStandIn:
    """Return the registry of all scenarios of this process, which ends with it."""
    return RegistryStandIn().__enter__()


NEW_SCHEMA = Job(
    "new-schema",
    "a drain that meets a new schema",
    {**DRAIN.points, "drain.after-columns": DRAIN.points["split.after-chunk"]},
    DRAIN.outcome,
    prepare=_drain_one_schema_and_produce_two,
    settings={"value": {"format": "avro", "registry": "main"}},
)

"""Drains that meet a new schema: the registry is asked, columns change, rows follow.

A field of it is new, one has another name, one is wider than its column, one is of a type that it cannot be.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import fastavro

from prove.crash import promises
from prove.crash.jobs import DRAIN, Job, at
from prove.lab.pipeline_lab import configure, orders, progress
from prove.lab.registry_stand_in import RegistryStandIn
from prove.workload import Workload
from spark_jobs.schema.arrow_schema import json_columns
from spark_jobs.schema.iceberg_types import CHANGE_NAMES

BY_SCHEMA: dict[str, Any] = {"value": {"format": "avro", "registry": "main"}}
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
_OTHER_FIELDS = [
    _ID,
    _PRICE,
    {"name": "code", "type": "boolean", "default": False},
    {"name": "customer", "type": "long"},
]
_OTHER = {**_EARLIER, "fields": _OTHER_FIELDS}

# What an undisturbed run makes of the table: which column takes which type of a field.
EVOLVED = {
    "id": {"long": "id long"},
    "price": {"float": "price double"},
    "amount": {"double": "price double"},
    "code": {"int": "code int", "string": "code_2 string"},
    "customer": {"string": "customer string"},
}
# Of two schemas the one that the table met first decides; of those that it meets together, the older.
LATER_FIRST = EVOLVED | {
    "code": {**EVOLVED["code"], "boolean": "code_3 boolean"},
    "customer": {"string": "customer string", "long": "customer_2 long"},
}
OTHER_FIRST = EVOLVED | {
    "code": {"int": "code int", "boolean": "code_2 boolean", "string": "code_3 string"},
    "customer": {"long": "customer long", "string": "customer_2 string"},
}


def drain_earlier_and_produce_later(workload: Workload) -> None:
    """Commit a batch of one schema; in the next batch, every other value has a new one."""
    _drain_earlier(workload)
    produce_later(workload)


def drain_earlier_and_produce_other(workload: Workload) -> None:
    """Commit a batch of one schema; the next one also has the newest schema."""
    _drain_earlier(workload)
    _produce(workload, _OTHER)


def produce_later(workload: Workload) -> None:
    """Produce a batch of the first and the second schema."""
    _produce(workload, _LATER)


def find_other_columns(wanted: dict[str, dict[str, str]], workload: Workload) -> Iterator[str]:
    """Yield differences from an undisturbed run: columns, or the fields' columns."""
    table = workload.lab.table()
    names = {field.field_id: f"{field.name} {field.field_type}" for field in table.schema().fields}
    bound = progress(workload.lab).columns
    found = {
        identity: {kind: ", ".join(names[at] for at in ids) for kind, ids in kinds.items()}
        for identity, kinds in bound.items()
    }
    if found != wanted:
        yield f"another column map: {found}"
    columns = {text.split()[0] for kinds in wanted.values() for text in kinds.values()}
    if columns != set(json_columns(table).names) - CHANGE_NAMES:
        yield f"other columns: {json_columns(table).names}"


def _drain_earlier(workload: Workload) -> None:
    configure(workload.lab, "", {"registries": {"main": {"url": _registry().url}}})
    workload.contents.orders = partial(_framed, [_EARLIER])
    workload.drain_batches()


def _produce(workload: Workload, schema: dict[str, Any]) -> None:
    workload.contents.orders = partial(_framed, [_EARLIER, schema])
    workload.produce_batch()


def _framed(schemas: list[dict[str, Any]], first: int, count: int) -> list[bytes]:
    """Return orders in the schemas, in turn."""
    return [
        _written(json.loads(order), schemas[number // 2 % len(schemas)])
        for number, order in enumerate(orders(first, count))
    ]


def _written(order: dict[str, Any], schema: dict[str, Any]) -> bytes:
    order["amount"] = order["price"]
    if schema is _OTHER:
        order["customer"] = order["id"]
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), order)
    schema_id = _registry().register("orders", json.dumps(schema))
    return b"\0" + schema_id.to_bytes(4) + out.getvalue()


@cache
def _registry() -> RegistryStandIn:
    """Return the registry shared by all scenarios of this process; schemas have fixed ids."""
    registry = RegistryStandIn().__enter__()
    for schema in (_EARLIER, _LATER, _OTHER):
        registry.register("orders", json.dumps(schema))
    return registry


NEW_SCHEMA = Job(
    "new-schema",
    "a drain that meets a new schema",
    {
        **DRAIN.points,
        **at(promises.AGAIN, "columns.before-swap", "columns.after-swap", "drain.after-columns"),
    },
    DRAIN.outcome,
    prepare=drain_earlier_and_produce_later,
    commits_before=1,
    settings=BY_SCHEMA,
    look=partial(find_other_columns, EVOLVED),
)
NEW_COLUMNS = Job(
    "new-columns",
    "the commit of a new schema's columns",
    {},
    promises.COLUMNS_SETTLED,
    prepare=drain_earlier_and_produce_later,
    swap="columns",
    settings=BY_SCHEMA,
    look=partial(find_other_columns, EVOLVED),
)

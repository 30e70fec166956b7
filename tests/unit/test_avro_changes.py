"""Events of Debezium in Avro: the rows that the same events are in JSON with schemas."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass, field
from typing import Any

import pytest

from cli.stand.recorded_changes import recording
from prove.lab.connect_avro import AvroConverter
from prove.lab.debezium_events import TIME, Column, Source
from spark_jobs.avro.schema import avro_schema
from spark_jobs.config.value_format import KeySettings, Layout, ValueFormat, ValueSettings
from spark_jobs.protocol.schema_id import SchemaId, SchemaKey
from spark_jobs.records.decoder import Decoded, Phase
from spark_jobs.schema.known_schemas import KnownSchemas
from spark_jobs.schema.one_column import OneColumn
from spark_jobs.schema.writer_schema import Language, SchemaText
from tests.support.change_rows import Table, chunk_of
from tests.unit.test_changes import ROW, TYPED

TOPIC = "shop.public.customers"
IN_AVRO = {
    "value": ValueSettings(format=ValueFormat.AVRO, registry="main"),
    "key": KeySettings(format=ValueFormat.AVRO, registry="main"),
}


@dataclass
class Registry:
    """Schemas in the order in which they were registered."""

    texts: list[tuple[str, str]] = field(default_factory=list)

    def register(self, subject: str, text: str) -> int:
        """Return the schema's id."""
        self.texts.append((subject, text))
        return len(self.texts)

    def known(self) -> KnownSchemas:
        """Return all of them, as tasks get them."""
        values, keys = {}, {}
        for number, (subject, text) in enumerate(self.texts, start=1):
            made, of_key = avro_schema(SchemaText(Language.AVRO, text)), subject.endswith("-key")
            key = SchemaKey(SchemaId(number), (), of_key)
            (keys if of_key else values)[key] = OneColumn(made, "key") if of_key else made
        return KnownSchemas(values, keys=KnownSchemas(keys, of_key=True))


class Both:
    """A table of JSON's events, and one of the same in Avro."""

    def __init__(self, layout: Layout = Layout.CHANGES) -> None:
        self.json, self.avro = Table(layout=layout), Table(layout=layout, **IN_AVRO)
        self.registry = Registry()
        self.converter = AvroConverter(self.registry.register)

    def drain(self, records: list[tuple[bytes | None, bytes | None]], headers: Any = None) -> Decoded:
        """Return what is made of them in Avro, which is what is made of them in JSON."""
        written = [
            (self.converter.convert(TOPIC, "key", key), self.converter.convert(TOPIC, "value", value))
            for key, value in records
        ]
        self.avro.known = self.registry.known()
        expected, made = self.json.drain(records, headers), self.avro.drain(written, headers)
        assert self.avro.columns.names == self.json.columns.names
        assert repr(rows(made)) == repr(rows(expected))
        assert [(each.index, each.phase, each.field) for each in made.bad] == [
            (each.index, each.phase, each.field) for each in expected.bad
        ]
        assert made.indices == expected.indices
        assert self.avro.columns.remove(self.avro.columns.get_field_index("_kafka_key")) == (
            self.json.columns.remove(self.json.columns.get_field_index("_kafka_key"))
        )
        return made


def rows(decoded: Decoded) -> list[dict[str, Any]]:
    """Return the rows without the record's key, of which a table keeps the bytes."""
    return decoded.table.drop_columns(["_kafka_key"]).to_pylist()


def recorded(name: str) -> tuple[list[tuple[bytes | None, bytes | None]], list[Any]]:
    """Return the records with values of a recorded topic, and their headers."""
    every = [each for each in recording()["records"][name] if each[3] is not None]
    headers = [[(name, text.encode()) for name, text in each[4]] for each in every]
    return [(each[2] and each[2].encode(), each[3].encode()) for each in every], headers


@pytest.mark.parametrize("layout", [Layout.CHANGES, Layout.MIRROR])
@pytest.mark.parametrize("table", ["customers", "typed"])
@pytest.mark.parametrize("at_once", [1000, 7])
def test_what_debezium_told_is_the_same_rows(layout: Layout, table: str, at_once: int) -> None:
    """Of each event that was recorded: many at once and few, altered in between, emptied."""
    records, headers = recorded(f"shop.{table}")
    both = Both(layout)
    made = [
        both.drain(records[first : first + at_once], headers[first : first + at_once])
        for first in range(0, len(records), at_once)
    ]
    assert sum(each.table.num_rows for each in made) > len(records) / 3


@pytest.mark.parametrize("copies", [1, 80])
def test_types_are_connects(copies: int) -> None:
    """Those that a schema names, whatever Avro writes them as."""
    assert not Both().drain([(TYPED.key(1), TYPED.event("c", ROW))] * copies).bad

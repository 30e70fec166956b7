"""Schemas that records name: learned from a registry; of one that cannot be used it is known why."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.config.value_format import KeySettings, ValueFormat, ValueSettings
from spark_jobs.connections.writer_schemas import RecordSchemas
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.preview.sample import look_at
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.offsets import SchemaId, SchemaKey
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.work import layout_named
from spark_jobs.records.by_schema import SchemaDecoder
from spark_jobs.records.decoder import Encoded
from spark_jobs.records.reading_plan import ReadingPlan
from spark_jobs.registry.schema_store import SchemaStore
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.evidence import MOST_SCHEMAS, Evidence
from spark_jobs.schema.iceberg_types import ORIGIN_COLUMNS, with_metadata_columns
from spark_jobs.schema.writer_schema import Language, SchemaText
from spark_jobs.storage.create_only import CreateOnlyStore

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.schema.column_source import KnownSchemas

ID = Schema(NestedField(1, "id", LongType(), required=False))
TABLE = Progress("orders", 1, {0: 9})
TEXTS = {
    1: SchemaText(
        Language.AVRO, '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}'
    ),
    2: SchemaText(Language.AVRO, "no schema"),
    3: SchemaText(Language.PROTOBUF, 'syntax = "proto3"; message Order { int64 id = 1; }'),
}


class Registry:
    """Three schemas by their ids."""

    asked = 0

    def try_out(self) -> str:
        """Answer."""
        return "it answers"

    def schema(self, schema_id: SchemaId) -> SchemaText | None:
        """Return one of three."""
        self.asked += 1
        return TEXTS.get(int(schema_id.value))

    def version(self, subject: str, version: int | None) -> tuple[SchemaId, SchemaText]:
        """Return nothing."""
        raise AssertionError(subject, version)


def schemas_of(
    tmp_path: Path, format_: ValueFormat = ValueFormat.AVRO, registry: Registry | None = None
) -> RecordSchemas:
    """Return a pipeline's schemas as another run has them."""
    kept = SchemaStore("main", CreateOnlyStore(str(tmp_path / "state"), {}), registry or Registry())
    return RecordSchemas(
        ValueSettings(format=format_, registry="main"),
        KeySettings(),
        topic="orders",
        layout=layout_named("flat"),
        registry=lambda _name: kept,
        folder=tmp_path,
    )


def keys_of(*names: str) -> list[SchemaKey]:
    """Return what values name, by its texts."""
    return [SchemaKey.parse(name) for name in names]


def chunk_of(*values: bytes) -> Chunk:
    """Return records with these values and nothing else."""
    nothing: list[Any] = [None] * len(values)
    return Chunk(0, [*range(len(values))], [0] * len(values), nothing, list(values), nothing)


def letters(known: KnownSchemas, *values: bytes) -> list[tuple[int, str, str]]:
    """Return which values become no row, at which phase and why."""
    found = SchemaDecoder(known).read(Encoded.values(chunk_of(*values)), arrow_schema(ID))
    assert found.new_fields is None
    return [(bad.index, bad.phase, bad.error) for bad in found.bad]


def test_a_message_that_its_schema_does_not_have_is_a_reason_of_its_own_values(tmp_path: Path) -> None:
    """Others of the same schema are rows."""
    known = schemas_of(tmp_path, ValueFormat.PROTOBUF).learn(keys_of("3:0", "3:7"))
    assert letters(known, b"\0\0\0\0\x03\0\x08\x01", b"\0\0\0\0\x03\x02\x0e\x08\x01") == [
        (1, "schema", "schema 3:7 is not used: the schema has no message at 7")
    ]


def test_a_schema_that_the_registry_lacked_is_known_once_a_table_has_it(tmp_path: Path) -> None:
    """Else who follows for weeks makes dead letters of what drains make rows of."""
    registry = Registry()
    schemas = schemas_of(tmp_path, registry=registry)
    there, registry.schema = registry.schema, lambda _: None  # type: ignore[method-assign]
    key = keys_of("1")[0]
    with pytest.raises(ConfigError):
        schemas.learn([key])
    registry.schema = there  # type: ignore[method-assign]
    value = b"\0\0\0\0\x01\x02"
    assert letters(schemas.known(TABLE), value)
    assert letters(schemas.known(replace(TABLE, schemas={key: TEXTS[1].digest})), value) == []


def test_a_schema_that_cannot_be_used_is_a_reason_of_its_own_values(tmp_path: Path) -> None:
    """Of another language, or unreadable; asked for again in the same words, by another run too."""
    for _ in range(2):
        known = schemas_of(tmp_path).learn(keys_of("1", "2", "3", "9"))
        values = [b"\0\0\0\0" + bytes([number, 2]) for number in (1, 2, 3, 9)]
        told = [error for _, phase, error in letters(known, *values) if phase == "schema"]
        assert told[0].startswith("schema 2 is not used: the text is not a valid Avro schema")
        assert told[1:] == [
            "schema 3 is not used: the schema is Protobuf, but the configuration expects Avro",
            "the registry has no schema 9",
        ]


def test_where_no_schema_can_be_used_the_first_says_why(tmp_path: Path) -> None:
    """Nothing is drained then: the format is wrong, not its records; one that a table keeps stops as well."""
    schemas = schemas_of(tmp_path)
    with pytest.raises(ConfigError, match="schema-of-another-format"):
        schemas.learn(keys_of("3", "9"))
    assert schemas.learn(keys_of("1", "3")).names
    assert schemas.learn(keys_of("3")).names  # not the first that the pipeline meets
    kept = replace(TABLE, schemas={SchemaKey.parse("3"): TEXTS[3].digest})
    with pytest.raises(ConfigError, match="schema-of-another-format"):
        schemas_of(tmp_path).known(kept)


def test_one_record_does_not_stop_a_table_that_keeps_a_schema(tmp_path: Path) -> None:
    """Not if it comes alone either."""
    kept = replace(TABLE, schemas={SchemaKey.parse("1"): TEXTS[1].digest})
    schemas = schemas_of(tmp_path)
    assert schemas.known(kept).names
    assert letters(schemas.learn(keys_of("3"), kept), b"\0\0\0\0\x03x")


def test_ids_without_end_are_asked_for_as_long_as_one_of_them_is_a_schema(tmp_path: Path) -> None:
    """So many at a time, which are those that are not known; the rest are letters, and the rows are there."""
    values = [b"\0" + number.to_bytes(4) + b"x" for number in range(4, 1000)]
    pipeline = PipelineConfig(
        name="orders",
        topic="orders",
        table="l.o",
        value=ValueSettings(format=ValueFormat.AVRO, registry="main"),
    )
    registry = Registry()
    chunk = chunk_of(*values, b"\0\0\0\0\x01\x02")
    schemas = schemas_of(tmp_path, registry=registry)
    plan, evidence = look_at(ReadingPlan.to_observe(pipeline, schemas), [chunk])
    assert registry.asked == 2 * MOST_SCHEMAS
    assert (evidence.records, evidence.undecodable) == (1, len(values))
    columns = arrow_schema(with_metadata_columns(ID))
    of_values = pa.schema([column for column in columns if column.name not in ORIGIN_COLUMNS])
    decoded = plan.format.decoder.decode(chunk, of_values, plan.ended().growth)
    assert [bad.index for bad in decoded.bad] == [*range(len(values))]
    assert decoded.table.column("id").to_pylist() == [1]


def test_ids_of_values_leave_room_for_those_of_keys() -> None:
    """Keys come last in order, and are learned all the same."""
    names = [SchemaKey(SchemaId(number)) for number in range(999)], [SchemaKey(SchemaId(7), of_key=True)]
    kept = Evidence(schemas=(*names[0], *names[1])).within(9)
    assert kept.schemas == (*names[0][:MOST_SCHEMAS], *names[1])

"""The digest of what decides what a record becomes: of every key it is said whether it does."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.config.columns import ColumnSettings, FieldForm, Incompatible, NewFields
from spark_jobs.config.sections import CdcSettings, Envelope, SchemaSettings
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.config.value_format import KeySettings, UnknownFields, ValueFormat, ValueSettings
from spark_jobs.connections.connect import SHAPING, shape_digest
from spark_jobs.protocol.work import layout_named

PLAIN = PipelineConfig(name="a", topic="t", table="l.a")
# Rows are the same by any of these: when, where, how fast, in which order and who is told.
NOT_SHAPING = {
    *("start", "freshness_seconds", "schedule", "timezone", "max_batch_records", "max_batch_bytes"),
    *("partition_by", "sort_by", "mirror", "location", "table_properties", "upkeep"),
    *("owners", "checks", "notify", "hot", "name", "topic", "table", "template", "stream"),
    # Of what they stop or take out an audit counts rows and dead letters alike.
    *("dead_letters", "quality"),
}
CHANGES: list[dict[str, Any]] = [
    {"columns": {"a": ColumnSettings(type="long")}},
    {"columns": {"a": ColumnSettings(type="int")}},
    {"columns": {"a": ColumnSettings(type="int", sql="b + 1")}},
    {"columns": {"a": ColumnSettings(type="int", written_as=FieldForm.TEXT)}},
    {"filter": "a > 0"},
    {"table_schema": SchemaSettings(new_fields=NewFields.IGNORE)},
    {"table_schema": SchemaSettings(max_columns=7)},
    {"table_schema": SchemaSettings(incompatible=Incompatible.STOP)},
    {"value": ValueSettings(format=ValueFormat.RAW)},
    {"value": ValueSettings(format=ValueFormat.AVRO, file="a.avsc")},
    {"value": ValueSettings(unknown_fields=UnknownFields.IGNORE)},
    {"layout": layout_named("archive")},
    {"layout": layout_named("changes")},
    {"layout": layout_named("mirror")},
    {"layout": layout_named("changes"), "cdc": CdcSettings(envelope=Envelope.UPSERT)},
    {"record_key": KeySettings(format=ValueFormat.RAW)},
    {"record_key": KeySettings(column="k")},
]


def test_of_every_key_it_is_decided() -> None:
    """A key that comes later is said to shape rows or not to."""
    assert {*SHAPING, *NOT_SHAPING} == set(PipelineConfig.model_fields)
    assert not NOT_SHAPING & {*SHAPING}


def test_the_digest_is_the_same_everywhere() -> None:
    """On every machine and version, for ever: tables keep it."""
    assert shape_digest(PLAIN, {}) == "c51e7dba17747144"
    other = {"name": "b", "topic": "u", "table": "l.b", "freshness_seconds": 5, "sort_by": ("a",)}
    assert shape_digest(PLAIN.model_copy(update=other), {}) == shape_digest(PLAIN, {})
    a, b = ColumnSettings(type="long"), ColumnSettings(type="int")
    one, two = ({"a": a, "b": b}, {"b": b, "a": a})
    assert shape_digest(PLAIN.model_copy(update={"columns": one}), {}) == shape_digest(
        PLAIN.model_copy(update={"columns": two}), {}
    )


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_what_shapes_rows_changes_it(change: dict[str, Any]) -> None:
    """Each to a digest of its own, and so does a schema file's content."""
    others = [shape_digest(PLAIN.model_copy(update=each), {}) for each in CHANGES if each != change]
    found = shape_digest(PLAIN.model_copy(update=change), {})
    assert found not in {shape_digest(PLAIN, {}), *others}
    assert found != shape_digest(PLAIN.model_copy(update=change), {"value": "ab"})

"""``partition_by`` becomes the spec it says, or an error that says what there is."""

from __future__ import annotations

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, StructType, TimestamptzType

from spark_jobs.protocol.errors import ConfigError
from spark_jobs.schema.partitioning import partition_spec

_SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "at", TimestamptzType(), required=False),
    NestedField(3, "name", StringType(), required=False),
    NestedField(4, "ratio", DoubleType(), required=False),
    NestedField(
        5, "inner", StructType(NestedField(6, "at", TimestamptzType(), required=False)), required=False
    ),
)


def test_every_transform() -> None:
    """Names, sources and transforms, in the order written."""
    spec = partition_spec(
        _SCHEMA, ["day(at)", "bucket(16, id)", "truncate(3, name)", "hour(inner.at)", "ratio"]
    )
    assert [(f.name, f.source_id, str(f.transform)) for f in spec.fields] == [
        ("at_day", 2, "day"),
        ("id_bucket", 1, "bucket[16]"),
        ("name_truncate", 3, "truncate[3]"),
        ("inner.at_hour", 6, "hour"),
        ("ratio", 4, "identity"),
    ]
    assert partition_spec(_SCHEMA, []).is_unpartitioned()


@pytest.mark.parametrize(
    ("terms", "code", "says"),
    [
        (["day(when)"], "partition-column", "id, at, name, ratio"),
        (["day(name)"], "partition-type", "string"),
        (["inner"], "partition-type", "struct"),
        (["bucket(4, ratio)"], "partition-type", "double"),
        (["day(at)", "hour(at)"], "partition-twice", "at"),
        (["week(at)"], "partition-term", "week"),
    ],
)
def test_mistakes_say_what_there_is(terms: list[str], code: str, says: str) -> None:
    """Each with its own code and the names or types that help."""
    with pytest.raises(ConfigError) as caught:
        partition_spec(_SCHEMA, terms)
    assert caught.value.code == code
    assert says in caught.value.message

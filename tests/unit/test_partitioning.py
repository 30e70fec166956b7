"""``partition_by`` becomes the spec it says, or an error that says what there is."""

from __future__ import annotations

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BooleanType,
    DecimalType,
    DoubleType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from spark_jobs.protocol.errors import ConfigError
from spark_jobs.schema.declared import partition_spec

_SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "at", TimestamptzType(), required=False),
    NestedField(3, "name", StringType(), required=False),
    NestedField(4, "ratio", DoubleType(), required=False),
    NestedField(
        5, "inner", StructType(NestedField(6, "at", TimestamptzType(), required=False)), required=False
    ),
    NestedField(7, "tags", ListType(8, StringType(), element_required=False), required=False),
    NestedField(9, "yes", BooleanType(), required=False),
)


def test_every_transform() -> None:
    """Names, sources and transforms, in the order written."""
    spec = partition_spec(
        _SCHEMA, ["day(at)", "bucket(16, id)", "truncate(3, name)", "hour(inner.at)", "yes"]
    )
    assert [(f.name, f.source_id, str(f.transform)) for f in spec.fields] == [
        ("at_day", 2, "day"),
        ("id_bucket", 1, "bucket[16]"),
        ("name_truncate", 3, "truncate[3]"),
        ("inner.at_hour", 6, "hour"),
        ("yes", 9, "identity"),
    ]
    assert partition_spec(_SCHEMA, []).is_unpartitioned()


@pytest.mark.parametrize(
    ("terms", "code", "says"),
    [
        (["day(when)"], "partition-column", "id, at, name, ratio"),
        (["day(name)"], "partition-type", "string"),
        (["inner"], "partition-type", "struct"),
        (["ratio"], "partition-type", "double"),
        (["tags.element"], "partition-type", "tags.element"),
        (["bucket(4, ratio)"], "partition-type", "double"),
        (["day(at)", "hour(at)"], "partition-twice", "at: day(at) and hour(at)"),
        (["week(at)"], "partition-term", "week"),
    ],
)
def test_mistakes_say_what_there_is(terms: list[str], code: str, says: str) -> None:
    """Each with its own code and the names or types that help."""
    with pytest.raises(ConfigError) as caught:
        partition_spec(_SCHEMA, terms)
    assert caught.value.code == code
    assert says in caught.value.message


def test_a_table_that_is_partitioned_by_a_double_is_so_still() -> None:
    """What is there is no mistake of the configuration; another table would not get it."""
    there = PartitionSpec(PartitionField(4, 1000, IdentityTransform(), "ratio"))
    assert partition_spec(_SCHEMA, ["ratio"], there).fields == there.fields
    with pytest.raises(ConfigError, match="ratio"):
        partition_spec(_SCHEMA, ["ratio"], PartitionSpec())


def test_a_partition_field_takes_a_name_that_no_column_has() -> None:
    """In whatever case the column is written; fields of partitions have different names too."""
    fields = ("id", "ID_BUCKET", "id_bucket_1", "name", "name_truncate")
    kinds = (LongType(), LongType(), LongType(), StringType(), StringType())
    schema = Schema(
        *(
            NestedField(number, name, kind, required=False)
            for number, (name, kind) in enumerate(zip(fields, kinds, strict=True), 1)
        )
    )
    spec = partition_spec(schema, ["bucket(4, id)", "truncate(2, name)", "name_truncate"])
    assert [each.name for each in spec.fields] == ["id_bucket_2", "name_truncate_1", "name_truncate"]


def test_two_decimals_of_one_type_are_not_partitioned_by() -> None:
    """PyIceberg would not read what Spark writes of them; others, and a bucket, stand beside each other."""
    kinds = (DecimalType(9, 2), DecimalType(9, 2), DecimalType(10, 2))
    schema = Schema(*(NestedField(n, f"d{n}", kind, required=False) for n, kind in enumerate(kinds)))
    assert len(partition_spec(schema, ["d0", "bucket(4, d1)", "truncate(2, d2)"]).fields) == 3
    with pytest.raises(ConfigError, match="two values of type decimal"):
        partition_spec(schema, ["d0", "truncate(2, d1)"])

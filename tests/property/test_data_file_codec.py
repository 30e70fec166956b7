"""Data-file descriptions as JSON lose nothing."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
    UUIDType,
)

from spark_jobs.lake.data_files import to_data_file, to_written_file
from spark_jobs.protocol.batch import WrittenFile
from spark_jobs.protocol.texts import JsonCodec
from spark_jobs.storage.paths import normalise_path

_TYPES = (
    LongType(),
    StringType(),
    BinaryType(),
    DecimalType(9, 2),
    DoubleType(),
    UUIDType(),
    TimestamptzType(),
)
_INT64 = st.integers(-(2**63), 2**63 - 1)
_VALUES: tuple[st.SearchStrategy[Any], ...] = (
    _INT64,
    st.text(),
    st.binary(),
    st.decimals(Decimal(-9999999), Decimal(9999999), places=2),
    st.floats(allow_nan=False),
    st.binary(min_size=16, max_size=16),
    st.integers(-(2**31), 2**31 - 1),
)
_COUNTS = st.dictionaries(st.integers(1, 500), st.integers(0, 2**40))
_BOUNDS = st.dictionaries(st.integers(1, 500), st.binary())


def _metadata() -> TableMetadata:
    fields = [NestedField(n, f"c{n}", kind, required=False) for n, kind in enumerate(_TYPES, 1)]
    transforms = [IdentityTransform()] * 6 + [DayTransform()]
    spec = PartitionSpec(*(PartitionField(n, 999 + n, t, f"p{n}") for n, t in enumerate(transforms, 1)))
    return new_table_metadata(
        Schema(*fields), spec, UNSORTED_SORT_ORDER, "file:///t", {"format-version": "2"}
    )


_METADATA = _metadata()
CODEC = JsonCodec(WrittenFile)


@given(
    st.tuples(*(st.none() | values for values in _VALUES)), st.lists(_COUNTS, min_size=4, max_size=4), _BOUNDS
)
def test_a_description_comes_back(
    partition: tuple[Any, ...], counts: list[dict[int, int]], bounds: Any
) -> None:
    """Every partition type, every count and bound, through JSON text."""
    names = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
    data_file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path="s3://b/é.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=3,
        file_size_in_bytes=4,
        split_offsets=[4],
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        lower_bounds=bounds,
        upper_bounds=bounds,
        **dict(zip(names, counts, strict=True)),  # type: ignore[arg-type]
    )
    data_file.spec_id = _METADATA.default_spec_id
    back = to_data_file(CODEC.from_json(CODEC.to_json(to_written_file(data_file, _METADATA))), _METADATA)
    assert back.spec_id == data_file.spec_id
    assert back._data == data_file._data


def test_one_spelling_of_a_path() -> None:
    """Two engines' spellings of a local file are one; an object's address is left alone."""
    assert normalise_path("file:/a/b") == normalise_path("file:///a/b") == normalise_path("/a/b") == "/a/b"
    assert normalise_path("s3://b/a") == "s3://b/a"

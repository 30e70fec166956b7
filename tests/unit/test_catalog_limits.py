"""What is said of a table before its catalog refuses its commits."""

from __future__ import annotations

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from spark_jobs.preview.catalog_limits import near_limits


@pytest.mark.parametrize(
    ("kind", "lengths", "said"),
    [
        ("glue", [256_000], []),
        ("glue", [256_001], ["p0 has 256,001 bytes, of which Glue takes 512,000"]),
        ("glue", [256_000] * 40, ["metadata of 10.2 MB, of which Glue takes 20: "]),
        ("rest", [600_000] * 40, []),
    ],
)
def test_half_of_a_catalogs_limit_is_told(kind: str, lengths: list[int], said: list[str]) -> None:
    """Of Glue alone a limit is documented."""
    properties = {f"p{number}": "x" * length for number, length in enumerate(lengths)}
    metadata = new_table_metadata(
        Schema(), UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, "s3://b/t", properties
    )
    found = list(near_limits(kind, metadata))
    assert len(found) == len(said)
    assert all(part in whole for part, whole in zip(said, found, strict=True))

"""What is left of a decoded chunk without the records that something else is wrong with."""

from __future__ import annotations

import pyarrow as pa

from spark_jobs.records.decoder import BadValue, Decoded, Phase


def test_a_chunk_may_lose_all_its_rows() -> None:
    """None is left of the table, and each record is among the bad values."""
    bad = [BadValue(index, Phase.DECODE, None, "a gate rejects it") for index in (0, 1)]
    left = Decoded(pa.table({"id": [1, 2]})).without(bad)
    assert (left.table.num_rows, list(left.indices)) == (0, [])
    assert left.table.schema == pa.schema({"id": pa.int64()})
    assert [value.index for value in left.bad] == [0, 1]

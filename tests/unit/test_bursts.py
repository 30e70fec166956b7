"""One record's thousands of keys become no columns, and hide nobody else's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_jobs.config.columns import Growth
from spark_jobs.formats.json.block import decode_chunk
from spark_jobs.formats.json.infer import observe
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.column_source import SeenColumns
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.evolution import additions_of, evolved
from spark_jobs.schema.iceberg_types import iceberg_schema
from spark_jobs.schema.inference import Field, MapOf, Primitive, StructOf
from spark_jobs.schema.unknown_fields import MOST_ALONE

COLUMNS = (Field("id", Primitive.LONG), Field("inner", StructOf((Field("a", Primitive.LONG),))))
TABLE = iceberg_schema(COLUMNS)
SEEN = SeenColumns(Growth())


def seen(*records: dict[str, Any], first: int = 0) -> Evidence:
    """The evidence of records, the n-th at n offsets past the first."""
    values = [json.dumps(record).encode() for record in records]
    return observe(values, offsets=range(first, first + len(values)), max_fields=4_000)


def keys(count: int, prefix: str = "k") -> dict[str, int]:
    """An object of so many keys."""
    return {f"{prefix}{n}": n for n in range(count)}


def added(evidence: Evidence) -> list[str]:
    """The columns that the table gets, dotted."""
    lacks, _ = SEEN.evolution(TABLE, {}, evidence)
    return [".".join(path) for path, _, _ in lacks.additions]


@pytest.mark.parametrize("count", [MOST_ALONE + 1, 5_000])
@pytest.mark.parametrize(
    "burst",
    [lambda keys: keys, lambda keys: {"inner": keys}, lambda keys: {"new": [keys]}],
    ids=["top", "inside", "list"],
)
def test_a_lone_burst_adds_no_column_and_hides_no_field(burst: Any, count: int) -> None:
    """At any depth, at birth as later; the ordinary fields of other records get their columns."""
    records = ({"id": 1}, burst(keys(count)), {"id": 2, "note": "x"}, {"id": 3, "inner": {"b": 1}})
    assert added(seen(*records)) == ["inner.b", "note"]
    born, _ = SEEN.first(seen(*records), ())
    assert {path[0] for path, _, _ in born.additions} == {"id", "note", "inner"}
    parts = [seen(record, first=offset) for offset, record in enumerate(records)]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merge(part).within(4_000)
    assert set(added(merged)) >= {"inner.b", "note"}


def test_what_several_records_have_is_no_burst() -> None:
    """A producer's wide version is taken once two records show it, however many fields it brings."""
    wide = {"id": 1, **keys(300)}
    assert len(added(seen({"id": 0}, wide, wide))) == 300
    assert added(seen({"id": 0}, wide)) == []
    assert len(added(seen({"id": 0}, keys(MOST_ALONE)))) == MOST_ALONE


def test_records_that_cannot_be_rows_add_nothing_however_often_they_come() -> None:
    """They have more fields than the table may have columns."""
    assert added(seen({"id": 1}, *[keys(2_000)] * 3, {"note": "x"})) == ["note"]


def test_the_only_record_of_a_new_table_is_no_exception() -> None:
    """Nobody else's columns are in its way, as long as it can be a row."""
    assert len(SEEN.first(seen(keys(300)), ())[0].additions) == 300
    assert SEEN.first(seen(keys(5_000)), ())[0].additions == []


def test_a_burst_is_a_letter_that_says_what_to_do_and_a_row_once_its_fields_are_declared() -> None:
    """The chunk is decoded without a round for columns that nobody will add."""
    values = [json.dumps(each).encode() for each in ({"id": 1}, {"id": 2, **keys(150)}, {"id": 3})]
    decoded = decode_chunk(values, arrow_schema(TABLE))
    assert (decoded.new_fields, decoded.rows) == (None, [0, 2])
    assert decoded.unread[0].error.startswith(
        "one of 150 fields without a column; one record adds at most 100"
    )
    declared = (*COLUMNS, *(Field(name, Primitive.LONG) for name in keys(150)))
    wide = evolved(iceberg_schema(()), additions_of(iceberg_schema(declared)))
    assert decode_chunk(values, arrow_schema(wide)).table.num_rows == 3


def test_a_new_field_in_the_values_of_a_map_is_one_however_many_keys_have_it() -> None:
    """Keys of a map are data: what all of its values bring is a column of theirs."""
    of_maps = Field("prices", MapOf(StructOf((Field("net", Primitive.LONG),))))
    record = {"prices": {f"k{n}": {"net": n, "tax": n} for n in range(MOST_ALONE + 50)}}
    lacks, _ = SEEN.evolution(iceberg_schema((of_maps,)), {}, seen({"prices": {}}, record))
    assert [path for path, _, _ in lacks.additions] == [("prices", "value", "tax")]

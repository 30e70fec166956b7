"""Which table a record's row goes to: by an expression's value, and by nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

from spark_jobs.schema.column_source import lacking
from spark_jobs.schema.evolution import evolved
from tests.support.shaped import column, letters, shaped

ROUTE = {"by": "kind", "tables": {"refund": "lake.refunds", "void": "lake.voids", "sale": "lake.orders"}}


def test_each_row_is_in_the_table_of_its_value() -> None:
    """A null and a value that is not listed stay; what stays by its value is not counted as unlisted."""
    of = shaped({"kind": "string", "n": "long"}, route=ROUTE)
    kinds = ["refund", "sale", None, "void", "gift", "refund", "gift"]
    made = of.of_json(*({"kind": kind, "n": n} for n, kind in enumerate(kinds)), b"[]", b"{")
    assert {name: rows.column("n").to_pylist() for name, rows in made.routed.items()} == {
        "lake.refunds": [0, 5],
        "lake.voids": [3],
    }
    assert column(made, "n") == [1, 2, 4, 6]
    assert made.unlisted == {"gift": 2}
    balance = made.balances[0]
    assert (balance.rows, balance.dead_letters, balance["routed"]) == (4, 2, 3)
    assert balance.offsets == len(kinds) + 2


def test_only_rows_are_routed() -> None:
    """What the filter leaves out needs no place, however its route fails; a row that has none is a letter."""
    of = shaped(
        {"kind": "string", "n": "long", "twice": {"type": "long", "sql": "n * 2"}},
        filter="n > 0",
        route={"by": "CAST(kind AS INTEGER) + twice", "tables": {"5": "lake.fives"}},
    )
    made = of.of_json(
        {"kind": "3", "n": 1}, {"kind": "x", "n": 0}, {"kind": "x", "n": 1}, {"kind": "4", "n": 1}
    )
    assert made.routed["lake.fives"].column("n").to_pylist() == [1]
    assert made.left_out == {"excluded": [1]}
    assert [(offset, phase, name) for offset, phase, name, _ in letters(made)] == [(2, "transform", None)]
    assert made.unlisted == {"6": 1}


@pytest.mark.parametrize(
    ("there", "wanted", "is_taken"),
    [
        (IntegerType(), LongType(), True),
        (LongType(), IntegerType(), None),
        (StringType(), LongType(), False),
        (DoubleType(), DoubleType(), None),
        (ListType(1, IntegerType()), ListType(1, LongType()), True),
        (ListType(1, IntegerType()), IntegerType(), False),
    ],
)
def test_a_column_is_widened_or_nothing(
    there: IcebergType, wanted: IcebergType, is_taken: bool | None
) -> None:
    """A routed table's column that holds every value stays, one that can be made to is widened."""
    own, routed = (Schema(NestedField(1, "a", kind, required=False)) for kind in (wanted, there))
    found = lacking(own, routed)
    if is_taken is None:
        assert found == {}
    elif is_taken:
        change = found["a"]
        assert change is not None
        assert lacking(own, evolved(routed, change)) == {}
    else:
        assert found == {"a": None}


def test_fields_inside_a_struct_are_added() -> None:
    """What a struct lacks comes by its path, whatever else another engine put there."""

    def struct(**fields: IcebergType) -> Schema:
        inside = StructType(
            *(NestedField(n, name, kind, required=False) for n, (name, kind) in enumerate(fields.items(), 2))
        )
        return Schema(NestedField(1, "s", inside, required=False))

    own: Any = struct(a=IntegerType(), b=StringType())
    change = lacking(own, struct(c=StringType(), a=IntegerType()))["s"]
    assert change is not None
    assert list(change.descriptions) == ["s.b"]

"""The benchmark's records are what the bare loop is told."""

from __future__ import annotations

import pytest

from bench.records import ORDERS, Shape
from bench.shapes import NESTED, TINY, WIDE
from spark_jobs.formats.json.infer import observe
from spark_jobs.schema.arrow_schema import fields_of
from spark_jobs.schema.inference import choose_types


@pytest.mark.parametrize("shape", [ORDERS, WIDE, NESTED, TINY], ids=lambda shape: shape.name)
def test_a_shape_has_the_types_it_names(shape: Shape) -> None:
    """Drain and bare loop decode into the same columns, so that comparing them is fair."""
    assert choose_types(observe(shape.values(0, 1_000))) == fields_of(shape.schema)


def test_a_shape_is_as_large_as_it_says() -> None:
    """Wide is 200 fields, tiny about 20 bytes, and the same number is always the same record."""
    assert len(WIDE.schema) == 200
    assert {len(value) for value in TINY.values(1_000_000, 1_000)} <= {19, 20}
    assert NESTED.values(0, 10)[7:] == NESTED.values(7, 3)

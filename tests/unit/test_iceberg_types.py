"""Types survive the way into a table and back."""

from __future__ import annotations

import pytest

from spark_jobs.schema.iceberg_types import (
    declared_fields,
    iceberg_schema,
    known_fields,
    with_metadata_columns,
)
from spark_jobs.schema.inference import DeclaredType, Field, ListOf, MapOf, Primitive, StructOf

FIELDS = (
    Field("id", Primitive.LONG),
    Field("price", DeclaredType("decimal(9, 2)")),
    Field("tags", MapOf(ListOf(Primitive.STRING))),
    Field("lines", ListOf(StructOf((Field("sku", Primitive.STRING), Field("n", DeclaredType("int")))))),
    Field("at", Primitive.TIMESTAMPTZ),
)


def test_fields_survive_a_schema() -> None:
    """What goes into a table's schema is what is known of it afterwards, metadata columns left out."""
    assert known_fields(with_metadata_columns(iceberg_schema(FIELDS))) == FIELDS


def test_every_field_id_is_its_own() -> None:
    """Nested fields share one numbering with their parents, as Iceberg demands."""
    ids = list(iceberg_schema(FIELDS)._lazy_id_to_name)
    assert len(ids) == len(set(ids)) == 11


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("long", Primitive.LONG),
        ("date", DeclaredType("date")),
        ("map<string, long>", MapOf(Primitive.LONG)),
        ("list<list<double>>", ListOf(ListOf(Primitive.DOUBLE))),
        (
            "struct<a: int, b: map<string, decimal(5,1)>>",
            StructOf((Field("a", DeclaredType("int")), Field("b", MapOf(DeclaredType("decimal(5, 1)"))))),
        ),
    ],
)
def test_declared_names_are_read(text: str, expected: object) -> None:
    """A column declared in the configuration gets exactly that type."""
    assert declared_fields({"c": text}) == (Field("c", expected),)

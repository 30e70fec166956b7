"""Which columns follow from what was seen of a topic's fields."""

from __future__ import annotations

import json

import pytest
from pyiceberg.schema import Schema, assign_fresh_schema_ids, sanitize_column_names
from pyiceberg.types import IntegerType, NestedField

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.formats.json.infer import observe
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.schema.declared import declared_evolution
from spark_jobs.schema.evidence import Evidence, Kind
from spark_jobs.schema.evolution import evolved
from spark_jobs.schema.iceberg_types import METADATA_COLUMNS, declared_type, iceberg_schema
from spark_jobs.schema.inference import (
    RESERVED_COLUMNS,
    Addition,
    DeclaredType,
    Field,
    FieldType,
    ListOf,
    MapOf,
    Primitive,
    StructOf,
    choose_types,
    count_columns,
    evolve,
)

LONG, DOUBLE, STRING = Primitive.LONG, Primitive.DOUBLE, Primitive.STRING


def seen(*literals: str) -> Evidence:
    """Evidence of records with one field ``f`` each."""
    return observe([f'{{"f":{literal}}}'.encode() for literal in literals])


@pytest.mark.parametrize(
    ("literals", "expected"),
    [
        (["1", "-5", "null"], LONG),
        (["1", "2.0"], DOUBLE),
        (["1e3"], DOUBLE),
        (["9007199254740993", "9007199254740995", "1.5"], LONG),
        (["9007199254740993", "1.5"], LONG),
        (["9007199254740993", "1.5", "2.5"], DOUBLE),
        (["9007199254740992", "-9007199254740992", "1.5"], DOUBLE),
        (["9007199254740993", "1", "1.5", "2.5"], DOUBLE),
        (["1", "99999999999999999999999"], LONG),
        (["1e22"], DOUBLE),
        (["true", "null"], Primitive.BOOLEAN),
        (['"a"', '""'], STRING),
        (['"2024-01-01T00:00:00Z"', '"2024-01-01T00:00:00.5+02:00"', "null"], Primitive.TIMESTAMPTZ),
        (['"2024-01-01T00:00:00Z"', '"n/a"'], STRING),
        (['"n/a"', '"2024-01-01T00:00:00Z"'], STRING),
        (['"2024-01-01T00:00:00"'], STRING),
        (['"2024-01-01"'], STRING),
        (['"2024-01-01T00:00:00.1234567Z"'], STRING),
        (["[1,null]", "[]", "[2.5]"], ListOf(DOUBLE)),
        (['["2024-01-01T00:00:00Z"]'], ListOf(Primitive.TIMESTAMPTZ)),
        (['{"b":1,"a":"x"}', '{"c":null}'], StructOf((Field("b", LONG), Field("a", STRING)))),
        (['[{"a":[[1]]}]'], ListOf(StructOf((Field("a", ListOf(ListOf(LONG))),)))),
        (["1", '"x"', '"y"'], STRING),
        (["1", "2", '"x"'], LONG),
        (["1", '"x"'], STRING),
        (["true", "1", '{"a":1}', "[1]"], StructOf((Field("a", LONG),))),
        (["{}", "{}", "1"], LONG),
        (["[]", "[null]", "true"], Primitive.BOOLEAN),
    ],
)
def test_the_type_of_a_field(literals: list[str], expected: FieldType) -> None:
    """A type all values have, else the one that fits most; of equals the one that rounds none."""
    assert choose_types(seen(*literals)) == (Field("f", expected),)


@pytest.mark.parametrize(
    "literal", ["null", "[]", "{}", "[null]", '{"a":null}', '[[],{"a":[]}]', "9223372036854775808"]
)
def test_a_field_without_a_value_gets_no_column(literal: str) -> None:
    """Nulls, empty lists and empty objects say nothing of a type, and integers past 64 bits have none."""
    assert choose_types(seen(literal, "null")) == ()


def test_columns_stand_as_the_fields_were_first_seen() -> None:
    """The first record's order, then what later records bring."""
    evidence = observe([b'{"z":1,"a":1}', b'{"m":1,"a":2}'])
    assert [field.name for field in choose_types(evidence)] == ["z", "a", "m"]


def test_declared_columns_win() -> None:
    """What is declared comes first and as declared, whatever was seen, if anything was."""
    declared = (Field("f", DeclaredType("date")), Field("never", MapOf(LONG)))
    evidence = observe([b'{"g":1,"f":"2024-01-01"}'])
    assert choose_types(evidence, declared) == (*declared, Field("g", LONG))


def test_names_that_clash_get_one_column() -> None:
    """Of names that differ by case the most frequent one; none for empty and reserved names."""
    evidence = observe(
        [b'{"Id":1,"":1,"_kafka_key":1,"_INGESTED_AT":1,"s":{"":1,"_kafka_key":1}}', b'{"id":1}', b'{"id":2}']
    )
    assert choose_types(evidence) == (Field("s", StructOf((Field("_kafka_key", LONG),))), Field("id", LONG))


def test_a_dotted_name_and_a_nested_one_get_one_column() -> None:
    """Iceberg knows fields by dotted path: a key "a.b" beside an object "a" with a key "b" cannot both be."""
    names = {field.name for field in choose_types(observe([b'{"a.b":1,"a":{"b":1}}']))}
    assert names == {"a.b"}
    known = (Field("a", StructOf((Field("b", LONG),))),)
    assert evolve(known, observe([b'{"a.b":1}'])) == ()
    assert (
        evolve((Field("a.b", LONG), Field("a", StructOf((Field("c", LONG),)))), observe([b'{"a":{"b":1}}']))
        == ()
    )


@pytest.mark.parametrize(
    ("one", "other"), [("1h", "_1h"), ("a b", "a_x20b"), ("a.b", "A_x2Eb"), ("2x", "_2X"), ("é-", "É_x2d")]
)
def test_keys_of_one_name_in_files_get_one_column(one: str, other: str) -> None:
    """Files have names that every reader takes, by which two keys may be one column, at any depth."""
    record = json.dumps({one: 1, other: 2, "o": {one: 1, other: 2}, "l": [{one: 1, other: 2}]}).encode()
    inner = StructOf((Field(one, LONG),))
    only_one = (Field(one, LONG), Field("o", inner), Field("l", ListOf(inner)))
    often = json.dumps({one: 1, "o": {one: 1}, "l": [{one: 1}]}).encode()
    assert choose_types(observe([record, often])) == only_one
    assert evolve(only_one, observe([record])) == ()
    assert {addition.path for addition in evolve((), observe([record, often]))} == {(one,), ("o",), ("l",)}
    sanitize_column_names(iceberg_schema(only_one))


@pytest.mark.parametrize("columns", [{"1h": "long", "_1h": "long"}, {"A": "long"}, {"b_x20c": "int"}])
def test_no_declared_column_is_added_beside_another_of_its_name(columns: dict[str, str]) -> None:
    """Neither beside the table's own nor beside each other: then nothing could be written any more."""
    there = iceberg_schema((Field("a", LONG), Field("b c", LONG)))
    pipeline = PipelineConfig(name="p", topic="p", table="lake.p", columns=columns)
    with pytest.raises(ConfigError, match="column-clash"):
        declared_evolution(pipeline, there)


def test_a_column_is_widened_to_what_is_declared_by_now() -> None:
    """At any depth, where Iceberg can; what already holds it stays as it is."""
    deep = declared_type("list<struct<f: float, m: map<string, decimal(5, 2)>>>")
    fields = {"n": IntegerType(), "l": deep, "same": IntegerType()}
    there = assign_fresh_schema_ids(
        Schema(*(NestedField(100 + at, name, kind) for at, (name, kind) in enumerate(fields.items())))
    )
    columns = {"n": "long", "l": "list<struct<f: double, m: map<string, decimal(9,2)>>>", "same": "int"}
    pipeline = PipelineConfig(name="p", topic="p", table="lake.p", columns=columns)
    evolution = declared_evolution(pipeline, there)
    assert not evolution.additions
    assert {path: str(kind) for path, kind in evolution.widenings.items()} == {
        ("n",): "long",
        ("l", "element", "f"): "double",
        ("l", "element", "m", "value"): "decimal(9, 2)",
    }
    assert not declared_evolution(pipeline, evolved(there, evolution))


KNOWN = (
    Field("a", ListOf(ListOf(LONG))),
    Field("l", ListOf(StructOf((Field("b", LONG),)))),
    Field("m", MapOf(LONG)),
    Field("s", MapOf(ListOf(StructOf((Field("b", LONG),))))),
)


@pytest.mark.parametrize("key", iceberg_schema(KNOWN)._name_to_id)
def test_no_column_has_a_name_that_the_schema_knows(key: str) -> None:
    """Elements, keys and values have names too, and fields of structs in lists a short one: none is added."""
    seen_key = observe([json.dumps({key: 1}).encode()])
    assert evolve(KNOWN, seen_key) == ()
    assert choose_types(seen_key, KNOWN) == KNOWN
    iceberg_schema(choose_types(observe([json.dumps({"a": [[1]], "l": [{"b": 1}], key: 1}).encode()])))


def test_elements_are_no_columns_of_their_own() -> None:
    """What is bounded are columns, as before."""
    assert count_columns(KNOWN) == 6


def test_a_name_has_at_most_255_bytes() -> None:
    """Each stands in every metadata file for ever; a longer key gets no column, at any depth."""
    longest = "é" * 127 + "k"
    values = [
        json.dumps({name: 1, "o": {name: 1}}).encode() for name in (longest, longest + "k", "k" * 10**6)
    ]
    assert choose_types(observe(values)) == (
        Field(longest, LONG),
        Field("o", StructOf((Field(longest, LONG),))),
    )


def test_reserved_names_are_the_metadata_columns() -> None:
    """What the table adds itself no field may be called."""
    assert RESERVED_COLUMNS == METADATA_COLUMNS


def test_evolution_adds_what_is_missing_at_any_depth() -> None:
    """Through structs, lists and maps, with paths that name the way."""
    columns = (
        Field("known", LONG),
        Field("s", StructOf((Field("x", LONG),))),
        Field("l", ListOf(StructOf((Field("x", LONG),)))),
        Field("m", MapOf(StructOf((Field("x", LONG),)))),
    )
    evidence = observe(
        [
            b'{"known":"text","new":{"a":1},"s":{"x":1,"y":true},"l":[{"x":1},{"y":[1.5]}]}',
            b'{"m":{"any":{"y":"a"},"other":{"y":1}},"none":null}',
        ]
    )
    assert evolve(columns, evidence) == (
        Addition(("s", "y"), Primitive.BOOLEAN),
        Addition(("l", "element", "y"), ListOf(DOUBLE)),
        Addition(("m", "value", "y"), STRING),
        Addition(("new",), StructOf((Field("a", LONG),))),
    )


def test_evolution_never_makes_timestamps() -> None:
    """Later records could not be looked at: a string stays one in a table that is there already."""
    evidence = observe([b'{"t":"2024-01-01T00:00:00Z","l":[{"t":"2024-01-01T00:00:00Z"}]}'])
    assert evolve((), evidence) == (
        Addition(("t",), STRING),
        Addition(("l",), ListOf(StructOf((Field("t", STRING),)))),
    )


def test_evolution_is_done_when_it_was_done() -> None:
    """With the additions as columns nothing more is to add, so that doing a split again ends."""
    evidence = observe([b'{"a":1,"A":2,"b":{"c":[{"d":1}]},"":3}'])
    columns = tuple(Field(addition.path[0], addition.type) for addition in evolve((), evidence))
    assert columns
    assert evolve(columns, evidence) == ()


def test_observed_counts_examples_and_coordinates() -> None:
    """For each kind: how often, the first value, and where it is."""
    evidence = observe(
        [b'{"f":1}', b'{"f":"x"}', b"null", b"\xff", b'{"f":2}', b'{"f":"' + b"y" * 100 + b'"}'],
        partition=3,
        offsets=[10, 11, 12, 13, 14, 15],
    )
    assert (evidence.records, evidence.undecodable) == (4, 2)
    kinds = evidence.fields["f"].kinds
    long, text = kinds[Kind.LONG], kinds[Kind.STRING]
    assert (long.count, long.partition, long.offset, long.example) == (2, 3, 10, "1")
    assert (text.count, text.offset, text.example) == (2, 11, '"x"')
    assert Evidence.from_json(evidence.to_json()) == evidence


def test_examples_are_short() -> None:
    """A megabyte of text is not carried about to show what a field looks like."""
    (sighting,) = seen(f'"{"y" * 1000}"').fields["f"].kinds.values()
    assert len(sighting.example) == 60
    assert sighting.example.endswith("…")

"""Which column each field of a schema goes into, by its identity and type, and that it stays so."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from spark_jobs.config.columns import Incompatible
from spark_jobs.formats.avro.schema import avro_schema
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.progress import ColumnMap
from spark_jobs.protocol.work import layout_named
from spark_jobs.schema.evolution import Evolution, bind, evolved, holds, may_hold, moved, widened
from spark_jobs.schema.placing import Rules, place, unlike
from spark_jobs.schema.schema_views import placed
from spark_jobs.schema.writer_schema import Language, Names, SchemaText, WriterColumns

RULES = Rules(100)
INT, LONG, FLOAT, DOUBLE, TEXT = IntegerType(), LongType(), FloatType(), DoubleType(), StringType()


def written(**fields: tuple[str, IcebergType]) -> WriterColumns:
    """Return a schema of fields by name, each with its identity and type."""
    columns = [
        NestedField(n, name, kind, required=False) for n, (name, (_, kind)) in enumerate(fields.items(), 1)
    ]
    return WriterColumns(
        StructType(*columns), {n: identity for n, (identity, _) in enumerate(fields.values(), 1)}
    )


class Table:
    """A table as runs leave it, one after the other."""

    def __init__(self, *fields: NestedField, rules: Rules = RULES) -> None:
        self.schema, self.bound, self.rules = Schema(*fields), ColumnMap(), rules

    def take(self, *schemas: WriterColumns) -> tuple[Evolution, list[Names]]:
        """Have it evolve for these schemas."""
        lacks, names = place(schemas, self.schema, self.bound, self.rules)
        self.schema = evolved(self.schema, lacks)
        self.bound = bind(self.bound, lacks.bindings, self.schema)
        return lacks, names

    @property
    def columns(self) -> dict[str, str]:
        """Return the types by name."""
        return {field.name: str(field.field_type) for field in self.schema.fields}


def test_a_renamed_field_goes_on_in_its_column() -> None:
    """Under the first name, with the new one as the column's text; once said, it is not said again."""
    table = Table()
    table.take(written(total=("3", LONG)))
    lacks, (names,) = table.take(written(amount=("3", LONG)))
    assert (table.columns, names) == ({"total": "long"}, (("amount", "total", ()),))
    assert lacks.docs == {("total",): "amount"}
    assert not table.take(written(amount=("3", LONG)))[0]


def test_a_name_that_another_field_had_is_a_new_column() -> None:
    """Field 1 is gone, field 2 has its name: they are not the same."""
    table = Table()
    table.take(written(a=("1", LONG)))
    _, (names,) = table.take(written(a=("2", LONG)))
    assert (table.columns, names) == ({"a": "long", "a_2": "long"}, (("a", "a_2", ()),))
    assert table.take(written(a=("1", LONG)))[1] == [(("a", "a", ()),)]


def test_an_alias_finds_the_column_of_the_field_that_is_no_more() -> None:
    """Not that of one which the same schema still has."""
    table = Table()
    table.take(written(a=("a", LONG)))
    new = WriterColumns(written(b=("b", LONG)).struct, {1: "b"}, {1: ("a",)})
    assert table.take(new)[1] == [(("b", "a", ()),)]
    both = written(a=("a", LONG), c=("c", LONG))
    with_alias = WriterColumns(both.struct, both.identities, {2: ("a",)})
    assert table.take(with_alias)[1] == [(("a", "a", ()), ("c", "c", ()))]


@pytest.mark.parametrize(
    ("first", "then", "columns"),
    [
        (INT, LONG, {"a": "long"}),
        (LONG, INT, {"a": "long"}),
        (FLOAT, DOUBLE, {"a": "double"}),
        (DecimalType(5, 2), DecimalType(9, 2), {"a": "decimal(9, 2)"}),
        (DecimalType(9, 2), DecimalType(5, 2), {"a": "decimal(9, 2)"}),
        (DecimalType(9, 2), DecimalType(9, 3), {"a": "decimal(9, 2)", "a_2": "decimal(9, 3)"}),
        (INT, TEXT, {"a": "int", "a_2": "string"}),
        (LONG, DOUBLE, {"a": "long", "a_2": "double"}),
        (DOUBLE, LONG, {"a": "double", "a_2": "long"}),
        (INT, DOUBLE, {"a": "int", "a_2": "double"}),
    ],
)
def test_a_type_widens_the_column_or_gets_another(
    first: IcebergType, then: IcebergType, columns: dict[str, str]
) -> None:
    """Nothing is lost in either; the type of before goes on where it went."""
    table = Table()
    table.take(written(a=("a", first)))
    table.take(written(a=("a", then)))
    assert table.columns == columns
    assert table.take(written(a=("a", first)))[1] == [(("a", "a", ()),)]


@pytest.mark.parametrize("last", [("b", "a"), ("a", "b")])
def test_a_name_that_comes_back_beside_its_alias_leaves_earlier_schemas_where_they_were(
    last: tuple[str, str],
) -> None:
    """Whichever of them comes first."""
    table = Table()
    first, last_one = written(a=("a", LONG)), written(**{name: (name, LONG) for name in last})
    renamed = WriterColumns(written(b=("b", LONG)).struct, {1: "b"}, {1: ("a",)})
    _, (*decided, again) = table.take(first, renamed, last_one, first)
    assert again == decided[0]
    assert decided[:2] == [(("a", "a", ()),), (("b", "a", ()),)]
    assert [column for _, column, _ in decided[2]] == ["a", f"{last[1]}{'_2' * (last[1] == 'a')}"]
    assert [table.take(each)[1] for each in (first, renamed, last_one)] == [[each] for each in decided]


def test_a_map_of_other_keys_does_not_take_the_fields_of_the_one_before() -> None:
    """They have one identity in two columns; once placed, nothing is lacking."""

    def of(key: IcebergType) -> WriterColumns:
        item = StructType(NestedField(4, "x", INT, required=False))
        point = written(m=("1", MapType(2, key, 3, item, value_required=False)))
        return replace(point, identities={1: "1", 4: "1.value.1"})

    table = Table()
    table.take(of(INT), of(TEXT))
    lacks, names = table.take(of(INT), of(TEXT))
    assert not lacks
    assert names == [(("m", "m", (("x", "x", ()),)),), (("m", "m_2", (("x", "x", ()),)),)]


def test_two_messages_share_columns_by_name_and_not_by_number() -> None:
    """Where the type fits; each field of one message has a column of its own, as ever."""
    table = Table()
    order = written(order_id=("shop.Order:1", TEXT), customer=("shop.Order:2", TEXT))
    refund = written(refund_id=("shop.Refund:1", TEXT), customer=("shop.Refund:2", TEXT))
    other = written(order_id=("shop.Refund:1", LONG), customer=("shop.Refund:3", TEXT))
    decided = table.take(order, refund, other)[1]
    assert [[column for _, column, _ in names] for names in decided] == [
        ["order_id", "customer"],
        ["refund_id", "customer"],
        ["order_id_2", "customer_2"],
    ]
    assert [table.take(each)[1] for each in (order, refund, other)] == [[each] for each in decided]


def test_what_is_inside_structs_lists_and_maps_is_placed_as_well() -> None:
    """By identity, each in the struct it stands in; a list of another kind is another column."""
    table = Table()

    def inside(*fields: NestedField) -> WriterColumns:
        point = ListType(
            2, MapType(3, TEXT, 4, StructType(*fields), value_required=False), element_required=False
        )
        top = NestedField(1, "points", point, required=False)
        return WriterColumns(
            StructType(top), {1: "1"} | {each.field_id: f"1.{each.field_id}" for each in fields}
        )

    table.take(inside(NestedField(10, "x", INT, required=False)))
    _, (names,) = table.take(
        inside(NestedField(10, "lon", LONG, required=False), NestedField(11, "x", TEXT, required=False))
    )
    assert names == (("points", "points", (("lon", "x", ()), ("x", "x_2", ()))),)
    (value,) = [each.field_type for each in table.schema.fields]
    fields = value.element_type.value_type.fields
    assert [(each.name, str(each.field_type)) for each in fields] == [("x", "long"), ("x_2", "string")]
    other = written(points=("1", ListType(2, TEXT, element_required=False)))
    assert table.take(other)[1] == [(("points", "points_2", ()),)]


def test_a_column_of_another_type_takes_over_its_fields() -> None:
    """And those inside it, by their names; later types are decided for it as for any column."""
    point = StructType(NestedField(11, "x", TEXT, required=False), NestedField(12, "y", TEXT, required=False))
    table = Table()
    first = WriterColumns(
        StructType(NestedField(1, "id", TEXT, required=False), NestedField(2, "at", point, required=False)),
        {1: "id", 2: "at", 11: "at.x", 12: "at.y"},
    )
    table.take(first)
    text, at = table.schema.fields
    wider = StructType(NestedField(31, "x", LONG, required=False), NestedField(32, "y", TEXT, required=False))
    number, struct = NestedField(20, "id", LONG, required=False), NestedField(30, "at", wider, required=False)
    table.bound = moved(moved(table.bound, text, number), at, struct)
    table.schema = Schema(
        number,
        NestedField(text.field_id, "_id_was_string", TEXT, required=False),
        struct,
        NestedField(at.field_id, "_at_was_struct", at.field_type, required=False),
    )
    assert table.bound == {
        "id": {"string": (20,)},
        "at": {"struct": (30,)},
        "at.x": {"string": (31,)},
        "at.y": {"string": (32,)},
    }
    assert table.take(first)[1] == [(("id", "id", ()), ("at", "at", (("x", "x", ()), ("y", "y", ()))))]
    assert table.take(written(id=("id", INT)))[1] == [(("id", "id", ()),)]
    assert table.take(written(id=("id", DOUBLE)))[1] == [(("id", "id_2", ()),)]
    assert table.columns["id"] == "long"


def test_two_schemas_at_once_may_add_to_what_the_first_one_brings() -> None:
    """A struct that is new itself gets the fields of both."""
    table = Table()
    one, two = (
        WriterColumns(
            StructType(
                NestedField(1, "s", StructType(NestedField(2, name, INT, required=False)), required=False)
            ),
            {1: "s", 2: f"s.{name}"},
        )
        for name in ("a", "b")
    )
    table.take(one, two)
    assert [field.name for field in table.schema.find_type("s").fields] == ["a", "b"]
    assert not table.take(one, two)[0]


def test_the_rules_decide_what_does_not_fit() -> None:
    """A declared type stays; `stop` says why; a dead letter is one only where a value does not fit."""
    declared = Table(NestedField(1, "a", INT, required=False), rules=Rules(9, declared=frozenset({"a"})))
    assert declared.take(written(a=("a", LONG)))[1] == [(("a", "a", ()),)]
    assert declared.columns == {"a": "int"}
    with pytest.raises(ConfigError, match="a as string, but the table's column a has type int") as caught:
        Table(NestedField(1, "a", INT, required=False), rules=Rules(9, Incompatible.STOP)).take(
            written(a=("a", TEXT))
        )
    assert caught.value.code == "schema-incompatible"
    assert "./sluice retype PIPELINE a TYPE --reason" in caught.value.hint
    with pytest.raises(ConfigError, match="a as string") as caught:  # an archive takes no `retype`
        Table(
            NestedField(1, "a", INT, required=False),
            rules=Rules(9, Incompatible.STOP, layout=layout_named("archive")),
        ).take(written(a=("a", TEXT)))
    assert caught.value.hint.endswith(
        "Or start a new archive under another `table:`, which gets the new type. Nothing was committed."
    )
    letters = Table(NestedField(1, "a", INT, required=False), rules=Rules(9, Incompatible.DEAD_LETTER))
    assert letters.take(written(a=("a", TEXT)))[1] == [(("a", "a", ()),)]
    assert letters.columns == {"a": "int"}


def test_a_rebuild_places_a_field_in_its_column_whatever_its_type_was() -> None:
    """But in those of the key, and declared ones keep their types; which columns are unlike is told."""
    columns = [NestedField(n, name, INT, required=False) for n, name in enumerate(("id", "a", "b", "c"), 1)]
    rules = Rules(9, Incompatible.STOP, frozenset({"c"}), layout=layout_named("mirror"))
    table = Table(*columns, rules=rules)
    table.take(written(id=("id", INT), a=("a", INT), b=("b", INT), c=("c", INT)))
    newest = written(id=("id", INT), a=("a", TEXT), b=("b", LONG), c=("c", TEXT))
    with pytest.raises(ConfigError, match="the source has a as string") as caught:
        table.take(newest)
    assert "./sluice rebuild PIPELINE --reason" in caught.value.hint
    assert unlike(newest, table.schema, table.bound, rules) == {"a": TEXT}
    table.rules = replace(rules, takes_all_but=frozenset({"id"}))
    assert table.take(newest)[1] == [(("id", "id", ()), ("a", "a", ()), ("b", "b", ()), ("c", "c", ()))]
    assert table.columns == {"id": "int", "a": "int", "b": "long", "c": "int"}
    with pytest.raises(ConfigError, match="one key could have two rows"):
        table.take(written(id=("id", TEXT)))


def test_what_there_is_no_room_for_takes_nobodys_column() -> None:
    """Its name is one that the table does not have."""
    table = Table(rules=Rules(1))
    table.take(written(a=("1", LONG)))
    assert table.take(written(a=("2", LONG)))[1] == [(("a", "a_2", ()),)]
    assert table.columns == {"a": "long"}


def test_names_that_cannot_be_get_a_number() -> None:
    """Sluice's own, and those that differ by case alone."""
    table = Table()
    table.take(written(_kafka_offset=("1", LONG), id=("2", LONG), ID=("3", LONG)))
    assert list(table.columns) == ["_kafka_offset_2", "id", "ID_2"]


KINDS = st.sampled_from(
    [INT, LONG, FLOAT, DOUBLE, TEXT, DecimalType(5, 2), DecimalType(20, 0), DecimalType(9, 4)]
)
FIELDS = st.dictionaries(
    st.sampled_from("abcAB"), st.tuples(st.sampled_from("123456"), KINDS), max_size=4
).filter(lambda fields: len({identity for identity, _ in fields.values()}) == len(fields))


@example([{"a": ("1", LONG)}, {"a": ("1", DOUBLE)}, {"a": ("1", INT)}])
@given(st.lists(FIELDS, min_size=1, max_size=8))
def test_each_field_has_a_column_of_its_own_that_holds_it_and_keeps_it(schemas: list[Any]) -> None:
    """Whatever schemas follow each other, at once or in one run after the other."""
    table, at_once = Table(), Table()
    decided: list[Names] = []
    for fields in schemas:
        decided += table.take(written(**fields))[1]
    _, together = at_once.take(*(written(**fields) for fields in schemas))
    assert (together, at_once.columns) == (decided, table.columns)
    for fields, names in zip(schemas, decided, strict=True):
        assert table.take(written(**fields))[1] == [names]
        assert len({column for _, column, _ in names}) == len(fields)
        for name, column, _ in names:
            assert holds(table.schema.find_type(column), fields[name][1])


@st.composite
def nested_schemas(draw: st.DrawFn) -> WriterColumns:
    """Of names with aliases, or of one of two messages' numbers; some fields are maps of structs."""
    message = draw(st.sampled_from(["", "A:", "B:"]))
    columns, identities, aliases = [], {}, {}
    for at, name in enumerate(draw(st.lists(st.sampled_from("abc"), unique=True, max_size=3)), 1):
        known = message + (str(at) if message else name)
        kind = draw(KINDS)
        if draw(st.booleans()):
            inner = NestedField(at * 10, "x", kind, required=False)
            key = draw(st.sampled_from([INT, TEXT]))
            kind = MapType(at * 10 + 1, key, at * 10 + 2, StructType(inner), value_required=False)
            identities[at * 10] = f"{known}.value.x"
        columns.append(NestedField(at, name, kind, required=False))
        identities[at] = known
        if not message:
            aliases[at] = tuple(draw(st.sets(st.sampled_from("abc"), max_size=1)) - {name})
    return WriterColumns(StructType(*columns), identities, aliases)


@given(st.lists(nested_schemas(), min_size=1, max_size=6))
def test_no_later_schema_moves_an_earlier_one(schemas: list[WriterColumns]) -> None:
    """With aliases, maps and messages beside each other, at once or one after the other."""
    table, at_once = Table(), Table()
    decided = [table.take(each)[1][0] for each in schemas]
    _, together = at_once.take(*schemas, *schemas)
    assert (together, [*at_once.columns]) == (decided * 2, [*table.columns])  # ids in types differ
    for each, names in zip(schemas, decided, strict=True):
        assert table.take(each)[1] == [names]
        assert len({column for _, column, _ in names}) == len(each.struct.fields)
    assert not place(schemas, table.schema, table.bound, RULES)[0].bindings


@given(KINDS, KINDS)
def test_what_is_widened_holds_both(column: IcebergType, kind: IcebergType) -> None:
    """What holds all may hold some."""
    wider = widened(column, kind)
    if wider is not None:
        assert holds(wider, column)
        assert holds(wider, kind)
    if holds(column, kind):
        assert may_hold(column, kind)


def test_rows_are_under_the_names_that_were_decided() -> None:
    """Those of the plain reader too, also inside lists of structs, and where a part is missing."""
    point = {"type": "record", "name": "P", "fields": [{"name": "lon", "type": "int"}]}
    text = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "amount", "type": "long"},
            {"name": "points", "type": ["null", {"type": "array", "items": ["null", point]}]},
            {"name": "by", "type": {"type": "map", "values": "P"}},
        ],
    }
    schema = avro_schema(SchemaText(Language.AVRO, json.dumps(text)))
    names: Names = (
        ("amount", "total", ()),
        ("points", "points", (("lon", "x", ()),)),
        ("by", "by_2", (("lon", "y", ()),)),
    )
    renamed = placed(schema, names)
    values = [b"\x02\x02\x04\x02\x06\x00\x00\x02\x02k\x08\x00", b"\x04\x00\x00"]
    wanted = [
        {"total": 1, "points": [{"x": 3}, None], "by_2": [("k", {"y": 4})]},
        {"total": 2, "points": None, "by_2": []},
    ]
    read = renamed.read(values)
    assert read.table.to_pylist() == wanted
    plain = [dict(renamed.read_plain(value)) for value in values]
    assert pa.Table.from_pylist(plain, schema=read.table.schema).to_pylist() == wanted
    assert [field.name for field in renamed.columns.struct.fields] == ["total", "points", "by_2"]
    assert placed(schema, (("amount", "amount", ()), ("points", "points", ()), ("by", "by", ()))) is schema

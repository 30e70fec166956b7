"""Protobuf schemas: text and descriptors, what imports what, and a message's fields as columns."""

from __future__ import annotations

import base64
import pickle

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from spark_jobs.formats.protobuf.schema import ProtobufSchema, protobuf_schema
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.schema.iceberg_types import type_text
from spark_jobs.schema.writer_schema import Language, SchemaText

IMPORTS = "".join(
    f'import "google/protobuf/{name}.proto";\n'
    for name in ("timestamp", "duration", "wrappers", "struct", "any")
)
COMMON = 'syntax = "proto3"; package common; message Money { int64 units = 1; string currency = 2; }'


def schema_of(body: str, message: str | None = None, head: str = IMPORTS, **more: object) -> ProtobufSchema:
    """Return the schema of a file with this body."""
    text = f'syntax = "proto3";\npackage shop;\n{head}\n{body}'
    return protobuf_schema(SchemaText(Language.PROTOBUF, text), message=message, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "column"),
    [
        ("int32 f = 1;", "int"),
        ("sfixed32 f = 1;", "int"),
        ("sint64 f = 1;", "long"),
        ("uint32 f = 1;", "long"),
        ("fixed32 f = 1;", "long"),
        ("uint64 f = 1;", "decimal(20, 0)"),
        ("fixed64 f = 1;", "decimal(20, 0)"),
        ("float f = 1;", "float"),
        ("double f = 1;", "double"),
        ("bool f = 1;", "boolean"),
        ("string f = 1;", "string"),
        ("bytes f = 1;", "binary"),
        ("Kind f = 1;", "string"),
        ("google.protobuf.Timestamp f = 1;", "timestamptz"),
        ("google.protobuf.Duration f = 1;", "long"),
        ("google.protobuf.UInt32Value f = 1;", "long"),
        ("google.protobuf.BytesValue f = 1;", "binary"),
        ("google.protobuf.Struct f = 1;", "string"),
        ("google.protobuf.Any f = 1;", "struct<type_url: string, value: binary>"),
        ("Empty f = 1;", "boolean"),
        ("repeated Inner f = 1;", "list<struct<a: string, b: struct<a: string, b: string>>>"),
        ("map<int32, double> f = 1;", "map<int, double>"),
        ("oneof f { string g = 1; Empty h = 2; }", "string"),
    ],
)
def test_a_field_is_a_column(field: str, column: str) -> None:
    """Of the type that holds every value of it; recursion ends in JSON text."""
    others = "message Empty {} enum Kind { NONE = 0; } message Inner { string a = 1; Inner2 b = 2; }"
    others += " message Inner2 { string a = 1; Inner b = 2; }"
    columns = schema_of(f"{others} message M {{ {field} }}", "M").columns
    assert type_text(columns.struct.fields[0].field_type) == column
    assert all(not each.required for each in columns.struct.fields)


def test_columns_are_known_by_numbers_and_told_what_they_are() -> None:
    """At any depth; the first paragraph of a comment is the column's doc, if it is the schema's own."""
    columns = schema_of(
        """
        message Order {
          // Its number,
          // for ever.
          //
          // Not the invoice's.
          int64 id = 4;
          map<string, Item> items = 9;  // by shelf
          google.protobuf.Any any = 10;
          Order parent = 11;
        }
        message Item { repeated Item parts = 3; }
        """,
        "Order",
    ).columns
    names = {columns.identities[field.field_id]: field.doc for field in columns.struct.fields}
    assert names == {
        "shop.Order:4": "Its number, for ever.",
        "shop.Order:9": "by shelf",
        "shop.Order:10": None,
        "shop.Order:11": None,
    }
    assert set(columns.identities.values()) == {
        f"shop.Order:{number}" for number in ("4", "9", "9.value.3", "10", "10.1", "10.2", "11")
    }
    assert columns.as_text == ("items.value.parts.element", "parent")
    inside = columns.struct.field_by_name("any")
    assert inside is not None
    assert all(field.doc is None for field in inside.field_type.fields)


def test_text_and_descriptors_import_each_other() -> None:
    """As Java and Python register them, in whatever mixture."""
    text = 'syntax = "proto3"; package shop; import "common/money.proto";'
    text += " message Order { common.Money total = 1; }"
    compiled = FileDescriptorProto(name="any", package="common", syntax="proto3")
    money = compiled.message_type.add(name="Money")
    money.field.add(name="units", number=1, type=3, label=1)
    as_descriptor = base64.b64encode(compiled.SerializeToString()).decode()
    order = FileDescriptorProto(
        name="order.proto", package="shop", syntax="proto3", dependency=["common/money.proto"]
    )
    order.message_type.add(name="Order").field.add(
        name="total", number=1, type=11, label=1, type_name=".common.Money"
    )
    for main in (text, base64.b64encode(order.SerializeToString()).decode()):
        for reference in (COMMON, as_descriptor):
            schema = protobuf_schema(
                SchemaText(Language.PROTOBUF, main, (("common/money.proto", reference),)), indexes=(0,)
            )
            assert schema.message == "shop.Order"
            (column,) = schema.columns.struct.fields
            assert type_text(column.field_type).startswith("struct<units: long")


@pytest.mark.parametrize(
    ("indexes", "name"), [((0,), "shop.A"), ((1,), "shop.B"), ((1, 0), "shop.B.C"), ((1, 1), "shop.B.D")]
)
def test_a_message_is_found_by_its_indexes(indexes: tuple[int, ...], name: str) -> None:
    """As a frame names it: those inside others by their place there."""
    inner = "message C { int32 c = 1; } message D { int32 d = 1; }"
    body = f"message A {{ int32 a = 1; }} message B {{ {inner} int32 b = 1; }}"
    schema = schema_of(body, head="", indexes=indexes)
    assert schema.message == name
    assert pickle.loads(pickle.dumps(schema)) == schema  # noqa: S301  (our own bytes)


@pytest.mark.parametrize(
    ("body", "message", "code", "told"),
    [
        ("message A { int32 a = ; }", None, "schema-unreadable", "Expected field number"),
        ("message A { Other a = 1; }", None, "schema-unreadable", '"Other" is not defined'),
        ('import "/etc/passwd"; message A { int32 a = 1; }', None, "schema-unreadable", "etc/passwd"),
        ('import "../x.proto"; message A { int32 a = 1; }', None, "schema-unreadable", "x.proto"),
        (
            "message A { int32 a = 1; } message B { int32 b = 1; }",
            None,
            "no-such-message",
            "more than one message",
        ),
        ("message A { int32 a = 1; }", "B", "no-such-message", "no single message B"),
        ("message A {}", None, "schema-unsupported", "no fields"),
        (
            "message A { int32 ab = 1; int32 AB = 2 [json_name='x']; }",
            None,
            "schema-unsupported",
            "only in case",
        ),
        ("message A { int32 _kafka_offset = 1; }", None, "schema-unsupported", "_kafka_offset"),
    ],
)
def test_what_no_table_can_be_made_of_says_so(body: str, message: str | None, code: str, told: str) -> None:
    """With the compiler's own words, the messages there are, or the name at fault."""
    with pytest.raises(ConfigError) as refused:
        schema_of(body, message, head="")
    assert refused.value.code == code
    assert told in str(refused.value)
    assert "/tmp/" not in str(refused.value)


def test_references_stay_where_they_are() -> None:
    """A name that leads elsewhere is refused before anything is written."""
    with pytest.raises(ConfigError, match="cannot be imported by name"):
        protobuf_schema(SchemaText(Language.PROTOBUF, COMMON, (("../../x.proto", COMMON),)))


def test_groups_are_refused_and_proto2_tells_what_is_there() -> None:
    """An absent field is null, whatever its default; one that is there is its value."""
    text = 'syntax = "proto2"; message A { required int32 a = 1; optional string b = 2 [default = "x"]; }'
    schema = protobuf_schema(SchemaText(Language.PROTOBUF, text))
    assert schema.read([b"\x08\x00", b"\x08\x01\x12\x00"]).table.to_pylist() == [
        {"a": 0, "b": None},
        {"a": 1, "b": ""},
    ]
    assert schema.read([b"\x08\x01\x12\x01\xff"]).unread[0].field == "b"
    group = 'syntax = "proto2"; message A { optional group B = 1 { optional int32 c = 2; } }'
    with pytest.raises(ConfigError, match="is a Protobuf group"):
        protobuf_schema(SchemaText(Language.PROTOBUF, group))


@pytest.mark.parametrize(
    ("body", "code", "told"),
    [
        ("message A {" * 10_000 + "int32 a = 1;" + "}" * 10_000, "schema-unreadable", "recursion limit"),
        (
            "".join(f"message A{n} {{ A{n + 1} a = 1; A{n + 1} b = 2; }}" for n in range(30))
            + "message A30 { int32 a = 1; }",
            "schema-unsupported",
            "more than 10,000 types",
        ),
        (
            "".join(f"message A{n} {{ A{n + 1} a = 1; }}" for n in range(100))
            + "message A100 { int32 a = 1; }",
            "schema-unsupported",
            "are nested deeper",
        ),
        ("message A0 { map<double, int32> a = 1; }", "schema-unreadable", "Key in map fields"),
    ],
    ids=["deep", "doubling", "nested", "NaN"],
)
def test_schemas_that_have_no_end_or_take_any_key_are_refused(body: str, code: str, told: str) -> None:
    """Ten thousand levels, messages that double with each other, keys that are not equal to themselves."""
    with pytest.raises(ConfigError) as refused:
        schema_of(body, "A0", head="")
    assert refused.value.code == code
    assert told in str(refused.value)


def test_a_descriptor_with_keys_that_may_be_nan_is_refused() -> None:
    """The compiler never saw it."""
    file = FileDescriptorProto(name="a.proto", syntax="proto3")
    message = file.message_type.add(name="A")
    message.field.add(name="a", number=1, label=3, type=11, type_name=".A.AEntry")
    entry = message.nested_type.add(name="AEntry")
    entry.options.map_entry = True
    for number, name in ((1, "key"), (2, "value")):
        entry.field.add(name=name, number=number, label=1, type=1)
    text = base64.b64encode(file.SerializeToString()).decode()
    with pytest.raises(ConfigError, match="map key") as refused:
        protobuf_schema(SchemaText(Language.PROTOBUF, text))
    assert refused.value.code == "schema-unreadable"


@pytest.mark.parametrize(
    ("imported", "of_type", "column"),
    [
        ("google/type/date.proto", "google.type.Date", "struct<year: int, month: int, day: int>"),
        (
            "google/type/money.proto",
            "google.type.Money",
            "struct<currency_code: string, units: long, nanos: int>",
        ),
        (
            "google/type/datetime.proto",
            "google.type.TimeZone",
            "struct<id: string, version: string>",
        ),
        (
            "confluent/type/decimal.proto",
            "confluent.type.Decimal",
            "struct<value: binary, precision: long, scale: int>",
        ),
    ],
)
def test_what_serializers_never_register_is_known(imported: str, of_type: str, column: str) -> None:
    """Google's and Confluent's own files, imported by text, by a descriptor, or by what a text refers to."""
    head = f'import "{imported}"; import "confluent/meta.proto";'
    body = f'message M {{ {of_type} f = 1 [(confluent.field_meta).doc = "said"]; }}'
    schema = schema_of(body, "M", head=head)
    (field,) = schema.columns.struct.fields
    assert type_text(field.field_type) == column
    *_, compiled = FileDescriptorSet.FromString(schema.descriptors).file
    text = base64.b64encode(compiled.SerializeToString()).decode()
    other = 'syntax = "proto3"; import "m.proto"; message Other { shop.M m = 1; }'
    inner = f'syntax = "proto3"; package shop; {head} {body}'
    for main, references in ((text, ()), (other, (("m.proto", text),)), (other, (("m.proto", inner),))):
        schema = protobuf_schema(SchemaText(Language.PROTOBUF, main, references), indexes=(0,))
        assert column in type_text(schema.columns.struct.fields[0].field_type)


@pytest.mark.parametrize("syntax", ["", 'syntax = "proto2"; import "google/protobuf/any.proto"; '])
def test_the_compilers_reason_is_none_of_its_warnings(syntax: str) -> None:
    """It warns of a file without ``syntax``, and of unused imports, before it says what is wrong."""
    with pytest.raises(ConfigError) as refused:
        protobuf_schema(SchemaText(Language.PROTOBUF, f"{syntax}message M {{ optional Foo a = 1; }}"))
    assert '"Foo" is not defined' in str(refused.value)
    with pytest.raises(ConfigError, match=r"x/y\.proto") as refused:
        protobuf_schema(SchemaText(Language.PROTOBUF, f'{syntax}import "x/y.proto"; message M {{}}'))
    assert "was not found" in str(refused.value)
    assert "arning" not in str(refused.value)

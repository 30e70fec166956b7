"""Protobuf messages of any shape, and values of them, as chance has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor import FieldDescriptor as Of
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

_SCALARS = [
    *("int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64"),
    *("float", "double", "bool", "string", "bytes"),
]
_WELL_KNOWN = ["Timestamp", "Duration", "Int32Value", "UInt64Value", "StringValue", "BoolValue", "Any"]
_TYPES = {name: getattr(FieldDescriptorProto, f"TYPE_{name.upper()}") for name in _SCALARS}
_IMPORTS = ("timestamp", "duration", "wrappers", "any")
_SHAPES = ["plain", "plain", "optional", "oneof", "oneof", "repeated", "map"]
_LEVELS = 4


def random_file(chance: random.Random) -> FileDescriptorProto:
    """Return a file with an enum, a message, one inside it that may hold it, and an empty one.

    One of proto2 is without the enum, whose unknown numbers Google's own library does not show.
    """
    syntax = chance.choice(["proto2", "proto3", "proto3", "proto3"])
    file = FileDescriptorProto(name="made.proto", package="made", syntax=syntax)
    file.dependency.extend(f"google/protobuf/{name}.proto" for name in _IMPORTS)
    kind = file.enum_type.add(name="Kind")
    for number, name in ((0, "NONE"), (1, "ONE"), (-5, "LESS")):
        kind.value.add(name=name, number=number)
    file.message_type.add(name="Empty")
    kinds = [*_SCALARS, "enum"] if syntax == "proto3" else _SCALARS
    shapes = _SHAPES if syntax == "proto3" else [each for each in _SHAPES if each != "optional"]
    _add_fields(file.message_type.add(name="Inner"), chance, [*kinds, ".made.Outer"], shapes)
    more = [".made.Inner", ".made.Inner", ".made.Empty", *_WELL_KNOWN]
    _add_fields(file.message_type.add(name="Outer"), chance, [*kinds, *more], shapes)
    return file


def _add_fields(message: Any, chance: random.Random, kinds: list[str], shapes: list[str]) -> None:
    chosen: dict[str, str] = {}
    for number in chance.sample(range(1, 40), chance.randint(1, 7)):
        name = f"f{number}"
        shape = chance.choice(shapes)
        field = message.field.add(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
        target = field
        if shape == "map":
            entry = message.nested_type.add(name=f"F{number}Entry")
            entry.options.map_entry = True
            key = entry.field.add(name="key", number=1, label=FieldDescriptorProto.LABEL_OPTIONAL)
            key.type = _TYPES[chance.choice(["string", "int32", "int64", "bool"])]
            target = entry.field.add(name="value", number=2, label=FieldDescriptorProto.LABEL_OPTIONAL)
            field.type, field.type_name = (
                FieldDescriptorProto.TYPE_MESSAGE,
                f".made.{message.name}.F{number}Entry",
            )
        if shape in ("map", "repeated"):
            field.label = FieldDescriptorProto.LABEL_REPEATED
        _give_type(target, chance.choice(kinds))
        chosen[name] = shape
    # Those that only the compiler makes stand last.
    if "oneof" in chosen.values():
        message.oneof_decl.add(name="how")
    for field in message.field:
        if chosen[field.name] == "optional":
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")
        elif chosen[field.name] == "oneof":
            field.oneof_index = 0


def _give_type(field: Any, kind: str) -> None:
    if kind in _TYPES:
        field.type = _TYPES[kind]
    elif kind == "enum":
        field.type, field.type_name = FieldDescriptorProto.TYPE_ENUM, ".made.Kind"
    else:
        name = kind if kind.startswith(".") else f".google.protobuf.{kind}"
        field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, name


def fill(message: Any, chance: random.Random, levels: int = _LEVELS) -> Any:
    """Return the message with some of its fields set, so deep at most."""
    for field in message.DESCRIPTOR.fields:
        if chance.random() < 0.3 or (field.message_type is not None and not levels):
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            _fill_map(getattr(message, field.name), field.message_type, chance, levels)
        elif field.is_repeated:
            items = getattr(message, field.name)
            for _ in range(chance.randint(0, 3)):
                if field.message_type is not None:
                    fill(items.add(), chance, levels - 1)
                else:
                    items.append(_scalar(field, chance))
        elif field.message_type is not None:
            getattr(message, field.name).SetInParent()
            fill(getattr(message, field.name), chance, levels - 1)
        else:
            setattr(message, field.name, _scalar(field, chance))
    if message.DESCRIPTOR.full_name == "google.protobuf.Timestamp" and chance.random() < 0.8:
        message.seconds, message.nanos = chance.randint(-(10**10), 10**10), chance.randint(0, 999_999) * 1000
    return message


def _fill_map(items: Any, entry: Any, chance: random.Random, levels: int) -> None:
    value = entry.fields_by_name["value"]
    for _ in range(chance.randint(0, 3)):
        key = _scalar(entry.fields_by_name["key"], chance)
        if value.message_type is not None:
            fill(items[key], chance, levels - 1)
        else:
            items[key] = _scalar(value, chance)


def _scalar(field: Any, chance: random.Random) -> Any:
    makers: dict[int, Callable[[], Any]] = {
        **dict.fromkeys((Of.TYPE_INT32, Of.TYPE_SINT32, Of.TYPE_SFIXED32), lambda: _number(chance, 31, -1)),
        **dict.fromkeys((Of.TYPE_INT64, Of.TYPE_SINT64, Of.TYPE_SFIXED64), lambda: _number(chance, 63, -1)),
        **dict.fromkeys((Of.TYPE_UINT32, Of.TYPE_FIXED32), lambda: _number(chance, 32, 0)),
        **dict.fromkeys((Of.TYPE_UINT64, Of.TYPE_FIXED64), lambda: _number(chance, 64, 0)),
        Of.TYPE_FLOAT: lambda: float(chance.choice([0, -0.0, 1.5, float("inf"), 2.0**-140, float("nan")])),
        Of.TYPE_DOUBLE: lambda: chance.choice([0.0, -0.0, 0.1, float("-inf"), chance.random(), float("nan")]),
        Of.TYPE_BOOL: lambda: chance.random() < 0.5,
        Of.TYPE_STRING: lambda: "".join(chance.choices("aé\0😀 ", k=chance.randint(0, 4))),
        Of.TYPE_BYTES: lambda: chance.randbytes(chance.randint(0, 4)),
        Of.TYPE_ENUM: lambda: chance.choice([0, 1, -5, 7]),
    }
    return makers[field.type]()


def _number(chance: random.Random, bits: int, sign: int) -> int:
    edge = (1 << bits) - 1
    return chance.choice([0, 1, edge, sign * edge + sign, chance.randint(sign * edge, edge)])

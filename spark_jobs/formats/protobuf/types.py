"""A message as a tree of types, used for its columns and its values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from spark_jobs.formats import tree
from spark_jobs.formats.tree import Array, Bounded, Map, Record
from spark_jobs.protocol.errors import fault
from spark_jobs.schema.writer_schema import Form

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet


class Kind(Enum):
    """Kind of a field that is not a message."""

    INT = auto()
    UINT32 = auto()
    LONG = auto()
    UINT64 = auto()
    FLOAT = auto()
    DOUBLE = auto()
    BOOLEAN = auto()
    STRING = auto()
    BYTES = auto()
    ENUM = auto()
    TIMESTAMP = auto()
    DURATION = auto()
    JSON = auto()  # google.protobuf.Struct, Value and ListValue
    AGAIN = auto()  # a message inside itself, as JSON text
    EMPTY = auto()  # a message without fields: there or not


class Written(Enum):
    """Wire encoding of a value; encodings with the same number are delimited alike."""

    NUMBER = auto()
    ZIGZAG = auto()
    FIXED_32 = auto()
    FIXED_64 = auto()
    BYTES = auto()


@dataclass(frozen=True, slots=True)
class Leaf:
    """A type without nested fields; ``symbols`` are an enum's by number, ``message`` is a recursive one.

    ``is_wrapped``: the field is a message that holds the value, which is ``written`` so. A time may be told
    in another ``form``.
    """

    kind: Kind
    written: Written = Written.BYTES
    symbols: Mapping[int, str] = field(default_factory=dict)
    is_wrapped: bool = False
    message: str = ""
    form: Form | None = None


@dataclass(frozen=True, slots=True)
class Field(tree.Field["Type"]):
    """A field; with ``has_presence`` an absent field is null, otherwise it has its default.

    Of those of one ``oneof`` the last that a value says is there, and no other.
    """

    number: int = 0
    has_presence: bool = False
    oneof: str | None = None

    @property
    def key(self) -> str:
        """See ``tree.Field``."""
        return str(self.number)


Message: TypeAlias = Record[Field]
Type: TypeAlias = "Leaf | Message | Array[Type] | Map[Type]"


_OF = FieldDescriptor
_LEAVES = {
    **dict.fromkeys((_OF.TYPE_INT32, _OF.TYPE_ENUM), Leaf(Kind.INT, Written.NUMBER)),
    _OF.TYPE_SINT32: Leaf(Kind.INT, Written.ZIGZAG),
    _OF.TYPE_SFIXED32: Leaf(Kind.INT, Written.FIXED_32),
    _OF.TYPE_INT64: Leaf(Kind.LONG, Written.NUMBER),
    _OF.TYPE_SINT64: Leaf(Kind.LONG, Written.ZIGZAG),
    _OF.TYPE_SFIXED64: Leaf(Kind.LONG, Written.FIXED_64),
    _OF.TYPE_UINT32: Leaf(Kind.UINT32, Written.NUMBER),
    _OF.TYPE_FIXED32: Leaf(Kind.UINT32, Written.FIXED_32),
    _OF.TYPE_UINT64: Leaf(Kind.UINT64, Written.NUMBER),
    _OF.TYPE_FIXED64: Leaf(Kind.UINT64, Written.FIXED_64),
    _OF.TYPE_FLOAT: Leaf(Kind.FLOAT, Written.FIXED_32),
    _OF.TYPE_DOUBLE: Leaf(Kind.DOUBLE, Written.FIXED_64),
    _OF.TYPE_BOOL: Leaf(Kind.BOOLEAN, Written.NUMBER),
    _OF.TYPE_STRING: Leaf(Kind.STRING),
    _OF.TYPE_BYTES: Leaf(Kind.BYTES),
}
_KNOWN = {
    "google.protobuf.Timestamp": Leaf(Kind.TIMESTAMP),
    "google.protobuf.Duration": Leaf(Kind.DURATION),
    **{
        f"google.protobuf.{name}Value": replace(_LEAVES[kind], is_wrapped=True)
        for name, kind in (
            ("Bool", _OF.TYPE_BOOL),
            ("Int32", _OF.TYPE_INT32),
            ("Int64", _OF.TYPE_INT64),
            ("UInt32", _OF.TYPE_UINT32),
            ("UInt64", _OF.TYPE_UINT64),
            ("Float", _OF.TYPE_FLOAT),
            ("Double", _OF.TYPE_DOUBLE),
            ("String", _OF.TYPE_STRING),
            ("Bytes", _OF.TYPE_BYTES),
        )
    },
    **dict.fromkeys(
        ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"), Leaf(Kind.JSON)
    ),
}
WELL_KNOWN = "google/protobuf/"  # where Google's own files are
_MOST_CHARACTERS = 500  # of a comment


def tree_of(message: Descriptor, docs: Mapping[str, str]) -> Message:
    """Return a message's tree; ``docs`` are comments by field's full name.

    Raises ``ConfigError`` (``schema-unsupported``): it nests too deep, is too large, or has groups.
    """
    return _Tree(docs).message(message, (message.full_name,))


@dataclass
class _Tree(Bounded):
    """Expands messages; ``inside`` are the enclosing ones."""

    docs: Mapping[str, str]

    def message(self, message: Descriptor, inside: tuple[str, ...]) -> Message:
        return Record(tuple(self._field(each, inside) for each in message.fields))

    def _field(self, field_: FieldDescriptor, inside: tuple[str, ...]) -> Field:
        name = field_.full_name
        self.count((name,), len(inside))
        if field_.type == _OF.TYPE_GROUP:
            raise fault("schema-unsupported.group", name=name)
        oneof = field_.containing_oneof.name if field_.containing_oneof else None
        kind, doc = self._type(field_, inside), self.docs.get(name)
        return Field(field_.name, kind, doc, (), field_.number, field_.has_presence, oneof)

    def _type(self, field_: FieldDescriptor, inside: tuple[str, ...]) -> Type:
        if not field_.is_repeated:
            return self._one(field_, inside)
        entry = field_.message_type
        if entry is None or not entry.GetOptions().map_entry:
            return Array(self._one(field_, inside))
        key = _LEAVES[entry.fields_by_number[1].type]
        return Map(self._one(entry.fields_by_number[2], inside), key)

    def _one(self, field_: FieldDescriptor, inside: tuple[str, ...]) -> Type:
        if field_.enum_type is not None:
            symbols = {each.number: each.name for each in reversed(field_.enum_type.values)}
            return Leaf(Kind.ENUM, Written.NUMBER, symbols)
        if (message := field_.message_type) is None:
            return _LEAVES[field_.type]
        if (known := _KNOWN.get(message.full_name)) is not None:
            return known
        if message.full_name in inside:
            return Leaf(Kind.AGAIN, message=message.full_name)
        if not message.fields:
            return Leaf(Kind.EMPTY)
        return self.message(message, (*inside, message.full_name))


def comments(files: FileDescriptorSet) -> dict[str, str]:
    """Return the comment before or next to each field of a schema's text, by full name."""
    found: dict[str, str] = {}
    for file in files.file:
        if not file.HasField("source_code_info") or file.name.startswith(WELL_KNOWN):
            continue
        texts = {
            tuple(place.path): _first_paragraph(place.leading_comments or place.trailing_comments)
            for place in file.source_code_info.location
        }
        for position, message in enumerate(file.message_type):
            found |= _comments(message, (4, position), file.package, texts)
    return found


def _first_paragraph(comment: str) -> str:
    return " ".join(comment.strip().split("\n\n")[0].split())[:_MOST_CHARACTERS]


def _comments(
    message: Any, path: tuple[int, ...], scope: str, texts: Mapping[tuple[int, ...], str]
) -> dict[str, str]:
    name = f"{scope}.{message.name}" if scope else message.name
    found = {
        f"{name}.{each.name}": text
        for position, each in enumerate(message.field)
        if (text := texts.get((*path, 2, position)))
    }
    for position, inner in enumerate(message.nested_type):
        found |= _comments(inner, (*path, 3, position), name, texts)
    return found

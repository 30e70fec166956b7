"""Protobuf behind the seam of ``spark_jobs.schema.writer_schema``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache

from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from pyiceberg.schema import Schema

from spark_jobs.formats.lanes.packed_values import BlockFirst, MadeOnce, Readers
from spark_jobs.formats.protobuf.block import FEWEST_VALUES, BlockReader
from spark_jobs.formats.protobuf.columns import columns_of
from spark_jobs.formats.protobuf.compiling import compiled, unreadable
from spark_jobs.formats.protobuf.plain import PlainReader
from spark_jobs.formats.protobuf.types import Field, Kind, Leaf, Message, comments, tree_of
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.told import Form, Forms
from spark_jobs.schema.writer_schema import SchemaText

_MOST_SCHEMAS = 256
_AS_TEXT = (Kind.DURATION, Form.TEXT)


@dataclass(frozen=True, slots=True)
class ProtobufSchema(MadeOnce):
    """One message of a compiled schema; unknown fields are counted with ``ignores``, else no row has any."""

    descriptors: bytes = field(repr=False)
    message: str
    ignores: bool = False
    told: Forms = ()

    @property
    def readers(self) -> Readers:
        """See ``MadeOnce``."""
        return _readers(self)


def protobuf_schema(
    source: SchemaText, *, message: str | None = None, indexes: Sequence[int] = (), ignores: bool = False
) -> ProtobufSchema:
    """Return a schema that values can be read by: of the message of that name, or at these indexes.

    ``indexes`` count messages of the file, then those inside it. With neither it is the file's only message.
    Raises ``ConfigError``: ``schema-unreadable`` for text that is no Protobuf schema, ``no-such-message``,
    ``schema-unsupported`` for a message that no table can be made of.
    """
    descriptors = compiled(source)
    name = _at(descriptors, indexes) if indexes else _named(descriptors, message)
    schema = ProtobufSchema(descriptors, name, ignores)
    _readers(schema)
    return schema


def _at(descriptors: bytes, indexes: Sequence[int]) -> str:
    file = FileDescriptorSet.FromString(descriptors).file[-1]
    messages, names = file.message_type, [file.package] if file.package else []
    try:
        for index in indexes:
            names.append(messages[index].name)
            messages = messages[index].nested_type
    except IndexError:
        raise _no_message(descriptors, f"no message at {'.'.join(map(str, indexes))}") from None
    return ".".join(names)


def _named(descriptors: bytes, message: str | None) -> str:
    there = _messages(descriptors)
    found = [name for name in there if message is None or name == message or name.endswith(f".{message}")]
    if len(found) != 1:
        raise _no_message(descriptors, f"no single message {message}" if message else "more than one message")
    return found[0]


def _messages(descriptors: bytes) -> list[str]:
    """Return the messages of the schema's own file that are in no other."""
    file = FileDescriptorSet.FromString(descriptors).file[-1]
    return [f"{file.package}.{each.name}" if file.package else each.name for each in file.message_type]


def _no_message(descriptors: bytes, why: str) -> ConfigError:
    there = ", ".join(_messages(descriptors)) or "none"
    return ConfigError(
        f"the schema has {why}",
        code="no-such-message",
        hint=f"Name one under `value: {{message: …}}`. There are: {there}.",
    )


@lru_cache(_MOST_SCHEMAS)
def _readers(schema: ProtobufSchema) -> Readers:
    files = FileDescriptorSet.FromString(schema.descriptors)
    pool, docs = descriptor_pool.DescriptorPool(), comments(files)
    try:
        for file in files.file:
            pool.Add(file)
        pool.FindMessageTypeByName(schema.message)
    except (TypeError, KeyError) as error:
        raise unreadable(str(error)) from error
    trees = cache(lambda name: tree_of(pool.FindMessageTypeByName(name), docs))
    root = _told(trees(schema.message), dict(schema.told))
    columns = columns_of(root, schema.message)
    plain = PlainReader(files, schema.message, root, trees, ignores=schema.ignores)
    arrow = arrow_schema(Schema(*columns.struct.fields))
    first = BlockFirst(BlockReader(root, arrow), FEWEST_VALUES, plain.read, arrow)
    return Readers(columns, first.read, lambda value: plain.read(value)[0])


def _told(root: Message, told: Mapping[str, Form]) -> Message:
    return replace(root, fields=tuple(_field_told(each, told.get(each.name)) for each in root.fields))


def _field_told(field: Field, form: Form | None) -> Field:
    """Return a field in its form; a duration is a number as it is."""
    kind = field.type
    if not isinstance(kind, Leaf) or (kind.kind is not Kind.TIMESTAMP and (kind.kind, form) != _AS_TEXT):
        return field
    return replace(field, type=replace(kind, form=form))

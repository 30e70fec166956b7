"""The Protobuf implementation of ``spark_jobs.schema.writer_schema``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial

from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from spark_jobs.formats.lanes.lanes import BlockReader
from spark_jobs.formats.lanes.packed_values import ParsedOnce, Readers
from spark_jobs.formats.protobuf.block import FEWEST_VALUES, taker
from spark_jobs.formats.protobuf.columns import columns_of
from spark_jobs.formats.protobuf.compiling import compiled, unreadable
from spark_jobs.formats.protobuf.plain import PlainReader
from spark_jobs.formats.protobuf.types import Field, Kind, Leaf, Type, comments, tree_of
from spark_jobs.formats.tree import Record, fields_in_forms
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.schema.writer_schema import Form, Forms, SchemaText

_AS_TEXT = (Kind.DURATION, Form.TEXT)


@dataclass(frozen=True, slots=True)
class ProtobufSchema(ParsedOnce):
    """One message of a compiled schema; with ``ignores`` unknown fields are counted, else refused."""

    descriptors: bytes = field(repr=False)
    message: str
    ignores: bool = False
    forms: Forms = ()

    def readers(self) -> Readers:
        """See ``ParsedOnce``."""
        files = FileDescriptorSet.FromString(self.descriptors)
        pool, docs = descriptor_pool.DescriptorPool(), comments(files)
        try:
            for file in files.file:
                pool.Add(file)
            pool.FindMessageTypeByName(self.message)
        except (TypeError, KeyError) as error:
            raise unreadable(str(error)) from error
        trees = cache(lambda name: tree_of(pool.FindMessageTypeByName(name), docs))
        root = Record(fields_in_forms(trees(self.message).fields, self.forms, _in_form))
        columns = columns_of(root, self.message)
        plain = PlainReader(files, self.message, root, trees, ignores=self.ignores)
        return Readers.block_first(columns, partial(BlockReader, taker(root)), FEWEST_VALUES, plain.read)


def protobuf_schema(
    source: SchemaText, *, message: str | None = None, indexes: Sequence[int] = (), ignores: bool = False
) -> ProtobufSchema:
    """Return a schema for the message of that name, or at these indexes.

    ``indexes`` count messages of the file, then those inside it. With neither it is the file's only message.
    Raises ``ConfigError``: ``schema-unreadable`` for text that is no Protobuf schema, ``no-such-message``,
    ``schema-unsupported`` for a message that no table can be made of.
    """
    descriptors = compiled(source)
    own = FileDescriptorSet.FromString(descriptors).file[-1]
    name = _at(own, indexes) if indexes else _named(own, message)
    return ProtobufSchema(descriptors, name, ignores).usable()


def _at(file: FileDescriptorProto, indexes: Sequence[int]) -> str:
    messages, names = file.message_type, [file.package] if file.package else []
    try:
        for index in indexes:
            names.append(messages[index].name)
            messages = messages[index].nested_type
    except IndexError:
        raise _no_message(file, f"no message at {'.'.join(map(str, indexes))}") from None
    return ".".join(names)


def _named(file: FileDescriptorProto, message: str | None) -> str:
    messages = _messages(file)
    found = [name for name in messages if message is None or name == message or name.endswith(f".{message}")]
    if len(found) != 1:
        raise _no_message(file, f"no single message {message}" if message else "more than one message")
    return found[0]


def _messages(file: FileDescriptorProto) -> list[str]:
    """Return the top-level messages of a file."""
    return [f"{file.package}.{each.name}" if file.package else each.name for each in file.message_type]


def _no_message(file: FileDescriptorProto, why: str) -> SluiceError:
    return fault("no-such-message", why=why, found=", ".join(_messages(file)) or "none")


def _in_form(field: Field, form: Form) -> Type:
    """Return a timestamp in its configured form; a duration stays a number."""
    kind = field.type
    if not isinstance(kind, Leaf) or (kind.kind is not Kind.TIMESTAMP and (kind.kind, form) != _AS_TEXT):
        return kind
    return replace(kind, form=form)

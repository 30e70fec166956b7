"""The messages of Flight SQL that are read or written here, by the numbers in Arrow's FlightSql.proto.

Every field is one that may be lacking, which the bytes do not tell from the others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessages

from serving.flight_statement import MOST_BYTES
from spark_jobs.protocol.errors import fault

_FRAME_BYTES = 4096  # what is around the longest statement
_PACKAGE = "arrow.flight.protocol.sql"
_TYPE_URL = f"type.googleapis.com/{_PACKAGE}"
_TEXT, _BYTES = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES
_TRUTH, _NUMBER = FieldDescriptorProto.TYPE_BOOL, FieldDescriptorProto.TYPE_UINT32
_ONE, _MANY = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED
_TABLE = (("catalog", _TEXT), ("db_schema", _TEXT), ("table", _TEXT))
# Fields are numbered from 1 in this order; "*" marks a list.
_MESSAGES: dict[str, tuple[tuple[str, Any], ...]] = {
    "CommandGetSqlInfo": (("*info", _NUMBER),),
    "CommandGetCatalogs": (),
    "CommandGetDbSchemas": (("catalog", _TEXT), ("db_schema_filter_pattern", _TEXT)),
    "CommandGetTables": (
        *(("catalog", _TEXT), ("db_schema_filter_pattern", _TEXT), ("table_name_filter_pattern", _TEXT)),
        *(("*table_types", _TEXT), ("include_schema", _TRUTH)),
    ),
    "CommandGetTableTypes": (),
    "CommandGetPrimaryKeys": _TABLE,
    "CommandGetExportedKeys": _TABLE,
    "CommandGetImportedKeys": _TABLE,
    "CommandStatementQuery": (("query", _TEXT), ("transaction_id", _BYTES)),
    "TicketStatementQuery": (("statement_handle", _BYTES),),
    "CommandPreparedStatementQuery": (("prepared_statement_handle", _BYTES),),
    "DoPutPreparedStatementResult": (("prepared_statement_handle", _BYTES),),
    "ActionCreatePreparedStatementRequest": (("query", _TEXT), ("transaction_id", _BYTES)),
    "ActionCreatePreparedStatementResult": (
        *(("prepared_statement_handle", _BYTES), ("dataset_schema", _BYTES), ("parameter_schema", _BYTES)),
    ),
    "ActionClosePreparedStatementRequest": (("prepared_statement_handle", _BYTES),),
}


class Command(NamedTuple):
    """A message by its name, and what it says: None where a field is lacking."""

    name: str
    fields: dict[str, Any]


def read_command(data: bytes) -> Command:
    """Read a packed message. Raises ``ConfigError`` (``unreadable-request``) for bytes that are none."""
    if len(data) > MOST_BYTES + _FRAME_BYTES:
        raise fault("unreadable-request.long", most=MOST_BYTES)
    try:
        packed = Packed.FromString(data)
        name = packed.type_url.rpartition("/")[2].removeprefix(f"{_PACKAGE}.")
        if name not in _MESSAGES:
            return Command(name, {})
        message = _CLASSES[f"{_PACKAGE}.{name}"].FromString(packed.value)
    except DecodeError as error:
        raise fault("unreadable-request.no-flight-sql") from error
    return Command(name, _fields_of(message))


def packed(name: str, **fields: Any) -> bytes:
    """Return a message as it goes into a ticket or an action's result."""
    whole: bytes = Packed(type_url=f"{_TYPE_URL}.{name}", value=plain(name, **fields)).SerializeToString()
    return whole


def plain(name: str, **fields: Any) -> bytes:
    """Return a message alone, without its name."""
    whole: bytes = _CLASSES[f"{_PACKAGE}.{name}"](**fields).SerializeToString()
    return whole


def _fields_of(message: Message) -> dict[str, Any]:
    return {
        field.name: list(getattr(message, field.name))
        if field.is_repeated
        else getattr(message, field.name)
        if message.HasField(field.name)
        else None
        for field in message.DESCRIPTOR.fields
    }


def _described() -> FileDescriptorProto:
    file = FileDescriptorProto(name="flight_sql_messages.proto", package=_PACKAGE, syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields, 1):
            label = _MANY if field.startswith("*") else _ONE
            message.field.add(name=field.lstrip("*"), number=number, type=kind, label=label)
    return file


_CLASSES = GetMessages([_described()], pool=DescriptorPool())

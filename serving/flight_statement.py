"""Messages and handles of Flight SQL clients, and the rows and errors sent back to them.

A ticket or a handle has a statement with its parameters, so the server keeps none. It is signed by the
process that issued it, so foreign bytes are never read as Arrow.
"""

from __future__ import annotations

import hmac
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import wraps
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.types as kinds
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessages
from pyarrow import flight

from spark_jobs.config.secrets import scrub
from spark_jobs.protocol.errors import RetryableError, SluiceError, fault

_SQL = b"sql"
_DIGEST = "sha256"
_SIGNED_BYTES = 32


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL with one row of parameters for its question marks; no columns if none are bound."""

    sql: str
    bound: pa.Table = field(default_factory=lambda: pa.table({}))

    @property
    def parameters(self) -> Sequence[Any]:
        """The parameters' values in their order."""
        return [column[0].as_py() for column in self.bound.columns]

    def with_parameters(self, rows: pa.Table) -> Statement:
        """Return it with one row of values. Raises ``ConfigError`` (``unreadable-request``) for more rows."""
        if len(rows) != 1 and rows.num_columns:
            raise fault("unreadable-request.rows", count=len(rows))
        return replace(self, bound=rows)

    def to_handle(self, key: bytes) -> bytes:
        """Return it as a signed handle. Raises ``ConfigError`` (``unreadable-request``) if it is too long."""
        sink = pa.BufferOutputStream()
        table = self.bound.replace_schema_metadata({_SQL: self.sql.encode()})
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        written: bytes = sink.getvalue().to_pybytes()
        if len(written) > MOST_BYTES:
            raise fault("unreadable-request.long", most=MOST_BYTES)
        return hmac.digest(key, written, _DIGEST) + written


def read_handle(handle: bytes, key: bytes) -> Statement:
    """Read a handle. Raises ``ConfigError`` (``unreadable-request``) if it is not signed with the key."""
    signed, written = handle[:_SIGNED_BYTES], handle[_SIGNED_BYTES:]
    if not hmac.compare_digest(signed, hmac.digest(key, written, _DIGEST)):
        raise fault("unreadable-request.unprepared")
    bound = pa.ipc.open_stream(written).read_all()
    return Statement(bound.schema.metadata[_SQL].decode(), bound)


# Errors as Flight statuses, with message, code and hint, and without secrets.


_Method = TypeVar("_Method", bound=Callable[..., Any])
_OVER_TIME = {"query-timeout", "not-yet"}


def with_flight_errors(method: _Method) -> _Method:
    """Translate every exception of a server's method into a Flight error."""

    @wraps(method)
    def called(*arguments: Any, **named: Any) -> Any:
        try:
            return method(*arguments, **named)
        except Exception as error:  # noqa: BLE001  (sent to the client)
            raise flight_error(error) from None

    return called  # type: ignore[return-value]


def flight_error(error: BaseException) -> Any:
    """Return an error for the client; its status separates wrong requests from retryable errors."""
    if isinstance(error, flight.FlightError):
        return error
    if not isinstance(error, SluiceError):
        return flight.FlightInternalError(scrub(f"unexpected {type(error).__name__}: {error}"))
    text = scrub(f"{error.message} [{error.code}] {error.hint}")
    if not isinstance(error, RetryableError):
        return flight.FlightServerError(text)
    return (
        flight.FlightTimedOutError(text) if error.code in _OVER_TIME else flight.FlightUnavailableError(text)
    )


# The rows of an answer over Flight, which has no timeout for a client that reads nothing.


_PART_BYTES = 4 << 20  # ADBC's driver takes no message of 16 MiB
_SEND_SECONDS = 5.0  # what a client has to take the last of an answer after its time is over


class Rows:
    """The rows of a query; closes it after the last row, on an error, and when its time is over.

    Then its slot is free, even if the client reads nothing more. A client that reads on gets an error, so
    that a part of an answer does not look complete.
    """

    def __init__(self, stack: ExitStack, batches: Iterator[pa.RecordBatch], seconds: float) -> None:
        self._stack = stack
        self._batches = chain.from_iterable(map(_parts, batches))
        self._lock = threading.Lock()
        self._is_late = False
        # A weak reference: when the client disconnects, these rows are freed and the query ends.
        self._timer = threading.Timer(seconds + _SEND_SECONDS, _give_up, [weakref.ref(self)])
        self._timer.daemon = True
        self._timer.start()

    def __iter__(self) -> Rows:
        return self

    def __next__(self) -> pa.RecordBatch:
        with self._lock:
            if self._is_late:
                raise flight_error(fault("query-timeout.answer"))
            try:
                return next(self._batches)
            except StopIteration:
                self._close()
                raise
            except BaseException as error:
                self._close()
                raise flight_error(error) from error

    def __del__(self) -> None:
        self._close()

    def give_up(self) -> None:
        """Close the query, even if the client has not read all rows."""
        with self._lock:
            self._is_late = True
            self._stack.close()

    def _close(self) -> None:
        self._timer.cancel()
        self._stack.close()


def _give_up(of: weakref.ref[Rows]) -> None:
    if (rows := of()) is not None:
        rows.give_up()


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = max(1, len(batch) * _PART_BYTES // max(1, batch.nbytes))
    return (batch.slice(first, rows) for first in range(0, len(batch), rows))


# Parameters of clients: the only Arrow data from outside that is read, within its own bounds.


MOST_BYTES = 1_000_000
_VIEWS = (kinds.is_string_view, kinds.is_binary_view)
_FLAT = (
    *(kinds.is_null, kinds.is_boolean, kinds.is_integer, kinds.is_floating, kinds.is_decimal),
    *(kinds.is_string, kinds.is_large_string, kinds.is_binary, kinds.is_large_binary),
    *(kinds.is_fixed_size_binary, kinds.is_temporal),
)


def read_parameters(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Return the bound parameters after checking them. Raises ``ConfigError`` (``unreadable-request``)."""
    try:
        whole = pa.Table.from_batches(_checked(schema, batches), schema)
        decoded = [c.cast(c.type.value_type) if kinds.is_dictionary(c.type) else c for c in whole.columns]
        for column in decoded:
            column[:1].to_pylist()  # a time beyond all years is a number of its type
    except (pa.ArrowException, ValueError, OverflowError, LookupError, OSError) as error:
        raise fault("unreadable-request.parameters", why="the parameters are damaged") from error
    return pa.table(decoded, names=[str(n) for n in range(len(decoded))])


def _checked(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for at, column in enumerate(schema, 1):
        _check_kind(column.type, at)
    left = MOST_BYTES
    for batch in batches:
        # Checked before anything else: wrong sizes in the batch would read foreign memory.
        left -= batch.get_total_buffer_size() + 1
        if left >= 0:
            batch.validate(full=True)
            left -= sum(map(_values, batch.columns))
        if left < 0:
            raise fault("unreadable-request.long", most=MOST_BYTES)
        yield batch


def _check_kind(kind: pa.DataType, at: int) -> None:
    """Reject types that store one value for many rows, which would be larger than what was sent."""
    if kinds.is_dictionary(kind):
        kind = kind.value_type
    if not any(is_it(kind) for is_it in _VIEWS):
        for part in _kinds_inside(kind):
            if not any(is_it(part) for is_it in _FLAT):
                why = f"parameter {at} is of the unsupported type {part}"
                raise fault("unreadable-request.parameters", why=why)


def _kinds_inside(kind: pa.DataType) -> Iterator[pa.DataType]:
    if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind):
        yield from _kinds_inside(kind.value_type)
    elif kinds.is_struct(kind):
        for column in kind:
            yield from _kinds_inside(column.type)
    elif kinds.is_map(kind):
        yield from (*_kinds_inside(kind.key_type), *_kinds_inside(kind.item_type))
    else:
        yield kind


def _values(array: pa.Array) -> int:
    """Return the number of values, nested ones included: nulls and empty structs need no bytes."""
    kind = array.type
    if kinds.is_map(kind):
        return len(array) + _values(array.keys) + _values(array.items)
    if kinds.is_struct(kind):
        return len(array) + sum(_values(array.field(n)) for n in range(kind.num_fields))
    return len(array) + (_values(array.values) if kinds.is_nested(kind) else 0)


# The messages of Flight SQL that are read or written here, by the numbers in Arrow's FlightSql.proto.


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
}


class Command(NamedTuple):
    """A message: its name and its fields; a missing field is None."""

    name: str
    fields: dict[str, Any]


def read_command(data: bytes) -> Command:
    """Read a packed message. Raises ``ConfigError`` (``unreadable-request``) for other bytes."""
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
    """Return a message packed for a ticket or the result of an action."""
    whole: bytes = Packed(type_url=f"{_TYPE_URL}.{name}", value=plain(name, **fields)).SerializeToString()
    return whole


def plain(name: str, **fields: Any) -> bytes:
    """Return a serialized message without its name."""
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
        for number, (each, kind) in enumerate(fields, 1):
            label = _MANY if each.startswith("*") else _ONE
            message.field.add(name=each.lstrip("*"), number=number, type=kind, label=label)
    return file


_CLASSES = GetMessages([_described()], pool=DescriptorPool())

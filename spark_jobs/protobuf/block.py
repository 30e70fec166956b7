"""Many values at once, by ptars, each row believed where written again it is the value, byte by byte.

What ptars loses or changes (unknown fields, numbers past 32 bits, times it cannot hold) is missing then; so
are values that say the same in other bytes. Those rows are in doubt, and read by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf import descriptor_pool, wrappers_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet

from spark_jobs.protobuf.plain import FIRST_US, LAST_US
from spark_jobs.protobuf.types import Field, Kind, Leaf, Map, Message, Repeated, Type
from spark_jobs.schema.packed_values import MOST_BYTES, PackedValues

_WRAPPERS = "google/protobuf/wrappers.proto"
_OWN, _OWN_PACKAGE = "own/wrappers.proto", "own.wrappers"
_WRAPPER_NAMES = frozenset(wrappers_pb2.DESCRIPTOR.message_types_by_name)
_ALONE = frozenset({Kind.JSON, Kind.AGAIN})  # their text is made by the plain reader


class DoubtError(Exception):
    """Values that have to be read by themselves."""


class BlockReader:
    """Reads values of one message at once; nothing is called before the first of them."""

    def __init__(self, files: FileDescriptorSet, message: str, root: Message, columns: pa.Schema) -> None:
        self._files = files
        self._message = message
        self._root = root
        self._columns = columns
        self._handler: Any = None
        self._is_known: bool | None = None

    def read(self, values: PackedValues) -> tuple[pa.Table, np.ndarray] | None:
        """Return rows, and which of them to believe; None when none can be read so."""
        if not self._can_read() or len(values.data) > MOST_BYTES:
            return None
        written = values.array()
        try:
            rows = self._handler.array_to_record_batch(written)
            again = self._handler.record_batch_to_array(rows)
            is_sure = pc.equal(again, written).to_numpy(zero_copy_only=False)
            sure = _Sure(is_sure)
            arrays = sure.columns(rows.to_struct_array(), self._root.fields, self._columns)
            table = pa.Table.from_arrays(arrays, schema=self._columns)
            table.validate(full=True)
        except (DoubtError, pa.ArrowException, ValueError, TypeError):
            return None
        except BaseException as error:  # a panic of Rust's is no Exception: a map entry without value
            if type(error).__name__ != "PanicException":
                raise
            return None
        return table, sure.rows

    def _can_read(self) -> bool:
        if self._is_known is None:
            self._is_known = not _is_alone(self._root) and self._opened()
        return self._is_known

    def _opened(self) -> bool:
        """Open ptars' reader; False where its columns are others than the tree says."""
        from ptars import HandlerPool, PtarsConfig  # noqa: PLC0415  (who reads JSON alone needs it not)

        config = PtarsConfig(timestamp_unit="us", duration_unit="us")
        try:
            message = _with_own_wrappers(self._files).FindMessageTypeByName(self._message)
            self._handler = HandlerPool([message.file], config).get_for_message(message)
            schema = self._handler.list_to_record_batch([b""]).schema
        except (ValueError, TypeError):
            return False
        return _is_alike(self._root.fields, list(schema))


def _with_own_wrappers(files: FileDescriptorSet) -> descriptor_pool.DescriptorPool:
    """Return the same files, with wrappers under another name.

    Under Google's ptars writes one of a default with the default in it, which nobody else does.
    """
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        own = FileDescriptorProto()
        own.CopyFrom(file)
        own.dependency[:] = [_OWN if name == _WRAPPERS else name for name in file.dependency]
        if file.name == _WRAPPERS:
            own.name, own.package = _OWN, _OWN_PACKAGE
        else:
            for message in own.message_type:
                _use_own_wrappers(message)
        pool.Add(own)
    return pool


def _use_own_wrappers(message: DescriptorProto) -> None:
    for each in message.field:
        package, _, name = each.type_name.rpartition(".")
        if package == ".google.protobuf" and name in _WRAPPER_NAMES:
            each.type_name = f".{_OWN_PACKAGE}.{name}"
    for inner in message.nested_type:
        _use_own_wrappers(inner)


def _is_alone(kind: Type) -> bool:
    match kind:
        case Leaf():
            return kind.kind in _ALONE
        case Repeated(element):
            return _is_alone(element)
        case Map(_, value):
            return _is_alone(value)
        case Message(fields):
            return any(_is_alone(each.type) for each in fields)


def _is_alike(fields: Sequence[Field], columns: Sequence[pa.Field]) -> bool:
    """True if each field is a column of its name, and a null there says what presence says."""
    by_name = {column.name: column for column in columns}
    if {each.name for each in fields} != by_name.keys():
        return False
    for each in fields:
        column = by_name[each.name]
        if isinstance(each.type, Leaf) and column.nullable is not each.has_presence:
            return False
        inner, kind = each.type, column.type
        while isinstance(inner, Repeated | Map):
            kind = kind.value_type if isinstance(inner, Repeated) else kind.item_type
            inner = inner.element if isinstance(inner, Repeated) else inner.value
        if isinstance(inner, Message) and not _is_alike(inner.fields, list(kind)):
            return False
    return True


class _Sure:
    """Columns as the table has them, and ``rows``: those to believe, fewer with each that cannot be held."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows.copy()

    def columns(self, rows: pa.Array, fields: Sequence[Field], columns: pa.Schema) -> list[pa.Array]:
        """Return the columns of a message's rows."""
        return self._parts(rows, fields, list(columns), np.arange(len(rows)))

    def _parts(
        self, array: pa.Array, fields: Sequence[Field], targets: Sequence[pa.Field], rows: np.ndarray
    ) -> list[pa.Array]:
        """Return a message's fields; rows that say two of a oneof are in doubt: ptars knows no last one."""
        by_name = dict(zip((each.name for each in array.type), array.flatten(), strict=True))
        said: dict[str, np.ndarray] = {}
        for each in fields:
            if each.oneof is not None:
                is_there = by_name[each.name].is_valid().to_numpy(zero_copy_only=False)
                before = said.get(each.oneof)
                if before is not None:
                    self.rows[rows[before & is_there]] = False
                said[each.oneof] = is_there if before is None else before | is_there
        return [
            self._of(by_name[each.name], each.type, target.type, rows)
            for each, target in zip(fields, targets, strict=True)
        ]

    def _of(self, array: pa.Array, kind: Type, target: pa.DataType, rows: np.ndarray) -> pa.Array:
        """Return an array whose items are in these rows."""
        match kind:
            case Leaf():
                return self._leaf(array, kind, target, rows)
            case Repeated(element):
                inside = self._of(array.flatten(), element, target.value_type, _rows_inside(array, rows))
                return pa.ListArray.from_arrays(_offsets(array), inside, type=target, mask=array.is_null())
            case Map(key, value):
                entries = array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field])))
                keys, items = entries.flatten().flatten()
                of_rows = _rows_inside(entries, rows)
                self._doubt_repeated(_entry_lists(entries), keys, of_rows)
                made = (
                    self._of(keys, key, target.key_type, of_rows),
                    self._of(items, value, target.item_type, of_rows),
                )
                return pa.MapArray.from_arrays(_offsets(entries), *made, type=target, mask=array.is_null())
            case Message(fields):
                parts = self._parts(array, fields, list(target), rows)
                return pa.StructArray.from_arrays(parts, fields=list(target), mask=array.is_null())

    def _leaf(self, array: pa.Array, leaf: Leaf, target: pa.DataType, rows: np.ndarray) -> pa.Array:
        if leaf.is_wrapped:
            (array,) = array.flatten()
        match leaf.kind:
            case Kind.ENUM:
                return _symbols(array, leaf).cast(target)
            case Kind.EMPTY:
                return pc.if_else(array.is_valid(), pa.scalar(True), pa.scalar(None, pa.bool_()))
            case Kind.TIMESTAMP:
                micros = pc.fill_null(array.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
                self.rows[rows[(micros < FIRST_US) | (micros > LAST_US)]] = False
            case Kind.DURATION:
                return array.cast(pa.int64())
        return array.cast(target)

    def _doubt_repeated(self, of_maps: np.ndarray, keys: pa.Array, rows: np.ndarray) -> None:
        """Take rows out in which a map has a key twice."""
        if len(keys):
            entries = pa.table({"map": of_maps, "key": keys})
            counted = entries.group_by(["map", "key"]).aggregate([([], "count_all")])
            twice = counted.filter(pc.greater(counted.column("count_all"), 1)).column("map").to_numpy()
            self.rows[rows[np.isin(of_maps, twice)]] = False


def _rows_inside(lists: pa.Array, rows: np.ndarray) -> np.ndarray:
    return np.repeat(rows, _lengths(lists))


def _entry_lists(lists: pa.Array) -> np.ndarray:
    """Return of each item which list it is in."""
    return np.repeat(np.arange(len(lists)), _lengths(lists))


def _lengths(lists: pa.Array) -> np.ndarray:
    lengths: np.ndarray = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    return lengths


def _offsets(lists: pa.Array) -> pa.Array:
    if pa.types.is_map(lists.type):
        lists = lists.cast(pa.list_(pa.struct([lists.type.key_field, lists.type.item_field])))
    return pa.array(np.concatenate([[0], np.cumsum(_lengths(lists))]), pa.int32())


def _symbols(array: pa.Array, leaf: Leaf) -> pa.Array:
    """Return an enum's numbers as symbols, one without any as its own text."""
    encoded = array.dictionary_encode()
    names = [leaf.symbols.get(number, str(number)) for number in encoded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(names, pa.string())).cast(pa.string())

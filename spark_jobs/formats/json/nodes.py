"""Schemas as ``native/json.c`` reads them, and the columns that it appends, as Arrow's.

A node is a column, or a struct, list or map around columns: 20 words, as the C file declares them. The caller
writes the first nine; what a call expects is remembered from the last one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

# The numbers of ``enum Kind``, the others of it with the bytes of a value.
_STRUCT, _LIST, _MAP, _TEXT, _FIXED, _DECIMAL, _SKIPPED = 0, 1, 2, 8, 9, 11, 16
_SCALARS: Mapping[pa.DataType, tuple[int, int]] = {
    pa.int64(): (3, 8),
    pa.int32(): (4, 4),
    pa.float64(): (5, 8),
    pa.float32(): (6, 4),
    pa.bool_(): (7, 1),
    pa.string(): (_TEXT, 4),
    pa.large_string(): (_TEXT, 4),
    pa.binary(): (_TEXT, 4),
    pa.large_binary(): (_TEXT, 4),
    pa.uuid(): (10, 16),
    pa.timestamp("us", "UTC"): (12, 8),
    pa.timestamp("us"): (13, 8),
    pa.date32(): (14, 4),
    pa.time64("us"): (15, 8),
}
_REQUIRED, _IGNORES = 1, 2
# The words of a node that are read or set here.
_KIND, _FLAGS, _FIRST, _COUNT, _NAME, _NAME_SIZE, _TABLE, _MASK, _WIDTH = range(9)
EXPECTED = slice(9, 11)
_ROWS, _VALID, _DATA, _BYTES, _BYTES_SIZE, _NULLS = 11, 13, 14, 15, 16, 19
_WORDS = 20
_NO_PLAIN_NAME = frozenset(b'"\\').union(range(0x20))

_Children = list[tuple[str, pa.DataType | None, bool]]  # None: a field that is passed over


class UnsupportedTypeError(Exception):
    """A type or a name that the module has no node for."""


@dataclass(eq=False, slots=True)
class Nodes:
    """``words`` by node, and behind them the names and tables, whose places count from the first word on.

    ``paths`` are the names that lead to each node.
    """

    schema: pa.Schema
    words: np.ndarray
    tail: bytes
    paths: tuple[tuple[str, ...], ...]
    columns: tuple[_Column, ...]

    def placed(self, address: int) -> bytes:
        """Return it as it is written to an address."""
        words = self.words.copy()
        words[:, _NAME] += address
        words[words[:, _KIND] == _STRUCT, _TABLE] += address
        return words.tobytes() + self.tail


def nodes_of(schema: pa.Schema, *, ignores: bool, passed: frozenset[str]) -> Nodes:
    """Return the nodes of a schema and of the passed fields. Raises ``UnsupportedTypeError``."""
    return _Layout(_IGNORES if ignores else 0).of(schema, passed)


@dataclass(slots=True)
class _Layout:
    """Builds the nodes level by level, so that those inside of one are neighbours."""

    flags: int
    words: list[list[int]] = field(default_factory=list)
    paths: list[tuple[str, ...]] = field(default_factory=list)
    tail: bytearray = field(default_factory=bytearray)

    def of(self, schema: pa.Schema, passed: frozenset[str]) -> Nodes:
        top: _Children = [(each.name, each.type, each.nullable) for each in schema]
        top += [(name, None, True) for name in sorted(passed - {*schema.names})]
        self._add((), [_STRUCT, 0, 0, 0], nullable=True)
        waiting: list[tuple[int, _Children]] = [(0, top)]
        for index, children in waiting:  # which grows meanwhile
            first = len(self.words)
            for name, kind, nullable in children:
                shape = [_SKIPPED, 0, 0, 0] if kind is None else _shape(kind)
                if kind is not None and (shape[0] == _STRUCT or _inside(kind)):
                    waiting.append((len(self.words), _inside(kind)))
                self._add((*self.paths[index], name), shape, nullable=nullable)
            self.words[index][_FIRST], self.words[index][_COUNT] = first, len(children)
            if self.words[index][_KIND] == _STRUCT:
                self._add_table(index, [name.encode() for name, _, _ in children])
        words = np.array(self.words, np.uint32)
        words[:, _NAME] += words.nbytes
        words[words[:, _KIND] == _STRUCT, _TABLE] += words.nbytes
        columns = tuple(_Column.of(words, 1 + at, each.type) for at, each in enumerate(schema))
        return Nodes(schema, words, bytes(self.tail), tuple(self.paths), columns)

    def _add(self, path: tuple[str, ...], shape: Sequence[int], *, nullable: bool) -> None:
        name = path[-1].encode() if path else b""
        if not _NO_PLAIN_NAME.isdisjoint(name):
            raise UnsupportedTypeError(path)
        node = [0] * _WORDS
        node[_KIND], node[_WIDTH], node[_TABLE], node[_MASK] = shape
        node[_FLAGS] = self.flags | (0 if nullable else _REQUIRED)
        node[_NAME], node[_NAME_SIZE] = len(self.tail), len(name)
        self.tail += name
        self.words.append(node)
        self.paths.append(path)

    def _add_table(self, index: int, names: Sequence[bytes]) -> None:
        """Add a struct's hash table, of positions from 1 on."""
        slots = [0] * (1 << (2 * len(names)).bit_length())
        for position, name in enumerate(names, 1):
            slot = 2166136261
            for byte in name:
                slot = (slot ^ byte) * 16777619 & 0xFFFFFFFF
            slot %= len(slots)
            while slots[slot]:
                slot = (slot + 1) % len(slots)
            slots[slot] = position
        self.tail += bytes(-len(self.tail) % 4)
        self.words[index][_TABLE], self.words[index][_MASK] = len(self.tail), len(slots) - 1
        self.tail += np.array(slots, np.uint32).tobytes()


def _shape(kind: pa.DataType) -> list[int]:
    """Return a node's kind, the bytes of its values, and for decimals precision and scale."""
    if pa.types.is_struct(kind):
        return [_STRUCT, 0, 0, 0]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_LIST, 4, 0, 0]
    if pa.types.is_map(kind) and kind.key_type in (pa.string(), pa.large_string()):
        return [_MAP, 4, 0, 0]
    if pa.types.is_decimal128(kind) and kind.scale >= 0:
        return [_DECIMAL, 16, kind.precision, kind.scale]
    if pa.types.is_fixed_size_binary(kind):
        return [_FIXED, kind.byte_width, 0, 0]
    for known, (number, width) in _SCALARS.items():
        if kind == known:
            return [number, width, 0, 0]
    raise UnsupportedTypeError(kind)


def _inside(kind: pa.DataType) -> _Children:
    if pa.types.is_struct(kind):
        return [(each.name, each.type, each.nullable) for each in kind]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [("element", kind.value_type, kind.value_field.nullable)]
    if pa.types.is_map(kind):
        return [("key", kind.key_type, False), ("value", kind.item_type, kind.item_field.nullable)]
    return []


@dataclass(frozen=True, slots=True)
class _Column:
    """How Arrow has a node: by ``kind``, or as ``extension`` around it."""

    node: int
    number: int
    kind: pa.DataType
    extension: pa.DataType | None
    item_bits: int
    is_large: bool
    inside: tuple[_Column, ...]

    @classmethod
    def of(cls, words: np.ndarray, node: int, kind: pa.DataType) -> _Column:
        """Return what a node becomes; asked once a schema, as types answer slowly."""
        inside, first = _inside(kind), int(words[node, _FIRST])
        extension = kind if isinstance(kind, pa.BaseExtensionType) else None
        return cls(
            node,
            int(words[node, _KIND]),
            kind.storage_type if extension else kind,
            extension,
            1 if pa.types.is_boolean(kind) else 8 * int(words[node, _WIDTH]),
            kind.id in _LARGE,
            tuple(cls.of(words, first + at, each) for at, (_, each, _) in enumerate(inside)),
        )


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that a call appended from the address ``start`` on, in Arrow's form, sharing ``memory``."""

    memory: pa.Buffer
    start: int
    nodes: list[list[int]]

    def table(self, nodes: Nodes) -> pa.Table:
        """Return the rows that were taken."""
        if not nodes.schema.names:  # it still knows how many rows it has
            return pa.table({"": pa.nulls(self.nodes[0][_ROWS])}).select([])
        return pa.Table.from_arrays([self._array(each) for each in nodes.columns], schema=nodes.schema)

    def _array(self, column: _Column) -> pa.Array:
        node, number, kind = self.nodes[column.node], column.number, column.kind
        rows, nulls = node[_ROWS], node[_NULLS]
        valid = self._at(node[_VALID], rows + 7 >> 3) if nulls else None
        inside = [self._array(each) for each in column.inside]
        if number == _STRUCT:
            return pa.Array.from_buffers(kind, rows, [valid], nulls, children=inside)
        if number in (_LIST, _MAP, _TEXT):
            ends = self._at(node[_DATA], 4 * (rows + 1))
            if column.is_large:
                ends = pa.py_buffer(np.frombuffer(ends, np.int32).astype(np.int64))
            text = [self._at(node[_BYTES], node[_BYTES_SIZE])] if number == _TEXT else []
            if number == _MAP:
                pairs = pa.struct([kind.key_field, kind.item_field])
                inside = [pa.Array.from_buffers(pairs, len(inside[0]), [None], 0, children=inside)]
            return pa.Array.from_buffers(kind, rows, [valid, ends, *text], nulls, children=inside)
        data = self._at(node[_DATA], rows * column.item_bits + 7 >> 3)
        values = pa.Array.from_buffers(kind, rows, [valid, data], nulls)
        return pa.ExtensionArray.from_storage(column.extension, values) if column.extension else values

    def _at(self, address: int, size: int) -> pa.Buffer:
        return self.memory.slice(address - self.start, size)


_LARGE = {pa.large_string().id, pa.large_binary().id, pa.large_list(pa.null()).id}

"""Maps each field of a schema to a column of a table, and finds the columns that it lacks.

A field is known by its identity (``WriterColumns``), not by its name: one that was renamed goes on in its
column. A column takes what it holds without loss, and is widened where Iceberg can; anything else gets one of
its own, ``name_2``. What was once decided is kept in the table, by identity and kind of type, and only
added to, so that every run, replay and audit decides alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, count, islice
from typing import TYPE_CHECKING

from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from spark_jobs.config.columns import Incompatible
from spark_jobs.protocol.progress import ColumnMap
from spark_jobs.protocol.work import Layout, layout_named
from spark_jobs.schema.evolution import Binding, Evolution, Path, holds, innermost, may_hold, widened
from spark_jobs.schema.iceberg_types import METADATA_COLUMNS, incompatible, type_text
from spark_jobs.schema.inference import Field, Primitive, by_lower_case, name_clash
from spark_jobs.schema.writer_schema import Forms, Names, WriterColumns

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

_MOST_TRIES = 1000


@dataclass(frozen=True, slots=True)
class Rules:
    """A table's rules for new fields: maximum columns, and ``declared`` ones, whose types stay.

    No field goes into a ``computed`` column. One that ``converts`` its input takes fields of any type. The
    columns of a table of events have their source's types, and only a rebuild changes one. With
    ``takes_all_but`` every other column also accepts the field's values of other types. ``forms`` are how
    times are read for columns of another type. The types of ``retyped`` columns were changed by an operator.
    """

    max_columns: int
    incompatible: Incompatible = Incompatible.NEW_COLUMN
    declared: frozenset[str] = frozenset()
    computed: frozenset[str] = frozenset()
    converts: frozenset[str] = frozenset()
    layout: Layout = field(default_factory=partial(layout_named, "flat"))
    takes_all_but: frozenset[str] | None = None
    forms: Forms = ()
    retyped: frozenset[str] = frozenset()


def place(
    schemas: Sequence[WriterColumns], table: Schema, bound: ColumnMap, rules: Rules
) -> tuple[Evolution, list[Names]]:
    """Return what the table lacks for schemas, in order, and each one's names in the table.

    Raises ``ConfigError`` (``schema-incompatible``) where the rules say stop.
    """
    placing = _Placing(table, bound, rules)
    names = [placing.place(columns) for columns in schemas]
    return placing.evolution(), names


def unlike(columns: WriterColumns, table: Schema, bound: ColumnMap, rules: Rules) -> dict[str, IcebergType]:
    """Return a schema's type by column, where the column does not hold that type.

    Declared columns keep theirs.
    """
    placing = _Placing(table, bound, replace(rules, takes_all_but=frozenset()))
    names = placing.place(columns)
    written = {each.name: each.field_type for each in columns.struct.fields}
    others = placing.unlike - rules.declared
    return {column: written[name] for name, column, _ in names if column in others}


@dataclass(slots=True)
class _Node:
    """A column or field; ``inside`` are the fields of its struct, or of its list's or map's struct."""

    name: str
    path: Path
    kind: IcebergType
    doc: str | None
    age: int  # the id; above all of them for one that is new
    is_new: bool
    inside: dict[str, _Node]

    @property
    def is_struct(self) -> bool:
        """True if it can have nested fields."""
        return isinstance(innermost(self.kind, ())[0], StructType)

    @property
    def inner_path(self) -> Path:
        """Return the path of its struct."""
        return innermost(self.kind, self.path)[1]


def _nodes(struct: StructType, path: Path, new: Iterator[int] | None = None) -> dict[str, _Node]:
    return {each.name: _node(each, (*path, each.name), new) for each in struct.fields}


def _node(of: NestedField, path: Path, new: Iterator[int] | None) -> _Node:
    age = of.field_id if new is None else next(new)
    inner, inner_path = innermost(of.field_type, path)
    inside = _nodes(inner, inner_path, new) if isinstance(inner, StructType) else {}
    return _Node(path[-1], path, of.field_type, of.doc, age, new is not None, inside)


def _every(nodes: Mapping[str, _Node]) -> Iterator[_Node]:
    for node in nodes.values():
        yield node
        yield from _every(node.inside)


_kind_text = partial(type_text, with_fields=False)  # fields of structs are decided one by one


class _Placing:
    """A table's future schema; schemas are placed in it one by one."""

    def __init__(self, table: Schema, bound: ColumnMap, rules: Rules) -> None:
        own = StructType(*(each for each in table.fields if each.name not in METADATA_COLUMNS))
        self._rules = rules
        self._top = _nodes(own, ())
        self._at = {node.path: node for node in _every(self._top)}
        self._room = rules.max_columns - len(self._at)
        paths = {node.age: path for path, node in self._at.items()}
        self._bound = {
            identity: {kind: [paths[each] for each in ids if each in paths] for kind, ids in kinds.items()}
            for identity, kinds in bound.items()
        }
        self._owners: dict[Path, set[str]] = {}
        for identity, kinds in self._bound.items():
            for path in chain.from_iterable(kinds.values()):
                self._owners.setdefault(path, set()).add(_message(identity))
        self._taken_names: dict[Path, dict[str, str]] = {}
        self._new = Evolution()
        self._new_ages = count(table.highest_field_id + 1)
        self._additions: list[tuple[Path, IcebergType, str | None]] = []
        self._bindings: list[Binding] = []
        self.unlike: set[str] = set()  # top-level columns that a field went into in a type that they lack

    def evolution(self) -> Evolution:
        """Return the changes that the table needs so far."""
        is_said = {path for path, doc in self._new.docs.items() if self._at[path].doc == doc}
        docs = {path: doc for path, doc in self._new.docs.items() if path not in is_said}
        return replace(self._new, additions=tuple(self._additions), docs=docs, bindings=tuple(self._bindings))

    def place(self, columns: WriterColumns) -> Names:
        """Return the names of a schema's fields in the table."""
        here = set(columns.identities.values())
        aliases = {
            each: tuple(path for path in paths if path not in here) for each, paths in columns.aliases.items()
        }
        return self._level(columns.struct, self._top, (), columns.identities, aliases)

    def _level(
        self,
        written: StructType,
        nodes: dict[str, _Node],
        path: Path,
        identities: Mapping[int, str],
        aliases: Mapping[int, tuple[str, ...]],
    ) -> Names:
        names: list[tuple[str, str, Names]] = []
        taken: set[Path] = set()
        for each in written.fields:
            known_by = (identities[each.field_id], *aliases.get(each.field_id, ()))
            node = self._find_column(each, nodes, known_by, taken) or self._added(
                each, nodes, path, identities
            )
            if node is None:  # no room for it: a name that nothing has
                names.append((each.name, self._free_name(each.name, nodes, path) or each.name, ()))
                continue
            taken.add(node.path)
            self._tell_of_name(each, node)
            inner, _ = innermost(each.field_type, ())
            inside: Names = ()
            if isinstance(inner, StructType) and node.is_struct:
                inside = self._level(inner, node.inside, node.inner_path, identities, aliases)
            names.append((each.name, node.name, inside))
        return tuple(names)

    def _find_column(
        self,
        written: NestedField,
        nodes: Mapping[str, _Node],
        known_by: Sequence[str],
        taken: Collection[Path],
    ) -> _Node | None:
        """Return the field's column, or None if there is none."""
        identity, kind = known_by[0], _kind_text(written.field_type)

        def free(paths: Iterable[Path]) -> list[_Node]:
            open_to_all = (path for path in paths if path[0] not in self._rules.computed)
            there = (self._at[path] for path in open_to_all if path not in taken)
            return [node for node in there if nodes.get(node.name) is node]

        if decided := free(self._bound.get(identity, {}).get(kind, ())):
            return decided[0]
        candidates = self._candidates(known_by, nodes.get(written.name), free)
        for node in candidates:
            changes = self._fit(node.kind, written.field_type, node.path)
            if changes is not None:
                self._new.widenings.update(changes)
                self._bind(identity, kind, node.path)
                return node
        if not candidates:
            return None
        nearest, kept = candidates[0], self._rules.takes_all_but
        if kept is not None and nearest.path[0] not in kept:
            self.unlike.add(nearest.path[0])
            return nearest
        if kept is not None or self._rules.incompatible is Incompatible.STOP:
            is_declared = nearest.path[0] in self._rules.declared
            raise incompatible(
                written,
                nearest.path,
                nearest.kind,
                self._rules.layout,
                is_declared=is_declared,
                is_of_key=kept is not None,
            )
        return None if self._rules.incompatible is Incompatible.NEW_COLUMN else nearest

    def _candidates(
        self, known_by: Sequence[str], named: _Node | None, free: Callable[[Iterable[Path]], list[_Node]]
    ) -> list[_Node]:
        """Return the field's columns, else those of its aliases, else the one of its name.

        That one is nobody's, or other messages' fields have it.
        """
        for identity in known_by:
            if found := free({path for paths in self._bound.get(identity, {}).values() for path in paths}):
                return sorted(found, key=lambda node: node.age)
        if named is None:
            return []
        owners, message = self._owners.get(named.path, set()), _message(known_by[0])
        may_share = not owners or (message != "" and owners.isdisjoint({"", message}))
        return free([named.path]) if may_share else []

    def _fit(self, column: IcebergType, written: IcebergType, path: Path) -> dict[Path, IcebergType] | None:
        """Return the widenings that let the column hold all values, or None if that is impossible."""
        is_struct = isinstance(column, StructType) and isinstance(written, StructType)
        if is_struct or path[0] in self._rules.converts:
            return {}
        if isinstance(column, ListType) and isinstance(written, ListType):
            return self._fit(column.element_type, written.element_type, (*path, "element"))
        if isinstance(column, MapType) and isinstance(written, MapType):
            if not holds(column.key_type, written.key_type):
                return None
            return self._fit(column.value_type, written.value_type, (*path, "value"))
        if not column.is_primitive or not written.is_primitive:
            return None
        return self._fit_primitive(self._new.widenings.get(path, column), written, path)

    def _fit_primitive(
        self, column: IcebergType, written: IcebergType, path: Path
    ) -> dict[Path, IcebergType] | None:
        """Do the same for a primitive; a declared type stays and takes the values it can hold."""
        if path[0] in self._rules.declared:
            return {} if may_hold(column, written) else None
        if holds(column, written):
            return {}
        wider = widened(column, written)
        return None if wider is None else {path: wider}

    def _added(
        self, written: NestedField, nodes: dict[str, _Node], path: Path, identities: Mapping[int, str]
    ) -> _Node | None:
        """Return a new column for the field, or None without room or a free name."""
        name = self._free_name(written.name, nodes, path)
        if name is None:
            return None
        node = _node(written, (*path, name), self._new_ages)
        new = {each.path: each for each in (node, *_every(node.inside))}
        if len(new) > self._room:
            return None
        self._room -= len(new)
        self._at |= new
        nodes[name] = node
        self._taken_names[path] |= by_lower_case([Field(name, Primitive.STRING)])
        self._additions.append((node.path, written.field_type, written.doc))
        self._bind_all(written, node, identities)
        return node

    def _free_name(self, name: str, nodes: Mapping[str, _Node], path: Path) -> str | None:
        """Return the name, or the first with a number appended, that is free among these."""
        if path not in self._taken_names:
            self._taken_names[path] = by_lower_case(Field(each, Primitive.STRING) for each in nodes)
        siblings = self._taken_names[path]
        tries = chain((name,), (f"{name}_{number}" for number in islice(count(2), _MOST_TRIES)))
        clash = partial(name_clash, siblings=siblings, is_top=not path)
        return next((each for each in tries if each not in nodes and clash(each) is None), None)

    def _bind_all(self, written: NestedField, node: _Node, identities: Mapping[int, str]) -> None:
        self._bind(identities[written.field_id], _kind_text(written.field_type), node.path)
        inner, _ = innermost(written.field_type, ())
        if isinstance(inner, StructType):
            for each in inner.fields:
                self._bind_all(each, node.inside[each.name], identities)

    def _bind(self, identity: str, kind: str, path: Path) -> None:
        """Add the column to the field's columns; earlier ones stay, with earlier schemas' decisions."""
        self._bound.setdefault(identity, {}).setdefault(kind, []).append(path)
        self._bindings.append((identity, kind, path))
        self._owners.setdefault(path, set()).add(_message(identity))

    def _tell_of_name(self, written: NestedField, node: _Node) -> None:
        """Document the field's current name in the column's text; the newest schema is last."""
        if node.is_new or node.name.startswith(f"{written.name}_"):
            return
        if node.name != written.name:
            self._new.docs[node.path] = written.name + (f": {written.doc}" if written.doc else "")
        else:
            self._new.docs.pop(node.path, None)


def _message(identity: str) -> str:
    """Return the message that the field belongs to; empty if schemas identify fields by name."""
    return identity.rpartition(":")[0]

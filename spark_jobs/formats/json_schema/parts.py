"""Schemas that apply to one value, combined: ``allOf``, a ``$ref``, a choice of one.

What is no type, no property and no item (``minimum``, ``pattern``, ``required``) is the producers' to keep.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from spark_jobs.formats.json_schema.documents import Documents, unreadable
from spark_jobs.protocol.errors import fault

# Parts may be reached by more ways than anybody has time for.
_MOST_STEPS = 300_000
_NAMES = frozenset({"object", "array", "string", "boolean", "null", "integer", "number"})
_SCALARS = frozenset({"string", "boolean", "integer", "number"})
_ALIKE = (("string",), ("boolean",), ("integer", "number"))
_REFERENCES = ("$ref", "$recursiveRef", "$dynamicRef")
_DEFINITIONS = ("definitions", "$defs")
_SAYING = (
    "type",
    "enum",
    "const",
    "properties",
    "additionalProperties",
    "patternProperties",
    "items",
    "prefixItems",
)
_NULL: dict[str, Any] = {"type": "null"}
_TYPE_NAMES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (dict, "object"),
    (list, "array"),
)


@dataclass(frozen=True, slots=True)
class Node:
    """Combined schemas; one of ``choices`` applies in addition; with ``is_never`` no value is valid."""

    parts: tuple[dict[str, Any], ...]
    choices: tuple[tuple[Any, ...], ...] = ()
    is_never: bool = False

    @property
    def key(self) -> frozenset[int]:
        """Return the node's identity, independent of the path that leads to it."""
        return frozenset(id(part) for part in self.parts if any(key in part for key in _SAYING))

    @property
    def doc(self) -> str | None:
        """Return the nearest description, or else the nearest title."""
        texts = (part.get(key) for key in ("description", "title") for part in self.parts)
        return next((text for text in texts if isinstance(text, str) and text), None)

    def keyword(self, keyword: str) -> list[Any]:
        """Return the parts' values of a keyword."""
        return [part[keyword] for part in self.parts if keyword in part]

    def properties(self) -> dict[str, list[Any]]:
        """Return, for each named property, the schemas that apply to it."""
        named: dict[str, list[Any]] = {}
        for properties in self.keyword("properties"):
            if not isinstance(properties, dict):
                raise unreadable("properties that are not an object")
            for name, schema in properties.items():
                named.setdefault(name, []).append(schema)
        return named


class Parts:
    """Combines schemas, with a limit on the number of steps."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._steps = 0

    def node(self, schemas: Sequence[Any]) -> Node:
        """Return the combination of schemas that apply to one value; raises ``ConfigError``."""
        parts: dict[int, dict[str, Any]] = {}
        choices: list[tuple[Any, ...]] = []
        waiting = deque(schemas)
        while waiting:
            schema = waiting.popleft()
            if schema is False:
                return Node((), is_never=True)
            if schema is True or id(schema) in parts:
                self._count(1)
                continue
            if not isinstance(schema, dict):
                raise unreadable(f"{_shown(schema)} where a schema should be")
            self._count(
                1
                + sum(
                    len(v) for k, v in schema.items() if k not in _DEFINITIONS and isinstance(v, dict | list)
                )
            )
            parts[id(schema)] = schema
            inner = [self._documents.target(schema, schema[key]) for key in _REFERENCES if key in schema]
            inner += _list(schema, "allOf")
            for branches in _branches(schema):
                if len(branches) == 1:
                    inner += branches
                else:
                    choices.append(branches)
            waiting.extendleft(reversed(inner))
        return Node(tuple(parts.values()), tuple(choices))

    def names(self, node: Node) -> frozenset[str]:
        """Return the types of non-null values: one if a column can have it, or several.

        A number may be an integer.
        """
        names = _own_names(node)
        for branches in node.choices:
            inner = [each for each in (self.node([branch]) for branch in branches) if not each.is_never]
            if any(each.choices or _own_names(each) is not None for each in inner):
                names = _chosen(node, names, inner)
        names = (_NAMES if names is None else names) - {"null"}
        return names - {"integer"} if "number" in names else names

    def _count(self, steps: int) -> None:
        self._steps += steps
        if self._steps > _MOST_STEPS:
            raise fault("schema-unsupported.parts", most=_MOST_STEPS)


def _own_names(node: Node) -> frozenset[str] | None:
    """Return the types that all parts allow, including null; None if no part restricts them."""
    restrictions = [names for names in map(_names_of, node.parts) if names is not None]
    if restrictions:
        return frozenset.intersection(*restrictions)
    if node.keyword("properties") or any(
        isinstance(each, dict) for each in node.keyword("additionalProperties")
    ):
        return frozenset({"object"})
    return frozenset({"array"}) if node.keyword("items") or node.keyword("prefixItems") else None


def _names_of(part: dict[str, Any]) -> frozenset[str] | None:
    if "type" in part:
        names = part["type"] if isinstance(part["type"], list) else [part["type"]]
        if not all(isinstance(name, str) and name in _NAMES for name in names):
            raise unreadable(f"{_shown(part['type'])} is not a type")
    elif "enum" in part or "const" in part:
        items = _list(part, "enum") if "enum" in part else [part["const"]]
        names = [_type_name(item) for item in items]
    else:
        return None
    return frozenset(names) | ({"integer"} if "number" in names else frozenset())


def _shown(value: Any) -> str:
    """Return a text, or a description of any other value: deep nesting cannot be shown."""
    return value[:100] if isinstance(value, str) else f"a value of {type(value).__name__}"


def _type_name(item: Any) -> str:
    return next((name for kind, name in _TYPE_NAMES if isinstance(item, kind)), "null")


def _chosen(node: Node, names: frozenset[str] | None, inner: Sequence[Node]) -> frozenset[str]:
    """Return the types left if one of these also applies; several if they lead to different columns."""
    if names is None:
        own = [None if each.choices else _own_names(each) for each in inner]
        every = frozenset[str]().union(*(each or _NAMES for each in own))
        return every if any(every <= {"null", *alike} for alike in _ALIKE) else _NAMES
    if any(each.choices for each in inner):
        return names if names & _SCALARS else _NAMES
    named = node.properties().keys()
    has_more = any(
        each.keyword("items") or each.keyword("prefixItems") or not each.properties().keys() <= named
        for each in inner
    )
    return _NAMES if has_more and not names & _SCALARS else names


def _branches(schema: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield a schema's choices without null, which every column allows."""
    for key in ("oneOf", "anyOf"):
        if branches := _list(schema, key):
            yield tuple(branch for branch in branches if not _is_null(branch)) or (_NULL,)
    dependent = (schema.get(key) for key in ("dependentSchemas", "dependencies"))
    conditional = [schema[key] for key in ("then", "else") if key in schema]
    conditional += [each for some in dependent if isinstance(some, dict) for each in some.values()]
    if schemas := [each for each in conditional if isinstance(each, dict)]:
        yield True, *schemas


def _is_null(schema: Any) -> bool:
    if not isinstance(schema, dict) or {"$ref", "allOf"} & schema.keys():
        return False
    names = _names_of(schema)
    return names is not None and names <= {"null"}


def _list(schema: dict[str, Any], keyword: str) -> list[Any]:
    value = schema.get(keyword, [])
    if not isinstance(value, list) or (keyword in schema and not value):
        raise unreadable(f"{keyword} that is not a list of something")
    return value

"""The texts of a schema and of all that it refers to, and the targets of its references."""

from __future__ import annotations

import json
from functools import partial
from typing import Any
from urllib.parse import unquote, urljoin

from spark_jobs.formats import tree
from spark_jobs.schema.writer_schema import SchemaText

_OLD = ("draft-03", "draft-04")  # whose ``$id`` is ``id``
_ANCHORS = ("$anchor", "$dynamicAnchor")


unreadable = partial(tree.unreadable, "JSON Schema")


class Documents:
    """Finds schemas by URI: ``$id``, or the name of a reference, absolute or relative to the schema.

    Objects are known by their identity; all of them live as long as this does.
    """

    def __init__(self, source: SchemaText) -> None:
        self.root = _parsed(source.text)
        self._bases: dict[int, str] = {}
        self._by_uri: dict[str, Any] = {}
        self._anchors: dict[tuple[str, str], Any] = {}
        self._targets: dict[tuple[int, str], Any] = {}
        self._add(self.root, "")
        ours = self._bases.get(id(self.root), "")
        for name, text in source.references:
            document, url = _parsed(text, reference=name), name.partition("#")[0]
            self._by_uri[url] = document
            self._add(document, _joined(ours, url))

    def target(self, schema: dict[str, Any], reference: object) -> Any:
        """Return the target of a ``$ref`` in this schema; raises ``ConfigError``."""
        if not isinstance(reference, str):
            raise unreadable("a $ref that is not a text")
        if (id(schema), reference) not in self._targets:
            self._targets[id(schema), reference] = self._resolve(self._bases[id(schema)], reference)
        return self._targets[id(schema), reference]

    def _resolve(self, base: str, reference: str) -> Any:
        url, _, fragment = reference.partition("#")
        uri, fragment = _joined(base, url) if url else base, unquote(fragment)
        found = self._by_uri.get(uri, self._by_uri.get(url) if url else None)
        if fragment and not fragment.startswith("/"):
            found = self._anchors.get((uri, fragment))
        else:
            for step in fragment.split("/")[1:]:
                found = _step(found, step.replace("~1", "/").replace("~0", "~"))
        if not isinstance(found, dict | bool):
            raise unreadable(f"a $ref points to nothing: {reference[:200]}")
        return found

    def _add(self, document: Any, base: str) -> None:
        """Register a text, and its nested schemas under their own URIs and anchors."""
        self._by_uri[base] = document
        dialect = str(document.get("$schema", "")) if isinstance(document, dict) else ""
        id_key = "id" if any(old in dialect for old in _OLD) else "$id"
        waiting = [(document, base)]
        while waiting:
            inner, around = waiting.pop()
            if isinstance(inner, dict):
                around = self._enter(inner, around, inner.get(id_key))
            if isinstance(inner, dict | list):
                inside = inner.values() if isinstance(inner, dict) else inner
                waiting.extend((each, around) for each in inside)

    def _enter(self, schema: dict[str, Any], base: str, own: object) -> str:
        if isinstance(own, str):
            url, _, anchor = own.partition("#")
            if url:
                base = _joined(base, url)
                self._by_uri[base] = schema
            if anchor:
                self._anchors[base, anchor] = schema
        for name in (schema.get(key) for key in _ANCHORS):
            if isinstance(name, str):
                self._anchors[base, name] = schema
        self._bases[id(schema)] = base
        return base


def _parsed(text: str, **where: object) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise unreadable(error, **where) from error


def _joined(base: str, url: str) -> str:
    try:
        return urljoin(base, url)
    except ValueError:
        return url


def _step(inside: Any, step: str) -> Any:
    if isinstance(inside, list):
        is_index = step.isdecimal() and len(step) <= len(str(len(inside))) and int(step) < len(inside)
        return inside[int(step)] if is_index else None
    return inside.get(step) if isinstance(inside, dict) else None

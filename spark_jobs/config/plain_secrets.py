"""Secrets that are written out in a configuration file, where whoever reads the file has them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spark_jobs.config.contradictions import LISTENERS
from spark_jobs.config.problems import ConfigProblem, Document, Finding, Path
from spark_jobs.config.redaction import is_plain_secret

# Where keys are properties of Kafka, a catalog, the log or Spark. Elsewhere only addresses carry passwords.
_PROPERTIES = (("kafka",), ("catalog",), ("state",), ("spark", "conf"))
_SESSION_SECRET = ("spark", "session_secret")
_TOKENS = tuple((listener, "tokens") for listener in LISTENERS)


def plain_secrets(document: Document) -> Iterator[ConfigProblem]:
    """Give a note for each, with its line; none quotes a value."""
    for path, value in _texts(document.content, ()):
        if is_plain_secret(_property_of(path), value):
            hint = "Write ${NAME} or ${file:/absolute/path}, and change the secret if the file was shared."
            yield document.locate(Finding(path, "holds a secret in plain text", hint))


def _property_of(path: Path) -> str:
    if path[0] == "registries":
        return ".".join(path[2:]) if "auth" in path[2:] else ""
    if path[:2] in _TOKENS:
        return "token"
    is_property = path[:-1] in _PROPERTIES or path == _SESSION_SECRET or path[-2:] == ("notify", "secret")
    return path[-1] if is_property else ""


def _texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from _texts(item, (*path, str(key)))

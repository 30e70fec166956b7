"""A schema with all that it refers to, at any depth, from any registry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.schema.writer_schema import Language, SchemaText

# Of one schema, at any depth.
MAX_REFERENCES = 200


@dataclass(frozen=True, slots=True)
class Reference:
    """A version of a subject, and the name by which a schema refers to it."""

    name: str
    subject: str
    version: int | str


@dataclass(frozen=True, slots=True)
class Found:
    """One answer of a registry: a schema, and what it refers to by itself."""

    language: Language
    text: str
    references: tuple[Reference, ...] = ()


def language_of(registry: str, kind: str, asked: str) -> Language:
    """Return the language; raises ``ConfigError`` (``registry-language``) for one that is not read."""
    try:
        return Language(kind)
    except ValueError:
        raise fault("registry-language", name=registry, type=kind, asked=asked) from None


def whole(registry: str, found: Found, ask: Callable[[Reference], Found]) -> SchemaText:
    """Return the schema with its references, each after its own and requested once by ``ask``.

    Raises ``ConfigError`` (``registry-references``), and what asking raises.
    """
    texts: dict[str, str] = {}
    for name, text in _references(registry, found, ask, (), {}):
        if texts.setdefault(name, text) != text:
            raise _tangled(registry, f"refers to two different schemas as {name}")
    return SchemaText(found.language, found.text, tuple(texts.items()))


def _references(
    registry: str,
    found: Found,
    ask: Callable[[Reference], Found],
    around: tuple[Reference, ...],
    seen: dict[Reference, str],
) -> Iterator[tuple[str, str]]:
    for reference in found.references:
        if (reference.subject, reference.version) in {(each.subject, each.version) for each in around}:
            raise _tangled(registry, f"refers to itself by {reference.name}")
        if reference in seen:
            continue
        if len(seen) == MAX_REFERENCES:
            raise _tangled(registry, f"refers to more than {MAX_REFERENCES} others")
        referred = ask(reference)
        seen[reference] = referred.text
        yield from _references(registry, referred, ask, (*around, reference), seen)
        yield reference.name, referred.text


def _tangled(registry: str, what: str) -> SluiceError:
    return fault("registry-references", name=registry, what=what)

"""Client of a schema registry with Confluent's API: four GET requests.

Only drivers ask; tasks get schemas with their work. What is answered is believed in the documented form
alone: a 404 of a wrong address must not turn records into dead letters, nor a login page become a schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.offsets import SchemaId
from spark_jobs.protocol.texts import JsonCodec
from spark_jobs.registry.http_get import HttpGet, RegistryAccess, garbage
from spark_jobs.schema.writer_schema import Language, SchemaText

# Of one schema, at any depth.
MAX_REFERENCES = 200


@dataclass(frozen=True, slots=True)
class _Reference:
    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class _Answer:
    """Schema fields common to all three endpoints; ``id`` only for a subject's version."""

    schema: str
    schemaType: str | None = None  # noqa: N815  (the registry's word)
    references: tuple[_Reference, ...] | None = None
    id: int | None = None


_ANSWER = JsonCodec(_Answer)


class RegistryClient:
    """Client of one registry, without a cache."""

    def __init__(self, access: RegistryAccess) -> None:
        self._http = HttpGet(access)
        self._name = access.name
        self._answers = f"{access.url} answers requests {access.user}"

    def try_out(self) -> str:
        """Send a harmless request and return server and user as text. Raises like ``schema``."""
        self._http.get("subjects?limit=1")
        return self._answers

    def schema(self, schema_id: SchemaId) -> SchemaText | None:
        """Return the schema of an id with its references; None if the registry has none.

        Raises ``RetryableError`` (``registry-away``) and ``ConfigError`` (``registry-refused``,
        ``registry-moved``, ``registry-no-api``, ``registry-tls``, ``registry-references``, ...).
        """
        kind = "ids" if isinstance(schema_id.value, int) else "guids"
        answer = self._ask(f"schemas/{kind}/{schema_id}")
        return None if answer is None else self._whole(answer)

    def version(self, subject: str, version: int | None) -> tuple[SchemaId, SchemaText]:
        """Return a subject's schema of that version (None: latest) and its id.

        Raises as ``schema`` does, and ``ConfigError`` (``registry-no-version``) when there is none.
        """
        answer = self._version(subject, "latest" if version is None else version)
        if answer.id is None:
            raise garbage(self._name, "a version without an id")
        return SchemaId(answer.id), self._whole(answer)

    def _version(self, subject: str, version: int | str) -> _Answer:
        answer = self._ask(f"subjects/{quote(subject, safe='')}/versions/{version}")
        if answer is None:
            raise fault("registry-no-version", name=self._name, version=version, subject=subject)
        return answer

    def _ask(self, path: str) -> _Answer | None:
        text = self._http.get(path)
        if text is None:
            return None
        try:
            answer = _ANSWER.from_json(text)
        except ValueError as error:
            raise garbage(self._name, f"something that is not a schema ({error})") from error
        if answer.schemaType not in {None, *Language}:
            raise fault("registry-language", name=self._name, type=answer.schemaType, asked=path)
        return answer

    def _whole(self, answer: _Answer) -> SchemaText:
        found: dict[str, str] = {}
        for name, text in self._references(answer, (), {}):
            if found.setdefault(name, text) != text:
                raise self._tangled(f"refers to two different schemas as {name}")
        # One that says no language is Avro, older than the others.
        return SchemaText(Language(answer.schemaType or Language.AVRO), answer.schema, tuple(found.items()))

    def _references(
        self, answer: _Answer, around: tuple[_Reference, ...], seen: dict[_Reference, str]
    ) -> Iterator[tuple[str, str]]:
        """Yield names and texts of references, each after its own references, each requested once."""
        for reference in answer.references or ():
            if (reference.subject, reference.version) in {(each.subject, each.version) for each in around}:
                raise self._tangled(f"refers to itself by {reference.name}")
            if reference in seen:
                continue
            if len(seen) == MAX_REFERENCES:
                raise self._tangled(f"refers to more than {MAX_REFERENCES} others")
            referred = self._version(reference.subject, reference.version)
            seen[reference] = referred.schema
            yield from self._references(referred, (*around, reference), seen)
            yield reference.name, referred.schema

    def _tangled(self, what: str) -> SluiceError:
        return fault("registry-references", name=self._name, what=what)

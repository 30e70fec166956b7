"""Client of a schema registry with Confluent's API: four GET requests.

Only drivers ask; tasks get schemas with their work. What is answered is believed in the documented form
alone: a 404 of a wrong address must not turn records into dead letters, nor a login page become a schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.offsets import SchemaId
from spark_jobs.protocol.texts import JsonCodec
from spark_jobs.registry.http_get import HttpGet, RegistryAccess, garbage
from spark_jobs.registry.references import Found, Reference, language_of, whole
from spark_jobs.schema.writer_schema import Language, SchemaText

# Words for a schema, a subject or a version that is not there begin like this.
_NOT_THERE = 404


@dataclass(frozen=True, slots=True)
class _Answer:
    """Schema fields common to all three endpoints; ``id`` only for a subject's version."""

    schema: str
    schemaType: str | None = None  # noqa: N815  (the registry's word)
    references: tuple[Reference, ...] | None = None
    id: int | None = None


@dataclass(frozen=True, slots=True)
class _Error:
    error_code: int


_ANSWER, _ERROR = JsonCodec(_Answer), JsonCodec(_Error)


class RegistryClient:
    """Client of one registry, without a cache."""

    def __init__(self, access: RegistryAccess) -> None:
        self._http = HttpGet(access, _is_documented)
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
        path = f"schemas/{kind}/{schema_id}"
        answer = self._ask(path)
        return None if answer is None else whole(self._name, self._found(answer, path), self._referred)

    def version(self, subject: str, version: int | None) -> tuple[SchemaId, SchemaText]:
        """Return a subject's schema of that version (None: latest) and its id.

        Raises as ``schema`` does, and ``ConfigError`` (``registry-no-version``) when there is none.
        """
        answer, path = self._version(subject, "latest" if version is None else version)
        if answer.id is None:
            raise garbage(self._name, "a version without an id")
        return SchemaId(answer.id), whole(self._name, self._found(answer, path), self._referred)

    def _referred(self, reference: Reference) -> Found:
        return self._found(*self._version(reference.subject, reference.version))

    def _version(self, subject: str, version: int | str) -> tuple[_Answer, str]:
        path = f"subjects/{quote(subject, safe='')}/versions/{version}"
        answer = self._ask(path)
        if answer is None:
            raise fault("registry-no-version", name=self._name, version=version, subject=subject)
        return answer, path

    def _ask(self, path: str) -> _Answer | None:
        text = self._http.get(path)
        if text is None:
            return None
        try:
            return _ANSWER.from_json(text)
        except ValueError as error:
            raise garbage(self._name, f"something that is not a schema ({error})") from error

    def _found(self, answer: _Answer, path: str) -> Found:
        # One that says no language is Avro, older than the others.
        language = language_of(self._name, answer.schemaType or Language.AVRO, path)
        return Found(language, answer.schema, answer.references or ())


def _is_documented(text: str) -> bool:
    try:
        code = _ERROR.from_json(text).error_code
    except ValueError:
        return False
    return code == _NOT_THERE or code // 100 == _NOT_THERE

"""Store of a registry's schemas: kept under ``state:``, never changed, always verified.

``schemas/<registry>/<id>-<digest>.json``. What is kept is never asked for again, so that work with known ids
goes on while the registry is away, and after it is gone. ``versions/<registry>/`` has which schema a numbered
version of a subject is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.offsets import SchemaId
from spark_jobs.protocol.texts import JsonCodec
from spark_jobs.schema.writer_schema import SchemaText
from spark_jobs.storage.create_only import CreateOnlyStore

FOLDER, VERSIONS = "schemas", "versions"


@dataclass(frozen=True, slots=True)
class _Version:
    subject: str
    version: int
    schema_id: SchemaId
    digest: str


_SCHEMA, _VERSION = JsonCodec(SchemaText), JsonCodec(_Version)


class Registry(Protocol):
    """Interface of ``RegistryClient``."""

    def try_out(self) -> str:
        """Send a harmless request; return server and user as text."""

    def schema(self, schema_id: SchemaId) -> SchemaText | None:
        """Return the schema of an id, or None."""

    def version(self, subject: str, version: int | None) -> tuple[SchemaId, SchemaText]:
        """Return a subject's schema of that version (None: latest) and its id."""


class SchemaStore:
    """Schemas of the registry ``name``; each is read once per process and requested once overall."""

    def __init__(self, name: str, store: CreateOnlyStore, registry: Registry) -> None:
        self._name = name
        self._store = store
        self._registry = registry
        self._read: dict[tuple[SchemaId, str], SchemaText] = {}

    def schemas_of(
        self, ids: Iterable[SchemaId], expected: Mapping[SchemaId, str] | None = None
    ) -> dict[SchemaId, SchemaText]:
        """Return the schemas of these ids, without those that the registry does not have.

        ``expected`` are digests that are known from elsewhere: with one, a schema that is not kept any more
        is taken from the registry only if it is the same. Raises ``ConfigError`` (``registry-changed``,
        ``schema-lost``), ``CorruptLog`` (``schema-damaged``), and what asking raises.
        """
        wanted, known = sorted(set(ids)), expected or {}
        kept = self._digests() if set(wanted) - known.keys() else {}
        found = {}
        for each in wanted:
            digest = known.get(each) or self._one_of(each, kept)
            found[each] = self._schema_of(each, digest, is_expected=each in known)
        return {schema_id: schema for schema_id, schema in found.items() if schema is not None}

    def version(
        self, subject: str, version: int | None, expected: Mapping[SchemaId, str] | None = None
    ) -> tuple[SchemaId, SchemaText]:
        """Return a subject's schema of that version; None requests the latest.

        Raises as ``schemas_of``, and ``ConfigError`` (``registry-no-version``).
        """
        if version is not None and (kept_as := self._stored_version(subject, version)) is not None:
            schema_id = kept_as.schema_id
            return schema_id, self.schemas_of([schema_id], {schema_id: kept_as.digest})[schema_id]
        schema_id, schema = self._registry.version(subject, version)
        kept = (expected or {}).get(schema_id) or self._one_of(schema_id, self._digests())
        if kept is not None:
            self._refuse_other(schema_id, schema, kept)
        self._keep(schema_id, schema)
        if version is not None:
            numbered = _Version(subject, version, schema_id, schema.digest)
            self._store.create(self._version_path(subject, version), _VERSION.to_json(numbered))
        return schema_id, schema

    def try_out(self) -> str:
        """Send a harmless request; return server and user as text."""
        return self._registry.try_out()

    def check(self, expected: Mapping[SchemaId, str]) -> tuple[SchemaId, ...]:
        """Request all of these schemas again; return those that no longer exist.

        Raises ``ConfigError`` (``registry-changed``) for the first that is another schema now.
        """
        gone = []
        for schema_id, digest in sorted(expected.items()):
            schema = self._registry.schema(schema_id)
            if schema is None:
                gone.append(schema_id)
            else:
                self._refuse_other(schema_id, schema, digest)
        return tuple(gone)

    def kept(self) -> dict[SchemaId, str]:
        """Return the digests of all stored schemas, by one listing."""
        digests = self._digests()
        return {each: digest for each in digests if (digest := self._one_of(each, digests))}

    def _one_of(self, schema_id: SchemaId, kept: Mapping[SchemaId, set[str]]) -> str | None:
        digests = sorted(kept.get(schema_id, ()))
        if len(digests) > 1:
            raise self._changed(schema_id, digests[0], digests[1])
        return digests[0] if digests else None

    def _digests(self) -> Mapping[SchemaId, set[str]]:
        found: defaultdict[SchemaId, set[str]] = defaultdict(set)
        for file in self._store.list(f"{FOLDER}/{self._name}"):
            text, _, digest = file.name.removesuffix(".json").rpartition("-")
            with suppress(ValueError):  # a draft, or none of ours
                found[SchemaId.parse(text)].add(digest)
        return found

    def _schema_of(self, schema_id: SchemaId, digest: str | None, *, is_expected: bool) -> SchemaText | None:
        if digest is not None and (kept := self._stored(schema_id, digest)) is not None:
            return kept
        schema = self._registry.schema(schema_id)
        if schema is None and is_expected:
            raise fault("schema-lost", schema_id=schema_id, name=self._name, digest=digest)
        if schema is not None:
            if digest is not None:
                self._refuse_other(schema_id, schema, digest)
            self._keep(schema_id, schema)
        return schema

    def _stored(self, schema_id: SchemaId, digest: str) -> SchemaText | None:
        if (schema_id, digest) in self._read:
            return self._read[schema_id, digest]
        path = self._path(schema_id, digest)
        text = self._store.read(path)
        if text is None:
            return None
        try:
            schema = _SCHEMA.from_json(text)
        except ValueError:
            schema = None
        if schema is None or schema.digest != digest:
            raise fault(
                "schema-damaged", schema_id=schema_id, name=self._name, file=f"{self._store.root}/{path}"
            )
        self._read[schema_id, digest] = schema
        return schema

    def _stored_version(self, subject: str, version: int) -> _Version | None:
        """Return the stored version; an unreadable or foreign one is requested again."""
        text = self._store.read(self._version_path(subject, version))
        with suppress(ValueError):
            found = _VERSION.from_json(text or "")
            return found if (found.subject, found.version) == (subject, version) else None
        return None

    def _version_path(self, subject: str, version: int) -> str:
        # Subjects have characters, and lengths, that names of files cannot have.
        name = sha256(subject.encode()).hexdigest()[:16]
        return f"{VERSIONS}/{self._name}/{name}-{version}.json"

    def _keep(self, schema_id: SchemaId, schema: SchemaText) -> None:
        self._store.create(self._path(schema_id, schema.digest), _SCHEMA.to_json(schema))
        self._read[schema_id, schema.digest] = schema

    def _path(self, schema_id: SchemaId, digest: str) -> str:
        return f"{FOLDER}/{self._name}/{schema_id}-{digest}.json"

    def _refuse_other(self, schema_id: SchemaId, schema: SchemaText, digest: str) -> None:
        if schema.digest != digest:
            raise self._changed(schema_id, digest, schema.digest)

    def _changed(self, schema_id: SchemaId, one: str, other: str) -> SluiceError:
        return fault("registry-changed", schema_id=schema_id, name=self._name, was=one[:12], now=other[:12])

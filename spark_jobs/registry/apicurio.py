"""Client of Apicurio's own API, version 3: schemas by content id and by global id.

A content is registered without its language and under any number of names: a search tells one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote

from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.offsets import SchemaId
from spark_jobs.protocol.texts import JsonCodec
from spark_jobs.registry.http_get import HttpGet, RegistryAccess, garbage
from spark_jobs.registry.references import Found, Reference, language_of, whole
from spark_jobs.schema.writer_schema import SchemaText

_GLOBAL, _DEFAULT_GROUP = "global-", "default"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Reference:
    name: str
    artifactId: str  # noqa: N815  (the registry's words)
    version: str
    groupId: str | None = None  # noqa: N815


@dataclass(frozen=True, slots=True)
class _Version:
    contentId: int  # noqa: N815
    artifactType: str  # noqa: N815


@dataclass(frozen=True, slots=True)
class _Versions:
    versions: tuple[_Version, ...]


@dataclass(frozen=True, slots=True)
class _Error:
    name: str
    status: int


_REFERENCES, _VERSION, _VERSIONS = (
    JsonCodec(tuple[_Reference, ...]),
    JsonCodec(_Version),
    JsonCodec(_Versions),
)
_ERROR = JsonCodec(_Error)


class ApicurioClient:
    """Client of one registry, without a cache; a subject is ``GROUP/ARTIFACT`` or ``ARTIFACT``."""

    def __init__(self, access: RegistryAccess) -> None:
        self._http = HttpGet(access, _is_documented)
        self._name = access.name
        self._answers = f"{access.url} answers requests {access.user}"

    def try_out(self) -> str:
        """See ``RegistryClient``."""
        self._read(_VERSIONS, "search/versions?limit=1")
        return self._answers

    def schema(self, schema_id: SchemaId) -> SchemaText | None:
        """See ``RegistryClient``."""
        kind, number = "contentId", str(schema_id)
        if number.startswith(_GLOBAL):
            kind, number = "globalId", number.removeprefix(_GLOBAL)
        path = f"ids/{kind}s/{number}"
        text = self._http.get(path) if number.isdecimal() else None  # other registries' GUIDs
        if text is None:
            return None
        versions = self._read(_VERSIONS, f"search/versions?{kind}={number}&limit=1").versions
        if not versions:
            return None  # deleted meanwhile
        return whole(self._name, self._found(versions[0], text, path), self._referred)

    def version(self, subject: str, version: int | None) -> tuple[SchemaId, SchemaText]:
        """See ``RegistryClient``."""
        numbered, path = self._version(subject, "branch=latest" if version is None else str(version))
        found = self._found(numbered, self._text(f"{path}/content"), path)
        return SchemaId(numbered.contentId), whole(self._name, found, self._referred)

    def _referred(self, reference: Reference) -> Found:
        numbered, path = self._version(reference.subject, str(reference.version))
        return self._found(numbered, self._text(f"{path}/content"), path)

    def _version(self, subject: str, version: str) -> tuple[_Version, str]:
        group, _, artifact = subject.rpartition("/")
        names = quote(group or _DEFAULT_GROUP, safe=""), quote(artifact, safe="")
        path = "groups/{}/artifacts/{}/versions/{}".format(*names, quote(version, safe="="))
        text = self._http.get(path)
        if text is None:
            raise fault("registry-no-version", name=self._name, version=version, subject=subject)
        return self._parsed(_VERSION, text), path

    def _found(self, version: _Version, text: str, path: str) -> Found:
        language = language_of(self._name, version.artifactType, path)
        every = self._read(_REFERENCES, f"{path}/references")
        return Found(
            language,
            text,
            tuple(
                Reference(each.name, f"{each.groupId or _DEFAULT_GROUP}/{each.artifactId}", each.version)
                for each in every
            ),
        )

    def _text(self, path: str) -> str:
        if (text := self._http.get(path)) is None:
            raise garbage(self._name, "404 for a version that it has")
        return text

    def _read(self, codec: JsonCodec[_T], path: str) -> _T:
        return self._parsed(codec, self._text(path))

    def _parsed(self, codec: JsonCodec[_T], text: str) -> _T:
        try:
            return codec.from_json(text)
        except ValueError as error:
            raise garbage(self._name, f"something undocumented ({error})") from error


def _is_documented(text: str) -> bool:
    try:
        error = _ERROR.from_json(text)
    except ValueError:
        return False
    return error.name.endswith("NotFoundException")

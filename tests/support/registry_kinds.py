"""Registries of every kind, each filled by its own API: what the contract suite and drains ask of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import boto3
import requests
from confluent_kafka.schema_registry import Schema, SchemaReference

from spark_jobs.config.registry_settings import RegistryKind, RegistrySettings
from spark_jobs.protocol.offsets import SchemaId
from spark_jobs.registry.kinds import CLIENTS
from spark_jobs.registry.schema_store import Registry
from tests.support.confluent_serializers import registering

_KEYS = {"aws_access_key_id": "nobody", "aws_secret_access_key": "nothing"}
SETTINGS: dict[RegistryKind, dict[str, Any]] = {
    RegistryKind.GLUE: {"region": "us-east-1", "auth": {"basic": "nobody:nothing"}}
}
UNKNOWN = {
    RegistryKind.CONFLUENT: SchemaId((1 << 31) - 1),
    RegistryKind.APICURIO: SchemaId("global-9223372036854775807"),
    RegistryKind.GLUE: SchemaId("89791762-2336-4186-9674-299b90a802e2"),
}


class Filled(Protocol):
    """A running registry of one kind."""

    kind: RegistryKind
    url: str

    def register(
        self, subject: str, text: str, language: str = "AVRO", references: Sequence[tuple[str, str]] = ()
    ) -> tuple[SchemaId, ...]:
        """Return the ids of a subject's next version, that of ``version`` first.

        ``references`` are names, and subjects of which version 1 is meant.
        """


@dataclass(frozen=True, slots=True)
class Confluent:
    """Apicurio by Confluent's API."""

    url: str
    kind: RegistryKind = RegistryKind.CONFLUENT

    def register(
        self, subject: str, text: str, language: str = "AVRO", references: Sequence[tuple[str, str]] = ()
    ) -> tuple[SchemaId, ...]:
        """See ``Filled``."""
        every = [SchemaReference(name, of, 1) for name, of in references]
        return (SchemaId(registering(self.url).register_schema(subject, Schema(text, language, every))),)


@dataclass(frozen=True, slots=True)
class Apicurio:
    """The same server by its own API."""

    url: str
    kind: RegistryKind = RegistryKind.APICURIO

    def register(
        self, subject: str, text: str, language: str = "AVRO", references: Sequence[tuple[str, str]] = ()
    ) -> tuple[SchemaId, ...]:
        """See ``Filled``."""
        every = [
            {"name": name, "groupId": "default", "artifactId": of, "version": "1"} for name, of in references
        ]
        mime = "application/x-protobuf" if language == "PROTOBUF" else "application/json"
        content = {"content": text, "contentType": mime, "references": every}
        body = {"artifactId": subject, "artifactType": language, "firstVersion": {"content": content}}
        answer = requests.post(
            f"{self.url}/groups/default/artifacts?ifExists=CREATE_VERSION", json=body, timeout=30
        )
        answer.raise_for_status()
        version = answer.json()["version"]
        return SchemaId(version["contentId"]), SchemaId(f"global-{version['globalId']}")


@dataclass(frozen=True, slots=True)
class Glue:
    """AWS Glue's by moto, asked by boto3."""

    url: str
    kind: RegistryKind = RegistryKind.GLUE

    def register(
        self, subject: str, text: str, language: str = "AVRO", references: Sequence[tuple[str, str]] = ()
    ) -> tuple[SchemaId, ...]:
        """See ``Filled``; Glue has no references."""
        assert not references
        glue = boto3.client("glue", "us-east-1", endpoint_url=self.url, **_KEYS)
        try:
            made = glue.create_schema(
                SchemaName=subject, DataFormat=language, Compatibility="NONE", SchemaDefinition=text
            )
        except glue.exceptions.AlreadyExistsException:
            name = {"RegistryName": "default-registry", "SchemaName": subject}
            made = glue.register_schema_version(SchemaId=name, SchemaDefinition=text)
        return (SchemaId(made["SchemaVersionId"]),)


def kinds(registry: str, glue: str = "") -> dict[RegistryKind, Filled]:
    """Return the registries by kind; ``registry`` is the server's Confluent API, ``glue`` moto's address."""
    own = registry.replace("/apis/ccompat/v7", "/apis/registry/v3")
    every: tuple[Filled, ...] = (Confluent(registry), Apicurio(own), Glue(glue))
    return {each.kind: each for each in every}


def client(filled: Filled, url: str = "", **settings: Any) -> Registry:
    """Return ours, as the configuration would make it."""
    given = {"kind": filled.kind, "url": url or filled.url, **SETTINGS.get(filled.kind, {}), **settings}
    made = RegistrySettings.model_validate(given)
    return CLIENTS[filled.kind]("main", made)

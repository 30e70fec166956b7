"""Section ``registries``: schema registries by name and kind. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from spark_jobs.config import values
from spark_jobs.config.problems import Finding, mistake, only
from spark_jobs.config.value_format import Framing, SchemaPlace, ValueFormat
from spark_jobs.config.values import Frozen, choice, key, parsed


class RegistryKind(StrEnum):
    """API of a registry, with which go the frames of its serializers."""

    CONFLUENT = "confluent"
    APICURIO = "apicurio"
    GLUE = "glue"


# What each kind's own serializers write and document. Protobuf's message is named in other ways by each.
FRAMINGS: dict[RegistryKind, tuple[Framing, ...]] = {
    RegistryKind.CONFLUENT: (Framing.CONFLUENT, Framing.NONE),
    RegistryKind.APICURIO: (Framing.APICURIO, Framing.APICURIO_GLOBAL, Framing.NONE),
    RegistryKind.GLUE: (Framing.GLUE, Framing.NONE),
}
_OTHERS = frozenset({ValueFormat.AVRO, ValueFormat.JSON_SCHEMA})


_kind = only("not-a-registry-kind", set(RegistryKind).__contains__)


class RegistryAuth(Frozen):
    """Credentials for a registry: `basic`, `bearer` or none. References are unresolved."""

    basic: values.Secret | None = key(None, "`user:password`, for example `${USER}:${PASSWORD}`.")
    bearer: values.Secret | None = key(None, "Bearer token, for example `${TOKEN}`.")


class RegistrySettings(Frozen):
    """A schema registry."""

    kind: Annotated[RegistryKind, parsed(_kind, RegistryKind), choice(RegistryKind)] = key(
        "confluent",
        "Its API. `confluent`: also Apicurio's, Buf's, Karapace's, Redpanda's. `apicurio`: its own of 3."
        " `glue`: AWS Glue's, with `extras: [glue]`.",
    )
    url: values.RegistryUrl | None = key(
        None,
        "Base URL of its API, `http://host:8081`. Apicurio's ends in `/apis/ccompat/v7`, of `kind: apicurio`"
        " in `/apis/registry/v3`. Only `glue` needs none.",
    )
    region: str | None = key(None, "With `glue`; if unset, from AWS's chain.")
    auth: RegistryAuth = key(
        RegistryAuth(),
        "Credentials: `basic: user:password` or `bearer: token`. With `glue` `basic:"
        " access-key-id:secret-access-key`; if unset, from AWS's chain.",
    )
    ca: values.AbsolutePath | None = key(
        None, "File (PEM) of the authorities to trust. If unset, the public ones."
    )
    cert: values.AbsolutePath | None = key(
        None, "File (PEM) of the client certificate, if the registry requires one."
    )
    private_key: values.AbsolutePath | None = key(
        None, "File (PEM) of the client's private key, if it is not in `cert`.", alias="key"
    )
    timeout_seconds: values.Duration = key("10s", "Timeout of one request.", alias="timeout")


def check_frames(place: SchemaPlace, registry: RegistrySettings, name: str) -> Finding | None:
    """Return what does not fit a registry of this kind."""
    fits = FRAMINGS[registry.kind]
    if place.framing not in fits:
        known = " or ".join(fits)
        return mistake("framing-of-a-kind", ("framing",), name=name, kind=registry.kind, known=known)
    if place.framing not in FRAMINGS[RegistryKind.CONFLUENT] and place.format not in _OTHERS:
        return mistake("format-of-a-framing", ("format",), format=place.format, text=place.framing)
    return None

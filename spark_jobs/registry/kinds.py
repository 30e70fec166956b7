"""Clients of registries by kind."""

from __future__ import annotations

from collections.abc import Callable

from spark_jobs.config.registry_settings import RegistryKind, RegistrySettings
from spark_jobs.registry.apicurio import ApicurioClient
from spark_jobs.registry.client import RegistryClient
from spark_jobs.registry.glue import GlueClient
from spark_jobs.registry.http_get import access_of
from spark_jobs.registry.schema_store import Registry

CLIENTS: dict[RegistryKind, Callable[[str, RegistrySettings], Registry]] = {
    RegistryKind.CONFLUENT: lambda name, settings: RegistryClient(access_of(name, settings)),
    RegistryKind.APICURIO: lambda name, settings: ApicurioClient(access_of(name, settings)),
    RegistryKind.GLUE: lambda name, settings: GlueClient(access_of(name, settings), settings.region),
}

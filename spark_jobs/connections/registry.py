"""Opening a registry by the name that the configuration gives it."""

from __future__ import annotations

from collections.abc import Mapping

from spark_jobs.config.settings import RegistrySettings
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.registry.access import access_of
from spark_jobs.registry.client import RegistryClient
from spark_jobs.registry.kept_schemas import KeptSchemas
from spark_jobs.storage.create_only import CreateOnlyStore


def open_registry(
    registries: Mapping[str, RegistrySettings], store: CreateOnlyStore, name: str
) -> KeptSchemas:
    """Return its schemas, secrets resolved now; it connects on first use.

    Raises ``ConfigError``: ``no-registry`` when none is called that, and for what ``access_of`` finds.
    """
    settings = registries.get(name)
    if settings is None:
        raise ConfigError(
            f"there is no registry {name}",
            code="no-registry",
            hint="Name one that stands under `registries:` in sluice.yaml, or add it there.",
        )
    return KeptSchemas(name, store, RegistryClient(access_of(name, settings)))

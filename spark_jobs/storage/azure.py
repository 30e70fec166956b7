"""Azure's locations, and PyIceberg's properties for them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from spark_jobs.protocol.errors import fault

AZURE_SCHEMES = ("abfs", "abfss", "wasb", "wasbs")
_PLACE = re.compile(r"(?P<name>[^@/]+)@(?P<host>(?P<account>[^.@/]+)\.(?:dfs|blob)\.(?P<suffix>[^@/]+))")


class AzureContainer(NamedTuple):
    """The part between a location's scheme and path: ``container@account.dfs.core.windows.net``."""

    name: str
    account: str
    host: str
    suffix: str

    def settings(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return PyIceberg's properties for this account; an emulator's name its address."""
        settings = {
            "adls.blob-storage-authority": f".blob.{self.suffix}",
            "adls.dfs-storage-authority": f".dfs.{self.suffix}",
            **properties,
            "adls.account-name": self.account,
        }
        # Catalogs vend tokens by account. Without the question mark Arrow makes a token part of a path.
        if token := properties.get(f"adls.sas-token.{self.host}") or properties.get("adls.sas-token"):
            settings["adls.sas-token"] = f"?{token.removeprefix('?')}"
        return settings


def azure_container(place: str) -> AzureContainer:
    """Return the parts of ``container@account.dfs.…``. Raises ``ConfigError`` (``azure-location``)."""
    found = _PLACE.fullmatch(place)
    if found is None:
        raise fault("azure-location", place=place)
    return AzureContainer(found["name"], found["account"], found["host"], found["suffix"])

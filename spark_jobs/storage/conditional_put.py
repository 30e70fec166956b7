"""Conditional put on object stores: create an object only if it does not exist.

PyIceberg's and Arrow's writers check first and then replace, so of two concurrent writers the second wins.
That stays so on stores without an entry below, and with credentials that only Arrow's client can get.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from obstore import put
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import AzureStore, GCSStore, S3Store
from pyarrow.fs import resolve_s3_region

from spark_jobs.storage.azure import AZURE_SCHEMES, azure_container

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

# PyIceberg's names, in its order, to obstore's.
_S3_NAMES = {
    "s3.endpoint": "endpoint",
    "s3.region": "region",
    "client.region": "region",
    "s3.access-key-id": "access_key_id",
    "client.access-key-id": "access_key_id",
    "s3.secret-access-key": "secret_access_key",
    "client.secret-access-key": "secret_access_key",
    "s3.session-token": "session_token",
    "client.session-token": "session_token",
}
_GCS_NAMES = {"gcs.service.host": "base_url", "gcs.oauth2.token": "bearer_token"}
_AZURE_NAMES = {
    "adls.account-name": "account_name",
    "adls.account-key": "account_key",
    "adls.sas-token": "sas_key",
    "adls.client-id": "client_id",
    "adls.client-secret": "client_secret",
    "adls.tenant-id": "tenant_id",
}
# What the settings of the configuration prove; else the environment's are looked through, as Arrow does.
_AZURE_PROOFS = {"account_key": "access_key", "sas_key": "sas_token", "client_secret": "client_secret"}
# A workload's own. The rest of AWS's chain, roles and files of a user, is Arrow's alone.
_OF_A_WORKLOAD = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_ARROWS_ALONE = ("s3.role-arn", "client.role-arn", "s3.profile-name", "client.profile-name", "s3.anonymous")
_CLIENT: ClientConfig = {"connect_timeout": "10s", "timeout": "60s", "allow_http": True}
_RETRIES: RetryConfig = {"max_retries": 3, "retry_timeout": timedelta(seconds=60)}


class ConditionalStore:
    """A bucket, opened by ``conditional_store``."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def create(self, path: str, content: bytes) -> None:
        """Create the object. Raises ``FileExistsError`` if it exists, else like Arrow's client."""
        try:
            put(self._store, path, content, mode="create")
        except AlreadyExistsError as error:
            raise FileExistsError(path) from error
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise PermissionError(_message(error)) from error
        except BaseError as error:
            raise OSError(_message(error)) from error


def conditional_store(scheme: str, bucket: str, properties: Mapping[str, str]) -> ConditionalStore | None:
    """Open a bucket; None if conditional puts are not possible. ``properties`` are the FileIO's.

    Raises ``OSError`` when S3's region is not given and cannot be found out.
    """
    opened = _OPENERS[scheme](bucket, properties) if scheme in _OPENERS else None
    return None if opened is None else ConditionalStore(opened)


def _open_s3(bucket: str, properties: Mapping[str, str]) -> ObjectStore | None:
    settings = _settings(_S3_NAMES, properties)
    if {"access_key_id", "secret_access_key"} <= settings.keys():
        settings.setdefault("session_token", "")  # or the environment's would go with these keys
    elif not any(map(os.environ.get, _OF_A_WORKLOAD)):
        return None
    if any(map(properties.get, _ARROWS_ALONE)):
        return None
    if not {"region", "endpoint"} & settings.keys():
        settings["region"] = resolve_s3_region(bucket)  # as PyIceberg does; obstore does not ask
    options: ClientConfig = {**_CLIENT}
    if proxy := properties.get("s3.proxy-uri"):
        options["proxy_url"] = proxy
    is_virtual = properties.get("s3.force-virtual-addressing", "").lower() in {"true", "1", "yes", "y"}
    return S3Store(
        bucket,
        client_options=options,
        retry_config=_RETRIES,
        virtual_hosted_style_request=is_virtual or "endpoint" not in settings,
        **settings,
    )


def _open_gcs(bucket: str, properties: Mapping[str, str]) -> ObjectStore | None:
    try:
        return GCSStore(
            bucket, client_options=_CLIENT, retry_config=_RETRIES, **_settings(_GCS_NAMES, properties)
        )
    except BaseError:  # a file of credentials that obstore does not read: Arrow does, or tells why not
        return None


def _open_azure(place: str, properties: Mapping[str, str]) -> ObjectStore:
    container = azure_container(place)
    of_container = container.settings(properties)
    settings = _settings(_AZURE_NAMES, of_container)
    for name, proof in _AZURE_PROOFS.items():
        if name in settings:
            settings["credential_type"] = proof
    scheme = of_container.get("adls.blob-storage-scheme", "https")
    authority = of_container["adls.blob-storage-authority"]
    is_of_account = authority.startswith(".")  # an emulator has the account in its paths
    host = f"{container.account}{authority}" if is_of_account else f"{authority}/{container.account}"
    settings["endpoint"] = f"{scheme}://{host}"
    return AzureStore(container.name, client_options=_CLIENT, retry_config=_RETRIES, **settings)


# By the scheme of the location; what opens a bucket returns None where only Arrow has the credentials.
_Opener: TypeAlias = "Callable[[str, Mapping[str, str]], ObjectStore | None]"
_OPENERS: dict[str, _Opener] = {
    **dict.fromkeys(("s3", "s3a", "s3n"), _open_s3),
    "gs": _open_gcs,
    **dict.fromkeys(AZURE_SCHEMES, _open_azure),
}


def _settings(names: Mapping[str, str], properties: Mapping[str, str]) -> dict[str, Any]:
    """Return obstore's settings; of two properties for one setting the first counts."""
    settings: dict[str, Any] = {}
    for key, name in names.items():
        if properties.get(key):
            settings.setdefault(name, properties[key])
    return settings


def _message(error: Exception) -> str:
    """Return the readable part of an error, without the client's own structures."""
    return str(error).partition("\n\nDebug source")[0].strip()

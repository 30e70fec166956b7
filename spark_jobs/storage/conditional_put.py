"""Conditional put on S3: create an object only if it does not exist (``If-None-Match: *``).

PyIceberg's and Arrow's writers check first and then replace, so of two concurrent writers the second wins.
That stays so on other stores, and with credentials that only Arrow's client can get.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from obstore import put
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store
from pyarrow.fs import resolve_s3_region

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

# PyIceberg's names, in its order, to obstore's.
_NAMES = {
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
# A workload's own. The rest of AWS's chain, roles and files of a user, is Arrow's alone.
_OF_A_WORKLOAD = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_ARROWS_ALONE = ("s3.role-arn", "client.role-arn", "s3.profile-name", "client.profile-name", "s3.anonymous")
_RETRIES: RetryConfig = {"max_retries": 3, "retry_timeout": timedelta(seconds=60)}


class ConditionalStore:
    """A bucket, opened by ``conditional_store``."""

    def __init__(self, store: S3Store) -> None:
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


def conditional_store(bucket: str, properties: Mapping[str, str]) -> ConditionalStore | None:
    """Open an S3 bucket; None if conditional puts are not possible. ``properties`` are the FileIO's.

    Raises ``OSError`` when the region is not given and cannot be found out.
    """
    settings: dict[str, Any] = {}
    for key, name in _NAMES.items():
        if properties.get(key):
            settings.setdefault(name, properties[key])
    if {"access_key_id", "secret_access_key"} <= settings.keys():
        settings.setdefault("session_token", "")  # or the environment's would go with these keys
    elif not any(map(os.environ.get, _OF_A_WORKLOAD)):
        return None
    if any(map(properties.get, _ARROWS_ALONE)):
        return None
    if not {"region", "endpoint"} & settings.keys():
        settings["region"] = resolve_s3_region(bucket)  # as PyIceberg does; obstore does not ask
    options: ClientConfig = {"connect_timeout": "10s", "timeout": "60s", "allow_http": True}
    if proxy := properties.get("s3.proxy-uri"):
        options["proxy_url"] = proxy
    is_virtual = properties.get("s3.force-virtual-addressing", "").lower() in {"true", "1", "yes", "y"}
    return ConditionalStore(
        S3Store(
            bucket,
            client_options=options,
            retry_config=_RETRIES,
            virtual_hosted_style_request=is_virtual or "endpoint" not in settings,
            **settings,
        )
    )


def _message(error: Exception) -> str:
    """Return the readable part of an error, without the client's own structures."""
    return str(error).partition("\n\nDebug source")[0].strip()

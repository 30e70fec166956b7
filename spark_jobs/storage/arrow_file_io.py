"""PyIceberg's FileIO over Arrow, with what Azure's and Google's stores need; ``file_io`` makes it known.

PyIceberg 0.12 takes all of ``container@account.dfs.core.windows.net`` for a container's name, and has no
property against Arrow's asking Google again for 15 minutes.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyarrow as pa
from pyiceberg.io import GCS_DEFAULT_LOCATION, GCS_SERVICE_HOST, GCS_TOKEN, GCS_TOKEN_EXPIRES_AT_MS
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.typedef import EMPTY_DICT, Properties

from spark_jobs.storage.azure import AZURE_SCHEMES, azure_container

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_GOOGLES_TRIES = dt.timedelta(seconds=30)
# Arrow wants to know when a token ends and does nothing about it.
_FAR_MS = 4_000_000_000_000


class ArrowFileIO(PyArrowFileIO):
    """PyIceberg's, for every scheme that it knows."""

    @staticmethod
    def parse_location(location: str, properties: Properties = EMPTY_DICT) -> tuple[str, str, str]:
        """Return scheme, host or container, and the path that Arrow takes."""
        scheme, place, path = PyArrowFileIO.parse_location(location, properties)
        if scheme in AZURE_SCHEMES:
            path = azure_container(place).name + path.removeprefix(place)
        return scheme, place, path

    def _initialize_gcs_fs(self) -> FileSystem:
        # Loaded where it is asked for: an Arrow may be built without.
        from pyarrow.fs import GcsFileSystem  # noqa: PLC0415

        token, host = self.properties.get(GCS_TOKEN), urlsplit(self.properties.get(GCS_SERVICE_HOST, ""))
        ends_ms = int(self.properties.get(GCS_TOKEN_EXPIRES_AT_MS) or _FAR_MS)
        return GcsFileSystem(
            access_token=token,
            credential_token_expiration=dt.datetime.fromtimestamp(ends_ms / 1000, dt.UTC) if token else None,
            default_bucket_location=self.properties.get(GCS_DEFAULT_LOCATION, "US"),
            scheme=host.scheme or None,
            endpoint_override=host.netloc or None,
            retry_time_limit=_GOOGLES_TRIES,
        )

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> FileSystem:
        if scheme not in AZURE_SCHEMES or not netloc:
            return super()._initialize_fs(scheme, netloc)
        container = azure_container(netloc)
        settings = container.settings(self.properties)
        opened = PyArrowFileIO(settings).fs_by_scheme(scheme, None)
        if not {"adls.account-key", "adls.sas-token"} & settings.keys():
            _try_identity(opened, container.name)
        return opened


def _try_identity(opened: FileSystem, container: str) -> None:
    """Raise ``OSError`` if no token is to be had: asked for an object, Arrow would end the process."""
    try:
        opened.get_file_info(f"{container}/.sluice")  # a container's own would end it too
    except OSError:
        pass  # the identity may have rights below the container alone
    except pa.ArrowException as error:
        is_away = "Could not connect" in str(error)
        raise (OSError if is_away else PermissionError)(str(error)) from error

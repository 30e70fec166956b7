"""PyIceberg's FileIO over Arrow, with Azure's locations as Azure, Spark and others write them.

PyIceberg 0.12 takes all of ``container@account.dfs.core.windows.net`` for a container's name. ``file_io``
makes this one known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.typedef import EMPTY_DICT, Properties

from spark_jobs.storage.azure import AZURE_SCHEMES, azure_container

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


class ArrowFileIO(PyArrowFileIO):
    """PyIceberg's, for every scheme that it knows."""

    @staticmethod
    def parse_location(location: str, properties: Properties = EMPTY_DICT) -> tuple[str, str, str]:
        """Return scheme, what stands before the path, and the path that Arrow takes."""
        scheme, place, path = PyArrowFileIO.parse_location(location, properties)
        if scheme in AZURE_SCHEMES:
            path = azure_container(place).name + path.removeprefix(place)
        return scheme, place, path

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

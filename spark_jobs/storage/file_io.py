"""PyIceberg's choice of a FileIO by scheme, with Sluice's for Azure and Google once this is imported.

By name: Arrow's part takes a while to load, and a process that reads no files does without.
"""

from __future__ import annotations

from pyiceberg.io import SCHEMA_TO_FILE_IO, load_file_io

from spark_jobs.storage.azure import AZURE_SCHEMES

__all__ = ["load_file_io"]

SCHEMA_TO_FILE_IO.update(
    {scheme: [f"{__package__}.arrow_file_io.ArrowFileIO"] for scheme in (*AZURE_SCHEMES, "gs")}
)

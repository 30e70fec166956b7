"""Tests a drain's access to storage and from tasks; leaves nothing behind."""

from __future__ import annotations

import json
import platform
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.kafka.admin import KafkaAdmin
from spark_jobs.protocol.errors import SluiceError, error_from_json, error_to_json, fault
from spark_jobs.records.row_maker import why_slow
from spark_jobs.storage.arrow_file_io import ArrowFileIO
from spark_jobs.storage.create_only import list_files
from spark_jobs.storage.errors import in_a_line, refused_step
from spark_jobs.storage.file_io import load_file_io

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONTENT = b"sluice check\n"
PYTHON = "Python"
_PACKAGES = (
    *("confluent-kafka", "pyarrow", "pyiceberg", "pyspark", "numpy", "orjson", "fastavro", "protobuf"),
    *("pydantic", "cryptography", "wasmtime", "aws-msk-iam-sasl-signer-python"),
)


@dataclass(frozen=True, slots=True)
class Target:
    """The endpoints a task must reach; ``kafka`` and ``storage`` are properties with secrets.

    ``location`` is empty while nobody can tell where files will go.
    """

    kafka: dict[str, str] = field(repr=False)
    topic: str
    location: str
    storage: dict[str, str] = field(repr=False)


def try_storage(location: str, properties: Mapping[str, str]) -> None:
    """Write, read, list and delete a small file below ``location``, through the tables' FileIO.

    Raises ``ConfigError`` (``storage-refused``) naming the step that failed.
    """
    folder = f"{location.rstrip('/')}/.sluice-check-{uuid.uuid4().hex}"
    folders = _missing_folders(folder, properties)
    step, content, names = "open", b"", [""]
    try:
        file_io = load_file_io(dict(properties), folder)
        path = f"{folder}/probe"
        step = "put"
        with file_io.new_output(path).create() as output:
            output.write(CONTENT)
        step = "get"
        with file_io.new_input(path).open() as source:
            content = source.read()
        step = "list"
        names = [file.name for file in list_files(folder, properties)]
        step = "delete"
        file_io.delete(path)
    except Exception as error:
        why = f"{type(error).__name__}: {in_a_line(error)}"
        raise _refused(refused_step(error) or step, location, why) from error
    finally:
        for empty in folders:
            if empty.is_dir():
                empty.rmdir()
    if content != CONTENT:
        raise _refused("get", location, f"{len(content)} other bytes came back")
    if names != ["probe"]:
        raise _refused("list", location, f"it lists {names} instead of the file")


def try_from_task(spark: SparkSession, target: Target) -> tuple[dict[str, str], str | None]:
    """Test broker and storage from one Spark task; raises the task's error.

    Returns the ``versions`` of the process it ran in, and why that decodes JSON without WebAssembly, if so.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            has = json.dumps([versions(), why_slow()])
            yield pa.RecordBatch.from_pydict({"met": [reach(target)], "has": [has]})

    (row,) = spark.range(0, 1, 1, 1).mapInArrow(run, "met string, has string").collect()
    if row.met:
        raise error_from_json(json.loads(row.met))
    found, slow = json.loads(row.has)
    return found, slow


def versions() -> dict[str, str]:
    """Return the local versions of Python and of the packages that tasks use."""
    found = {PYTHON: platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def reach(target: Target) -> str:
    """Test broker and storage from here; return the error as JSON, or an empty text."""
    try:
        KafkaAdmin(target.kafka).source_state(target.topic)
        if target.location:
            try_storage(target.location, target.storage)
    except SluiceError as error:
        return json.dumps(error_to_json(error))
    return ""


def _missing_folders(folder: str, properties: Mapping[str, str]) -> list[Path]:
    """Return the local folders that writing would create, innermost first; object stores have none."""
    scheme, _, path = ArrowFileIO.parse_location(folder, dict(properties))
    if scheme != "file":
        return []
    return [place for place in (Path(path), *Path(path).parents) if not place.exists()]


def _refused(step: str, location: str, reason: str) -> SluiceError:
    return fault("storage-refused.check", step=step, why=reason, location=location)

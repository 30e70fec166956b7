"""Listing what lies below a location of any storage that PyIceberg reads and writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType
from pyiceberg.io.pyarrow import PyArrowFileIO


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file; ``location`` is spelled as PyIceberg spells it, ``modified_us`` by the storage's clock."""

    location: str
    size_bytes: int
    modified_us: int

    @property
    def name(self) -> str:
        """The part after the last slash."""
        return self.location.rpartition("/")[2]


def list_files(location: str, properties: Mapping[str, str]) -> Iterator[StoredFile]:
    """Yield every file below the location, none when it does not exist; ``properties`` are the FileIO's.

    Raises ``OSError`` where not even its bucket does: nothing can be told of what lay there.
    """
    scheme, file_system, path = _resolve(location, PyArrowFileIO(dict(properties)))
    for info in _below(file_system, path, recursive=True):
        if info.type is FileType.File:
            yield _stored(scheme, info)


def find_files(location: str, fragment: str, properties: Mapping[str, str]) -> Iterator[StoredFile]:
    """Yield the files below the location with ``fragment`` in names that a location provider may add to.

    Goes folder by folder: a whole table's listing would have to be held in memory. Raises as ``list_files``.
    """
    scheme, file_system, path = _resolve(location, PyArrowFileIO(dict(properties)))
    folders = [path]
    while folders:
        for info in _below(file_system, folders.pop(), recursive=False):
            if info.type is FileType.Directory:
                folders.append(info.path)
            elif fragment in info.base_name:
                yield _stored(scheme, info)


def modified_us(locations: Sequence[str], properties: Mapping[str, str]) -> dict[str, int | None]:
    """Return when each file was last modified, in µs by the storage's clock; None for one that is gone."""
    file_io = PyArrowFileIO(dict(properties))
    found: dict[str, int | None] = {}
    for location in locations:
        _, file_system, path = _resolve(location, file_io)
        (info,) = file_system.get_file_info([path])
        found[location] = (info.mtime_ns or 0) // 1000 if info.type is FileType.File else None
    return found


def _below(file_system: FileSystem, path: str, *, recursive: bool) -> list[FileInfo]:
    found: list[FileInfo] = file_system.get_file_info(
        FileSelector(path, recursive=recursive, allow_not_found=True)
    )
    bucket = path.partition("/")[0]  # "" on a disk
    if not found and bucket:
        there = FileType.Unknown
        with suppress(OSError):  # the right to list below a prefix is none to ask about the bucket
            there = file_system.get_file_info([bucket])[0].type
        if there is FileType.NotFound:
            raise OSError(f"NO_SUCH_BUCKET: {bucket}")
    return found


def _resolve(location: str, file_io: PyArrowFileIO) -> tuple[str, FileSystem, str]:
    scheme, netloc, path = PyArrowFileIO.parse_location(location, file_io.properties)
    return scheme, file_io.fs_by_scheme(scheme, netloc), path.rstrip("/")


def _stored(scheme: str, info: FileInfo) -> StoredFile:
    return StoredFile(f"{scheme}://{info.path}", info.size, (info.mtime_ns or 0) // 1000)

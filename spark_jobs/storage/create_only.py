"""Store of small immutable objects below a root in any storage that PyIceberg supports.

Objects are never rewritten, because a rewrite truncates first and object stores cannot append. On a local
disk and with ``conditional_put`` the storage prevents a second write; elsewhere a concurrent second writer
replaces the first. No correctness depends on it: the table is the truth. The module lists files too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType
from pyarrow.lib import ArrowException

from spark_jobs.protocol.errors import fault
from spark_jobs.storage.arrow_file_io import ArrowFileIO
from spark_jobs.storage.errors import in_a_line, known_store_error
from spark_jobs.storage.file_io import load_file_io

if TYPE_CHECKING:
    from spark_jobs.storage.conditional_put import ConditionalStore


class CreateOnlyStore:
    """Objects under ``state:``; ``properties`` are the FileIO's with secrets resolved.

    Every method raises ``RetryableError`` (``log-store-away``, ``disk-full``, ``credentials-expired``) or
    ``ConfigError`` (``log-store-refused``, ``no-bucket``).
    """

    def __init__(self, root: str, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)
        self._scheme, self._bucket, path = ArrowFileIO.parse_location(root, self._properties)
        self._local_root = Path(path) if self._scheme == "file" else None
        self.root = str(self._local_root) if self._local_root else root.rstrip("/")
        self._io = load_file_io(self._properties, self.root)

    def use(self, properties: Mapping[str, str]) -> None:
        """Use these properties if they changed, as after a key rotation."""
        if dict(properties) != self._properties:
            self.__dict__.pop("_conditional", None)
            self._properties = dict(properties)
            self._io = load_file_io(self._properties, self.root)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.root, self._properties)  # another process connects anew

    def create(self, path: str, content: str | bytes) -> bool:
        """Create one object; return False if it exists, unchanged."""
        location = f"{self.root}/{path}"
        content = content.encode() if isinstance(content, str) else content
        with _translated("writing", location):
            try:
                if self._local_root is not None:
                    _create_local(self._local_root / path, content)
                elif self._conditional is not None:
                    _, _, key = location.partition(f"://{self._bucket}/")
                    self._conditional.create(key, content)
                else:
                    with self._io.new_output(location).create(overwrite=False) as stream:
                        stream.write(content)
            except FileExistsError:
                return False
        return True

    def refuses_a_second(self) -> bool:
        """Return True if the storage refuses a second write, tried with a temporary object."""
        if self._local_root is not None or self._conditional is None:
            return self._local_root is not None
        path = f".sluice-check-{uuid.uuid4().hex}"
        try:
            return self.create(path, "first") and not self.create(path, "second")
        finally:
            self._io.delete(f"{self.root}/{path}")

    @cached_property
    def _conditional(self) -> ConditionalStore | None:
        if self._local_root is not None:
            return None
        # Loaded where there is a bucket: most commands know none.
        from spark_jobs.storage.conditional_put import conditional_store  # noqa: PLC0415

        return conditional_store(self._scheme, self._bucket, self._properties)

    def read(self, path: str) -> str | None:
        """Return an object's text with invalid bytes replaced; None if it does not exist."""
        content = self.read_bytes(path)
        return None if content is None else content.decode("utf-8", errors="replace")

    def read_bytes(self, path: str) -> bytes | None:
        """Return an object's bytes; None if it does not exist."""
        location = f"{self.root}/{path}"
        with _translated("reading", location):
            try:
                with self._io.new_input(location).open() as stream:
                    return stream.read()
            except FileNotFoundError:
                return None

    def list(self, path: str) -> list[StoredFile]:
        """Return every object below the path."""
        location = f"{self.root}/{path}"
        with _translated("listing", location):
            return list(list_files(location, self._properties))

    def delete(self, file: StoredFile) -> None:
        """Delete an object; a missing one is not an error."""
        with _translated("deleting", file.location), contextlib.suppress(FileNotFoundError):
            self._io.delete(file.location)

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder, on storages with folders; others stay."""
        if self._local_root is not None:
            with contextlib.suppress(OSError):
                (self._local_root / path).rmdir()


def _create_local(path: Path, content: bytes) -> None:
    """Create a file durably and atomically: readers see the whole object or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{uuid.uuid4().hex}"
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    for folder in (path.parent, path.parent.parent):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _translated(action: str, location: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ArrowException) as error:
        doing, why = f"{action} files under `state:` failed", in_a_line(error)
        known = known_store_error(error, doing, why, location=location)
        if known is not None and known.code == "storage-refused":
            raise fault("log-store-refused", doing=doing, why=why, location=location) from error
        if known is not None:
            raise known from error
        is_full = getattr(error, "errno", None) in {errno.ENOSPC, errno.EDQUOT}
        raise fault(
            "disk-full" if is_full else "log-store-away", doing=doing, why=why, location=location
        ) from error


# Listing what lies below a location of any storage that PyIceberg reads and writes.


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A stored file; ``location`` in PyIceberg's spelling, ``modified_us`` by the storage's clock."""

    location: str
    size_bytes: int
    modified_us: int

    @property
    def name(self) -> str:
        """Return the part after the last slash."""
        return self.location.rpartition("/")[2]


def list_files(location: str, properties: Mapping[str, str]) -> Iterator[StoredFile]:
    """Yield every file below the location, none if it does not exist; ``properties`` are the FileIO's.

    Raises ``OSError`` where not even its bucket does: nothing can be told of what lay there.
    """
    root, file_system, path = _resolve(location, ArrowFileIO(dict(properties)))
    for info in _below(file_system, path, recursive=True):
        if info.type is FileType.File:
            yield _stored(root, info)


def find_files(location: str, fragment: str, properties: Mapping[str, str]) -> Iterator[StoredFile]:
    """Yield files below the location whose names contain ``fragment``.

    Goes folder by folder: a whole table's listing would have to be held in memory. Only of Google's store it
    is, where Arrow shows no folders. Raises as ``list_files``.
    """
    root, file_system, path = _resolve(location, ArrowFileIO(dict(properties)))
    folders, shows_folders = [path], not root.startswith("gs://")
    while folders:
        for info in _below(file_system, folders.pop(), recursive=not shows_folders):
            if info.type is not FileType.Directory:
                if fragment in info.base_name:
                    yield _stored(root, info)
            elif shows_folders:
                folders.append(info.path)


def modified_us(locations: Sequence[str], properties: Mapping[str, str]) -> dict[str, int | None]:
    """Return each file's last modification in µs by the storage's clock; None if it does not exist."""
    file_io = ArrowFileIO(dict(properties))
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


def _resolve(location: str, file_io: ArrowFileIO) -> tuple[str, FileSystem, str]:
    scheme, place, path = ArrowFileIO.parse_location(location, file_io.properties)
    return f"{scheme}://{place}", file_io.fs_by_scheme(scheme, place), path.rstrip("/")


def _stored(root: str, info: FileInfo) -> StoredFile:
    below = info.path.partition("/")[2]  # the bucket; "" on a disk
    return StoredFile(f"{root}/{below}", info.size, (info.mtime_ns or 0) // 1000)

"""Where the transaction log lives: create-only objects under a root of any storage PyIceberg knows.

``<root>/<table uuid>/<attempt>/<n>-<phase>.json``. Nothing is ever rewritten: a rewrite truncates first, and
object stores cannot append. The root is never under a table: there, orphan removal, ours or another
engine's, deletes what no snapshot names.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import PyArrowFileIO

from spark_jobs.protocol.batch import Batch
from spark_jobs.protocol.errors import ConfigError, RetryableError
from spark_jobs.storage.errors import is_refusal
from spark_jobs.storage.file_listing import StoredFile, list_files
from spark_jobs.storage.paths import is_inside
from spark_jobs.txlog.entries import Attempt, Entry, entry_to_json, fold
from spark_jobs.txlog.phases import Phase, has_mark, is_complete, is_finished, is_settled, object_name

# Longer than any run may last: after this long no process that could still write an attempt's files is alive.
CLOSING_AFTER_US = 3600 * 1_000_000


class TxlogStore:
    """The log of all tables below one root; ``properties`` are the FileIO's, secrets resolved."""

    def __init__(self, root: str, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)
        scheme, _, path = PyArrowFileIO.parse_location(root, self._properties)
        self._local_root = Path(path) if scheme == "file" else None
        self.root = str(self._local_root) if self._local_root else root.rstrip("/")
        self._io = load_file_io(self._properties, self.root)

    def refuse_location(self, table: str, *locations: str) -> None:
        """Raise ``ConfigError`` (``log-under-table``) when the root lies in one of the table's locations."""
        for location in locations:
            if is_inside(self.root, location):
                raise ConfigError(
                    f"the transaction log's root {self.root} lies under the table's location {location}",
                    code="log-under-table",
                    hint="Set `state:` to a place of its own: orphan removal deletes what no snapshot names.",
                    table=table,
                )

    def append(self, table_uuid: str, batch: Batch, entry: Entry, *, reached: int = 0) -> bool:
        """Write one object; False when that phase was already written, which is kept as it is.

        ``reached`` (``Attempt.reached``) is needed for marks only: their names carry it.
        """
        path = f"{table_uuid}/{batch.attempt}/{object_name(entry.phase, reached)}"
        return self._create(path, entry_to_json(entry, batch, table_uuid))

    def unfinished(self, table_uuid: str, *, now_us: int) -> tuple[Attempt, ...]:
        """The attempts recovery has to look at, oldest first. Objects of finished ones are not read."""
        due = {
            attempt: names
            for attempt, names in self._names(table_uuid).items()
            if not is_settled(names, now_us=now_us, closing_after_us=CLOSING_AFTER_US)
        }
        return self._read_attempts(table_uuid, due)

    def attempts(self, table_uuid: str) -> tuple[Attempt, ...]:
        """Every attempt that is not in the books alone, oldest first."""
        return self._read_attempts(table_uuid, self._names(table_uuid))

    def begun(self, table_uuid: str) -> dict[str, int]:
        """Uuids of the attempts that are not history, swept and held ones included, with their begin in µs.

        One listing, nothing is read: the begin is when the first object was written.
        """
        return {
            attempt: min(names.values())
            for attempt, names in self._names(table_uuid).items()
            if not is_finished(names)
        }

    def finished(self, table_uuid: str) -> tuple[str, ...]:
        """Uuids of the attempts that may be folded into the books; one listing, nothing is read."""
        return tuple(attempt for attempt, names in self._names(table_uuid).items() if is_finished(names))

    def untold(self, table_uuid: str) -> tuple[str, ...]:
        """Uuids of the completed attempts without word of their notice, oldest first; nothing is read."""
        begun = {
            attempt: min(names.values())
            for attempt, names in self._names(table_uuid).items()
            if is_complete(names) and not has_mark(names, Phase.NOTIFIED)
        }
        return tuple(sorted(begun, key=lambda attempt: (begun[attempt], attempt)))

    def read_each(self, table_uuid: str, attempts: Iterable[str]) -> Iterator[Attempt]:
        """These attempts in this order, each read when it is asked for; none that has left the log."""
        names = self._names(table_uuid)
        return (self._fold(table_uuid, a, names[a]) for a in attempts if a in names)

    def read(self, table_uuid: str, attempts: Iterable[str]) -> tuple[Attempt, ...]:
        """These attempts, oldest first."""
        wanted = frozenset(attempts)
        names = self._names(table_uuid)
        return self._read_attempts(table_uuid, {a: names[a] for a in wanted & names.keys()})

    def objects(self, table_uuid: str) -> tuple[int, int]:
        """Number and total bytes of the table's objects."""
        sizes = [file.size_bytes for file in self._list(table_uuid)]
        return len(sizes), sum(sizes)

    def delete_attempts(self, table_uuid: str, attempts: Iterable[str]) -> int:
        """Delete the objects of attempts that the books hold; returns how many there were.

        What says "finished" goes last: dying in between leaves a finished attempt.
        """
        doomed = frozenset(attempts)
        files = [file for file in self._list(table_uuid) if _attempt_of(file.location) in doomed]
        files.sort(key=lambda file: (is_finished([file.name]), -_number(file.name)))
        for file in files:
            with _translated("deleting", file.location), contextlib.suppress(FileNotFoundError):
                self._io.delete(file.location)
        if self._local_root is not None:
            for attempt in doomed:
                with contextlib.suppress(OSError):  # a zombie's late object keeps its folder
                    (self._local_root / table_uuid / attempt).rmdir()
        return len(files)

    def _names(self, table_uuid: str) -> dict[str, dict[str, int]]:
        """By attempt, its objects' names and the times they were written."""
        names: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for file in self._list(table_uuid):
            attempt = _attempt_of(file.location)
            if not file.name.startswith("."):
                names[attempt][file.name] = file.modified_us
        return names

    def _read_attempts(self, table_uuid: str, names: Mapping[str, Mapping[str, int]]) -> tuple[Attempt, ...]:
        attempts = []
        for attempt, objects in names.items():
            folded = self._fold(table_uuid, attempt, objects)
            attempts.append((min(objects.values(), default=0), folded))
        attempts.sort(key=lambda dated: (dated[1].started_at_us or dated[0], dated[1].uuid))
        return tuple(attempt for _, attempt in attempts)

    def _fold(self, table_uuid: str, attempt: str, names: Iterable[str]) -> Attempt:
        base = f"{self.root}/{table_uuid}/{attempt}"
        return fold(table_uuid, attempt, {name: self._read(f"{base}/{name}") for name in names})

    def _list(self, path: str) -> list[StoredFile]:
        location = f"{self.root}/{path}"
        with _translated("listing", location):
            return list(list_files(location, self._properties))

    def _read(self, location: str) -> str:
        """The object's text; empty when it is gone, which reads as a phase that did not happen."""
        with _translated("reading", location):
            try:
                with self._io.new_input(location).open() as stream:
                    return stream.read().decode("utf-8", errors="replace")
            except FileNotFoundError:
                return ""

    def _create(self, path: str, text: str) -> bool:
        location = f"{self.root}/{path}"
        with _translated("writing", location):
            try:
                if self._local_root is not None:
                    _create_local(self._local_root / path, text.encode())
                else:
                    with self._io.new_output(location).create(overwrite=False) as stream:
                        stream.write(text.encode())
            except FileExistsError:
                return False
        return True


def _create_local(path: Path, content: bytes) -> None:
    """Create durably and in one step: a reader sees the whole object or none."""
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
    except OSError as error:
        if is_refusal(error):
            raise ConfigError(
                f"{action} the transaction log was refused: {error}",
                code="log-store-refused",
                hint="Give Sluice the right to list, read, create and delete under `state:`, and credentials"
                " that have not expired.",
                location=location,
            ) from error
        is_full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        raise RetryableError(
            f"{action} the transaction log failed: {error}",
            code="disk-full" if is_full else "log-store-away",
            hint="Free some space; the next run recovers and goes on."
            if is_full
            else "Check that the storage under `state:` can be reached from here; the next run tries again.",
            location=location,
        ) from error


def _attempt_of(location: str) -> str:
    return location.rsplit("/", 2)[1]


def _number(name: str) -> int:
    number = name.partition("-")[0]
    return int(number) if number.isdigit() else 0

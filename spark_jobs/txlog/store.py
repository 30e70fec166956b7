"""Storage of the transaction log: create-only objects below a root, through any PyIceberg FileIO.

``<root>/<table uuid>/<attempt>/<n>-<phase>.json``. The root is never under a table: there, orphan removal,
ours or another engine's, deletes what no snapshot names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from spark_jobs.protocol.batch import Batch
from spark_jobs.protocol.errors import fault
from spark_jobs.storage.create_only import CreateOnlyStore
from spark_jobs.storage.paths import is_inside
from spark_jobs.txlog.entries import (
    Attempt,
    Entry,
    Phase,
    entry_to_json,
    fold,
    has_mark,
    is_complete,
    is_finished,
    is_settled,
    object_name,
)

# Longer than any run may last: after this long no process that could still write an attempt's files is alive.
CLOSING_AFTER_US = 3600 * 1_000_000


class TxlogStore:
    """The log of all tables below one root; ``properties`` are the FileIO's, with secrets resolved."""

    def __init__(self, root: str, properties: Mapping[str, str]) -> None:
        self.store = CreateOnlyStore(root, properties)
        self.root = self.store.root

    def refuse_location(self, table: str, *locations: str) -> None:
        """Raise ``ConfigError`` (``log-under-table``) if the root is inside one of the table's locations."""
        for location in locations:
            if is_inside(self.root, location):
                raise fault("log-under-table", root=self.root, folder=location, table=table)

    def append(self, table_uuid: str, batch: Batch, entry: Entry, *, reached: int = 0) -> bool:
        """Write one object; return False if that phase was already written, which is kept unchanged.

        ``reached`` (``Attempt.reached``) is needed for marks only: their names carry it.
        """
        path = f"{table_uuid}/{batch.attempt}/{object_name(entry.phase, reached)}"
        return self.store.create(path, entry_to_json(entry, batch, table_uuid))

    def unfinished(self, table_uuid: str, *, now_us: int) -> tuple[Attempt, ...]:
        """Return the attempts that recovery must look at, oldest first. Finished ones are not read."""
        due = {
            attempt: names
            for attempt, names in self._names(table_uuid).items()
            if not is_settled(names, now_us=now_us, closing_after_us=CLOSING_AFTER_US)
        }
        return self._read_attempts(table_uuid, due)

    def attempts(self, table_uuid: str) -> tuple[Attempt, ...]:
        """Return every attempt that has log objects, oldest first."""
        return self._read_attempts(table_uuid, self._names(table_uuid))

    def begun(self, table_uuid: str) -> dict[str, int]:
        """Return uuids of attempts that are not finished for good, swept and held too, with begin in µs.

        One listing, nothing is read: the begin is when the first object was written.
        """
        return {
            attempt: min(names.values())
            for attempt, names in self._names(table_uuid).items()
            if not is_finished(names)
        }

    def finished(self, table_uuid: str) -> tuple[str, ...]:
        """Return uuids of attempts that may be folded into the batch history; one listing, no reads."""
        return tuple(attempt for attempt, names in self._names(table_uuid).items() if is_finished(names))

    def without_notice(self, table_uuid: str) -> tuple[str, ...]:
        """Return uuids of completed attempts without an entry about their notice, oldest first; no reads."""
        begun = {
            attempt: min(names.values())
            for attempt, names in self._names(table_uuid).items()
            if is_complete(names) and not has_mark(names, Phase.NOTIFIED)
        }
        return tuple(sorted(begun, key=lambda attempt: (begun[attempt], attempt)))

    def read_each(self, table_uuid: str, attempts: Iterable[str]) -> Iterator[Attempt]:
        """Yield these attempts in this order, each read on request; skip those no longer in the log."""
        names = self._names(table_uuid)
        return (self._fold(table_uuid, a, names[a]) for a in attempts if a in names)

    def read(self, table_uuid: str, attempts: Iterable[str]) -> tuple[Attempt, ...]:
        """Return these attempts, oldest first."""
        wanted = frozenset(attempts)
        names = self._names(table_uuid)
        return self._read_attempts(table_uuid, {a: names[a] for a in wanted & names.keys()})

    def objects(self, table_uuid: str) -> tuple[int, int]:
        """Return number and total bytes of the table's objects."""
        sizes = [file.size_bytes for file in self.store.list(table_uuid)]
        return len(sizes), sum(sizes)

    def delete_attempts(self, table_uuid: str, attempts: Iterable[str]) -> int:
        """Delete the objects of attempts that the batch history has; return their number.

        What says "finished" goes last: dying in between leaves a finished attempt.
        """
        doomed = frozenset(attempts)
        files = [file for file in self.store.list(table_uuid) if _attempt_of(file.location) in doomed]
        files.sort(key=lambda file: (is_finished([file.name]), -_number(file.name)))
        for file in files:
            self.store.delete(file)
        for attempt in doomed:  # a zombie's late object keeps its folder
            self.store.remove_folder(f"{table_uuid}/{attempt}")
        return len(files)

    def _names(self, table_uuid: str) -> dict[str, dict[str, int]]:
        """Return object names and write times by attempt."""
        names: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for file in self.store.list(table_uuid):
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
        # One that is gone reads as a phase that did not happen.
        objects = {name: self.store.read(f"{table_uuid}/{attempt}/{name}") or "" for name in names}
        return fold(table_uuid, attempt, objects)


def _attempt_of(location: str) -> str:
    return location.rsplit("/", 2)[1]


def _number(name: str) -> int:
    number = name.partition("-")[0]
    return int(number) if number.isdigit() else 0

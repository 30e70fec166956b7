"""The files that a scan has to open, from manifests that were read before where that can be.

A manifest never changes. What it holds is kept by its path: a process that plans again and again, as one that
answers queries, reads each once and not for every query.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from threading import Lock
from typing import TYPE_CHECKING, Any

from pyiceberg.table import ManifestGroupPlanner

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestEntry, ManifestFile
    from pyiceberg.table import DataScan, FileScanTask

MOST_FILES = 2_000  # some kilobytes each


def planned_files(scan: DataScan) -> Iterable[FileScanTask]:
    """Return what ``scan.plan_files`` does; a server that plans itself is asked each time."""
    snapshot = scan.snapshot()
    if snapshot is None or scan._should_use_server_side_planning():  # noqa: SLF001  (says who plans)
        return scan.plan_files()
    planner = ManifestGroupPlanner(
        scan.table_metadata, scan.io, scan.row_filter, scan.case_sensitive, scan.options
    )
    manifests = _kept.of(snapshot.manifest_list, lambda: snapshot.manifests(scan.io))
    as_planned: list[Any] = [_Manifest(each) for each in manifests]
    return planner.plan_files(as_planned)


class _Kept:
    """What lists and manifests hold, by their path, ``MOST_FILES`` in all; any number of threads may ask."""

    def __init__(self) -> None:
        self._by_path: OrderedDict[str, list[Any]] = OrderedDict()
        self._files = 0
        self._lock = Lock()

    def of(self, path: str, read: Callable[[], list[Any]]) -> list[Any]:
        """Return what the file of this path holds; what was not asked for longest is let go of first."""
        with self._lock:
            if path in self._by_path:
                self._by_path.move_to_end(path)
                return self._by_path[path]
        found = read()
        with self._lock:
            if path not in self._by_path:
                self._by_path[path] = found
                self._files += len(found)
            while self._files > MOST_FILES:
                self._files -= len(self._by_path.popitem(last=False)[1])
        return found


_kept = _Kept()


class _Manifest:
    """A manifest whose entries are kept; all else is its own."""

    def __init__(self, file: ManifestFile) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def fetch_manifest_entry(self, io: FileIO, *, discard_deleted: bool) -> list[ManifestEntry]:
        """Return what the manifest has of files that are there, which is all that planning asks for."""
        if not discard_deleted:
            raise AssertionError("files that are gone are no part of a plan")
        return _kept.of(self._file.manifest_path, lambda: self._file.fetch_manifest_entry(io))

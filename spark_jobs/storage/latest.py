"""Shared texts under ``state:``; the newest counts.

``<folder>/<number>.json``: each is a create-only object, like all that lies there; the highest number is in
force, and those before it are deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_jobs.storage.create_only import CreateOnlyStore, StoredFile


def read_latest(store: CreateOnlyStore, folder: str) -> str | None:
    """Return the newest text, or None. Raises like the store."""
    while numbered := _numbered(store, folder):
        # One that went between listing and reading has a successor.
        text = store.read(f"{folder}/{numbered[-1].name}")
        if text is not None:
            return text
    return None


def write_latest(store: CreateOnlyStore, folder: str, text: str) -> None:
    """Write a new text; of two concurrent writes the higher number counts. Raises like the store."""
    earlier = _numbered(store, folder)
    number = int(earlier[-1].name.removesuffix(".json")) + 1 if earlier else 1
    while not store.create(f"{folder}/{number:012d}.json", text):
        number += 1
    for file in earlier:
        store.delete(file)


def _numbered(store: CreateOnlyStore, folder: str) -> list[StoredFile]:
    files = (file for file in store.list(folder) if file.name.removesuffix(".json").isdigit())
    return sorted(files, key=lambda file: file.name)

"""Texts of which the newest counts, in a folder and in a bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs.storage.create_only import CreateOnlyStore
from spark_jobs.storage.latest import read_latest, write_latest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["local", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> CreateOnlyStore:
    """What lies under ``state:``."""
    if request.param == "local":
        return CreateOnlyStore(tmp_path.as_uri(), {})
    s3 = request.getfixturevalue("s3")
    return CreateOnlyStore(f"s3://{s3.bucket}/latest", s3.pyiceberg_properties)


def test_the_last_text_is_in_force_and_the_only_one_kept(store: CreateOnlyStore) -> None:
    """However many come, and whatever lies in a folder beside."""
    assert read_latest(store, "topics") is None
    for number in range(12):
        write_latest(store, "topics", f"text {number}")
    write_latest(store, "topics2", "another")
    assert read_latest(store, "topics") == "text 11"
    assert len(store.list("topics/")) == 1


def test_a_text_that_goes_while_it_is_read_has_a_successor(store: CreateOnlyStore) -> None:
    """A reader that listed before a writer deleted reads what that writer put in force."""
    write_latest(store, "note", "old")
    read = store.read

    def read_late(path: str) -> str | None:
        store.read = read  # type: ignore[method-assign]
        write_latest(store, "note", "new")
        return read(path)

    store.read = read_late  # type: ignore[method-assign]
    assert read_latest(store, "note") == "new"

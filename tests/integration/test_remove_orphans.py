"""Orphan removal on real tables: what goes, what stays, and what makes it refuse."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from prove.lab.pipeline_lab import TABLE, configure, orders
from prove.lab.s3 import S3, make_objects_old
from spark_jobs.acts.held_batches import publish
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.storage.paths import normalise_path
from tests.support.new_lab import DEAD_LETTERS
from tests.support.upkeep_lab import BROKEN, drain_often, expect_whole, tidy

if TYPE_CHECKING:
    from pyiceberg.io import InputFile
    from pyiceberg.table import Table

    from prove.lab.pipeline_lab import Lab
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

DAYS_AGO = 5 * 86_400


def folder_of(lab: Lab, identifier: str | None = None) -> Path:
    """Where the table lies."""
    return Path(normalise_path(lab.table(identifier or lab.pipeline.table).location()))


def age(folder: Path) -> None:
    """Make every file below the folder five days old."""
    then = time.time() - DAYS_AGO
    for path in folder.rglob("*"):
        os.utime(path, (then, then))


def stray(folder: Path, name: str) -> Path:
    """A file that nothing knows."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"stray")
    return path


def test_old_strays_go_and_everything_else_stays(new_lab: NewLab) -> None:
    """Of files that are all old the strays go, from both tables; young ones and the tables' own stay."""
    lab = new_lab()
    drain_often(lab, new_lab, 2)
    data, dead_letters = folder_of(lab), folder_of(lab, DEAD_LETTERS)
    old = [
        stray(data, "data/x.parquet"),
        stray(data, "metadata/x-m0.avro"),
        stray(dead_letters, "data/at=1/y.parquet"),
    ]
    age(data)
    age(dead_letters)
    young = stray(data, "data/young.parquet")
    looked = tidy(lab, "orphans", is_rehearsal=True)
    assert [table.done.counts["deletable"] for table in looked.tables] == [2, 1]
    assert all(path.exists() for path in old)
    done = tidy(lab, "orphans")
    assert [table.done.counts["deleted"] for table in done.tables] == [2, 1]
    assert [path for path in (*old, young) if path.exists()] == [young]
    drain_often(lab, new_lab, 1)
    expect_whole(lab, 3)


def test_the_files_of_a_batch_between_write_and_commit_stay(new_lab: NewLab) -> None:
    """A run that is stopped for days after it wrote its files finds them, and its commit is readable."""
    lab = new_lab()
    drain_often(lab, new_lab, 1)
    new_lab.produce(lab, [b'{"id": 1}', b"broken"])
    with lab.stopped_at("commit.before-swap") as stopped:
        # The log's objects tell when the attempt began: before it wrote its files.
        age(Path(lab.config.state))
        gone = stray(folder_of(lab), "data/x.parquet")
        for identifier in (lab.pipeline.table, DEAD_LETTERS):
            age(folder_of(lab, identifier))
        done = tidy(lab, "orphans")
        assert not gone.exists()
        assert done.tables[0].done.counts["kept_unfinished"] >= 1
        stopped.go_on()
        assert stopped.answer().error is None
    found = lab.audit()
    assert found.is_clean, found
    assert (found.rows, found.dead_letters, found.lag) == (11, 2, 0)
    assert lab.rows().num_rows == 11


def test_the_files_of_a_held_batch_stay(new_lab: NewLab) -> None:
    """However long its operator takes: published in the end, its rows can be read."""
    cheap = {"expect_column_values_to_be_between": {"column": "id", "max_value": 99}}
    lab = new_lab(quality=[{"name": "strict", "when": "gate", "expectations": [cheap]}])
    drain_often(lab, new_lab, 1)
    new_lab.produce(lab, [*orders(100, 10), BROKEN])
    assert lab.drain().stopped == "held"
    age(Path(lab.config.state))
    for identifier in (TABLE, DEAD_LETTERS):
        age(folder_of(lab, identifier))
    done = tidy(lab, "orphans")
    assert [table.done.counts["deleted"] for table in done.tables] == [0, 0]
    assert [table.done.counts["kept_unfinished"] for table in done.tables] == [1, 1]
    with lab.connections() as connections:
        publish(lab.pipeline, connections, reason="test")
    expect_whole(lab, 2)


def test_strays_in_an_object_store(new_lab: NewLab, s3: S3) -> None:
    """Old ones go; young ones, the tables' files and those of a run stopped before its commit stay."""
    lab = new_lab()
    warehouse = f"s3://{s3.bucket}/lake"
    configure(lab, "catalog", {"warehouse": warehouse, **s3.pyiceberg_properties})
    configure(lab, "", {"state": f"s3://{s3.bucket}/log"})
    drain_often(lab, new_lab, 2)
    strays = [_store(lab.table(name), "data/x.parquet") for name in (TABLE, DEAD_LETTERS)]
    new_lab.produce(lab, [*orders(20, 10), BROKEN])
    with lab.stopped_at("commit.before-swap") as stopped:
        make_objects_old(s3.endpoint, f"s3://{s3.bucket}")
        young = _store(lab.table(), "data/young.parquet")
        done = tidy(lab, "orphans")
        assert [table.done.counts["deleted"] for table in done.tables] == [1, 1]
        assert done.tables[0].done.counts["kept_unfinished"] >= 1
        assert not any(stray.exists() for stray in strays)
        assert young.exists()
        stopped.go_on()
        assert stopped.answer().error is None
    expect_whole(lab, 3)


def _store(table: Table, name: str) -> InputFile:
    """Put a file that nothing knows below the table's location."""
    location = f"{table.location()}/{name}"
    with table.io.new_output(location).create() as stream:
        stream.write(b"stray")
    return table.io.new_input(location)


def test_a_shared_location_is_refused(new_lab: NewLab) -> None:
    """Another table inside ours: nothing is listed or deleted, and the error names it."""
    lab = new_lab()
    drain_often(lab, new_lab, 1)
    inside = f"{lab.table().location()}/data/theirs"
    with lab.connections() as connections:
        catalog = connections.open_catalog()
        catalog.create_table("lab.theirs", lab.table().schema(), location=inside)
    kept = stray(folder_of(lab), "data/theirs/data/x.parquet")
    age(folder_of(lab))
    with pytest.raises(ConfigError) as raised:
        tidy(lab, "orphans")
    assert raised.value.code == "shared-location"
    assert "lab.theirs" in raised.value.message
    assert kept.exists()

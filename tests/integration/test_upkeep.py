"""Compaction, snapshot expiry and manifest rewrite of real tables, on Postgres and on REST over S3.

The REST catalog verifies signatures and vends credentials here, for Iceberg's Java library to meet both.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyiceberg.table.snapshots import Operation

from prove.lab.catalog_guard import (
    CLIENT_ID,
    CLIENT_SECRET,
    SignatureGuard,
    TokenGuard,
    VendedStore,
    VendingProxy,
)
from prove.lab.pipeline_lab import progress
from spark_jobs.books.entries import books_of
from spark_jobs.books.fold import checkpoint
from spark_jobs.protocol.errors import RetryableError
from tests.support.new_lab import serve_from
from tests.support.upkeep_lab import BROKEN, drain_often, expect_whole, set_upkeep, tidy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table.snapshots import Snapshot

    from prove.lab.pipeline_lab import Lab
    from prove.lab.s3 import S3
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

DRAINS = 5


@pytest.fixture
def guarded_catalog_properties(rest_catalog_properties: dict[str, str]) -> Iterator[dict[str, str]]:
    """PyIceberg's properties for the REST catalog behind its guards; nobody has keys for its store."""
    own = {name: value for name, value in rest_catalog_properties.items() if not name.startswith("s3.")}
    signing = {"key": "AKID", "secret": "signing-secret", "region": "us-east-1", "service": "glue"}
    with (
        VendedStore(rest_catalog_properties["s3.endpoint"]) as store,
        VendingProxy(own["uri"], store) as vending,
        SignatureGuard(vending.url, **signing) as guard,
    ):
        yield {
            **own,
            "uri": guard.url,
            "rest.sigv4-enabled": "true",
            "rest.signing-name": "glue",
            "client.region": "us-east-1",
            "client.access-key-id": "AKID",
            "client.secret-access-key": "signing-secret",
        }
        assert guard.verified > 0
        assert store.refused == 0


@pytest.fixture(params=["postgres", pytest.param("guarded", marks=pytest.mark.rest)])
def lab(new_lab: NewLab, request: pytest.FixtureRequest) -> Lab:
    """A table of a few small commits, each with a dead letter."""
    lab = new_lab(partitions=2)
    s3: S3 = request.getfixturevalue("s3")
    serve_from(lab, request.getfixturevalue(f"{request.param}_catalog_properties"), s3)
    set_upkeep(lab, compact_above=5, keep_snapshots=3)
    drain_often(lab, new_lab, DRAINS)
    return lab


def test_a_table_through_all_its_upkeep(lab: Lab, new_lab: NewLab) -> None:
    """Files, manifests and snapshots become few, main is the anchor, and the rows are the same in order."""
    result = tidy(lab, "compaction")
    for table in result.tables:
        assert table.before.data_files >= DRAINS
        assert table.after.data_files == 1, table
        assert table.after.rows == table.before.rows
    assert progress(lab).compacted_files == 1
    rows = [(row["_kafka_partition"], row["_kafka_offset"]) for row in lab.rows().to_pylist()]
    assert rows == sorted(rows)
    expect_whole(lab, DRAINS)

    drain_often(lab, new_lab, 2)
    merged = tidy(lab, "manifests")
    assert [table.after.manifests for table in merged.tables] == [1, 1]
    for identifier in lab.tables:
        main = lab.table(identifier).metadata.current_snapshot_id
        assert progress(lab, identifier).anchor == main

    expired = tidy(lab, "snapshots")
    assert [table.after.snapshots for table in expired.tables] == [3, 3]
    drain_often(lab, new_lab, 1)
    expect_whole(lab, DRAINS + 3)
    assert tidy(lab, "compaction").tables[0].done.note == "no partition has enough small files to merge"


@pytest.mark.rest
def test_spark_renews_a_token_by_the_clients_credentials(
    new_lab: NewLab, rest_catalog_properties: dict[str, str], s3: S3
) -> None:
    """Where tokens are not exchanged, Iceberg's Java library would go on with the ended one."""
    lab = new_lab()
    with TokenGuard(rest_catalog_properties["uri"], lasts_seconds=1) as guard:
        login = {"uri": guard.url, "credential": f"{CLIENT_ID}:{CLIENT_SECRET}"}
        serve_from(lab, {**rest_catalog_properties, **login}, s3)
        set_upkeep(lab, compact_above=5, keep_snapshots=3)
        drain_often(lab, new_lab, DRAINS)
        tidy(lab, "compaction")
        guard.end_tokens()
        given, deadline = guard.given, time.monotonic() + 30
        while guard.given == given:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert [table.after.snapshots for table in tidy(lab, "snapshots").tables] == [3, 3]


def test_cold_partitions_are_merged_first_and_each_is_committed_by_itself(new_lab: NewLab) -> None:
    """What a compaction that is stopped had done stays done, and it began where no drain writes any more."""
    lab = new_lab(partition_by=["id"])
    set_upkeep(lab, compact_above=5)
    yesterday_us = int((time.time() - 86_400) * 1e6)
    for value in (b'{"id": 2}', b'{"id": 1}', b'{"id": 3}'):
        for _ in range(5):
            new_lab.produce(lab, [value])
            replace(lab, is_here=True).drain(**({"now_us": lambda: yesterday_us} if b"2" in value else {}))
    before = {snapshot.snapshot_id for snapshot in lab.table().metadata.snapshots}
    compacted = tidy(lab, "compaction").tables[0]
    assert (compacted.before.data_files, compacted.after.data_files) == (15, 3)
    table = lab.table()
    made = [s for s in table.metadata.snapshots if s.snapshot_id not in before and replaces(s)]
    assert len(made) == 3
    files = [task.file for task in table.scan(snapshot_id=made[0].snapshot_id).plan_files()]
    assert Counter(file.partition[0] for file in files) == {1: 5, 2: 1, 3: 5}


def test_a_compaction_that_merges_nothing_fails(new_lab: NewLab) -> None:
    """Iceberg counts the files of a group that failed and goes on: with none merged that is no success."""
    lab = new_lab()
    set_upkeep(lab, compact_above=5)
    drain_often(lab, new_lab, DRAINS)
    _lose_a_file(lab)
    with pytest.raises(RetryableError, match="5 files could not be merged; 0 files were merged"):
        tidy(lab, "compaction")
    drain_often(lab, new_lab, 1)


def test_a_compaction_that_merges_some_says_so_and_leaves_a_table_that_goes_on(new_lab: NewLab) -> None:
    """Cold files are tried twice and counted once; the dead letters are merged all the same."""
    lab = new_lab(partition_by=["id"])
    set_upkeep(lab, compact_above=5)
    yesterday_us = int((time.time() - 86_400) * 1e6)
    for value in (b'{"id": 1}', b'{"id": 2}', b'{"id": 3}'):
        for _ in range(5):
            new_lab.produce(lab, [value, BROKEN])
            replace(lab, is_here=True).drain(now_us=lambda: yesterday_us)
    _lose_a_file(lab)
    said: list[str] = []
    with pytest.raises(RetryableError, match="5 files could not be merged; 10 files were merged"):
        tidy(lab, "compaction", say=said.append)
    assert any("5 files could not be merged" in line for line in said)
    assert len(list(lab.table().scan().plan_files())) == 7
    assert len(list(lab.table(lab.tables[1]).scan().plan_files())) == 1
    new_lab.produce(lab, [b'{"id": 4}'])
    lab.drain()


def _lose_a_file(lab: Lab) -> None:
    lost = next(iter(lab.table().scan().plan_files())).file.file_path
    Path(lost.removeprefix("file://")).unlink()


def replaces(snapshot: Snapshot) -> bool:
    """Whether the snapshot is a compaction's."""
    return snapshot.summary is not None and snapshot.summary.operation is Operation.REPLACE


def test_expiry_keeps_what_a_person_holds_and_takes_what_is_old(new_lab: NewLab) -> None:
    """A tag's snapshot and a branch's stay, whatever their age; main keeps its newest, and drains go on."""
    lab = new_lab()
    drain_often(lab, new_lab, 4)
    oldest, second, *_ = lab.table().metadata.snapshots
    with lab.table().manage_snapshots() as manage:
        manage.create_tag(oldest.snapshot_id, "audited")
    with lab.table().manage_snapshots() as manage:
        manage.create_branch(second.snapshot_id, "experiment")
    rows = lab.table().scan(snapshot_id=second.snapshot_id).to_arrow()
    assert tidy(lab, "snapshots").tables[0].done.note == "no snapshot is beyond what is kept"
    in_a_year_us = int((time.time() + 365 * 86_400) * 1e6)
    tidy(lab, "snapshots", changes={"now_us": lambda: in_a_year_us})
    table = lab.table()
    main = table.metadata.current_snapshot_id
    assert {each.snapshot_id for each in table.metadata.snapshots} == {
        oldest.snapshot_id,
        second.snapshot_id,
        main,
    }
    assert table.scan(snapshot_id=second.snapshot_id).to_arrow().equals(rows)
    drain_often(lab, new_lab, 1)
    expect_whole(lab, 5)


def test_the_books_are_tidied_with_the_tables_they_are_of(new_lab: NewLab) -> None:
    """A fold's file each becomes one file and few snapshots, and every attempt is still in them once."""
    lab = new_lab()
    set_upkeep(lab, compact_above=5, keep_snapshots=2)
    books = books_of(lab.pipeline.table)
    for _ in range(5):
        drain_often(lab, new_lab, 1)
        with lab.connections() as connections:
            checkpoint(lab.pipeline, connections)
    (compacted,) = [table for table in tidy(lab, "compaction").tables if table.table == books]
    assert (compacted.before.data_files, compacted.after.data_files) == (5, 1)
    (expired,) = [table for table in tidy(lab, "snapshots").tables if table.table == books]
    assert expired.after.snapshots == 2
    drain_often(lab, new_lab, 1)
    with lab.connections() as connections:
        checkpoint(lab.pipeline, connections)
    attempts = lab.rows(books).column("attempt").to_pylist()
    assert len(attempts) == len(set(attempts)) == 6

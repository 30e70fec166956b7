"""What an earlier version left, at rest or in the middle of something, is this version's to go on with."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from prove.lab.pipeline_lab import TABLE, by_offset, configure, progress
from prove.lab.registry_stand_in import RegistryStandIn
from spark_jobs.acts.act import resume
from spark_jobs.acts.held_batches import publish
from spark_jobs.books.fold import checkpoint
from spark_jobs.books.history import history
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.progress import PROPERTY_FORMAT_VERSION
from spark_jobs.replay.rebuild import rebuild
from tests.golden.make import as_json, in_avro
from tests.support.golden import (
    FORMAT_1,
    FORMAT_1_BY_SCHEMA,
    FORMAT_4_MIRROR,
    FORMATS_2_3_5,
    Golden,
    put_up,
)
from tests.support.new_lab import DEAD_LETTERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prove.lab.kafka_server import Record
    from prove.lab.pipeline_lab import Lab

pytestmark = [pytest.mark.kafka]


@pytest.fixture(scope="module")
def golden(servers_folder: Path, s3_endpoint: str) -> Iterator[Golden]:
    """All pipelines of the first format."""
    state = put_up(FORMAT_1, servers_folder, s3_endpoint)
    yield state
    state.kafka.process.stop()


@pytest.fixture(scope="module")
def by_schema(servers_folder: Path, s3_endpoint: str) -> Iterator[Golden]:
    """The pipeline of the first format that is drained by schemas."""
    state = put_up(FORMAT_1_BY_SCHEMA, servers_folder, s3_endpoint)
    yield state
    state.kafka.process.stop()


@pytest.fixture(scope="module")
def mirrors(servers_folder: Path, s3_endpoint: str) -> Iterator[Golden]:
    """The mirrors of the fourth format."""
    state = put_up(FORMAT_4_MIRROR, servers_folder, s3_endpoint)
    yield state
    state.kafka.process.stop()


@pytest.fixture(scope="module")
def later(servers_folder: Path, s3_endpoint: str) -> Iterator[Golden]:
    """The pipelines of the second, third and fifth format."""
    state = put_up(FORMATS_2_3_5, servers_folder, s3_endpoint)
    yield state
    state.kafka.process.stop()


def _ids(lab: Lab) -> list[int]:
    return sorted(row["id"] for row in by_offset(lab).values())


def test_a_verified_batch_is_adopted_and_the_table_goes_on(golden: Golden) -> None:
    """The batch is not read again; new records follow, a range is replayed, history shows all of it."""
    lab = golden.lab("landed", max_batch_records=40)
    result = lab.drain()
    assert (len(result.recovery.adopted), len(result.batches), result.stopped) == (1, 0, "caught-up")
    golden.broker.produce(lab.pipeline.topic, [b'{"id": 160, "customer": "new"}', b"not json"])
    assert len(lab.drain().batches) == 1
    lab.replay(OffsetRange(0, 0, 30), OffsetRange(1, 5, 20))
    assert _ids(lab) == list(range(161))
    assert lab.rows(DEAD_LETTERS).num_rows == 3
    found = lab.audit()
    assert found.is_clean, found
    with lab.connections() as connections:
        assert checkpoint(lab.pipeline, connections).folded_attempts
        lines = history(lab.pipeline, connections, limit=100)
    assert {line.entry.kind for line in lines} >= {"drain", "replay"}
    assert lab.stray_files() == set()


def test_files_that_were_never_logged_are_swept(golden: Golden) -> None:
    """Their range is read again, each record is in the table once, and no file is left."""
    lab = golden.lab("swept")
    assert len(lab.stray_files()) > 0
    result = lab.drain()
    assert (len(result.recovery.swept), len(result.batches)) == (1, 1)
    assert _ids(lab) == list(range(80))
    assert lab.stray_files() == set()
    assert lab.audit().is_clean


def test_dead_letters_that_are_owed_are_paid(golden: Golden) -> None:
    """The commit that landed names their files; the next drain brings them in."""
    lab = golden.lab("owing")
    assert lab.rows(DEAD_LETTERS).num_rows == 0
    assert lab.drain().batches == ()
    assert lab.rows(DEAD_LETTERS).num_rows == 2
    assert lab.audit().is_clean


def test_a_held_batch_is_still_held_and_can_be_published(golden: Golden) -> None:
    """A drain stops at it; published, its rows are in."""
    lab = golden.lab("held")
    assert lab.drain().stopped == "held"
    with lab.connections() as connections:
        publish(lab.pipeline, connections, reason="looked at")
    assert _ids(lab) == [*range(40), *range(200, 210)]
    assert lab.drain().stopped == "caught-up"
    assert lab.audit().is_clean


def test_what_an_operator_did_still_holds(golden: Golden) -> None:
    """The pause, the skipped offsets and the fence of the rollback; resumed, the rest comes in."""
    lab = golden.lab("acted")
    stood = progress(lab)
    assert (stood.paused and stood.paused.reason, stood.rollbacks) == ("the broker moves", 1)
    assert lab.drain().stopped == "paused"
    with lab.connections() as connections:
        resume(lab.pipeline, connections, reason="it has moved")
    assert lab.drain().stopped == "caught-up"
    (skipped,) = progress(lab).skipped
    assert set(by_offset(lab)) == {
        (partition, offset)
        for partition, end in ((0, 92), (1, 28))
        for offset in range(end)
        if not (partition == skipped.partition and skipped.start <= offset < skipped.end)
    }
    found = lab.audit()
    assert found.is_clean, found


def test_a_table_from_before_column_maps_gets_one(by_schema: Golden) -> None:
    """Without its registry it is drained, replayed and audited; a later schema finds its columns."""
    lab = by_schema.lab("by-schema", value={"format": "avro", "registry": "main"})
    configure(lab, "", {"registries": {"main": {"url": "http://127.0.0.1:1"}}})
    assert (progress(lab).columns, len(progress(lab).schemas)) == ({}, 2)
    assert len(lab.drain().recovery.adopted) == 1
    lab.replay(OffsetRange(0, 0, 21), OffsetRange(1, 30, 50))
    assert _ids(lab) == list(range(120))
    assert lab.audit().is_clean
    with RegistryStandIn() as registry:
        configure(lab, "", {"registries": {"main": {"url": registry.url}}})
        for known in ("the first", "the second"):  # which nobody asks for again
            registry.register("orders", known)
        by_schema.broker.produce(lab.pipeline.topic, [_of_later_schema(registry, n) for n in range(120, 130)])
        assert len(lab.drain().batches) == 1
    assert _ids(lab) == list(range(130))
    assert lab.audit().is_clean
    rows = {row["id"]: row for row in by_offset(lab).values()}
    assert [rows[n]["price"] for n in (0, 119, 120)] == [0.5, 119.5, 120.25]
    assert [(rows[n]["code"], rows[n]["code_2"]) for n in (8, 125)] == [(1, None), (None, "c125")]
    assert set(progress(lab).columns) == {"id", "price", "amount", "code", "customer"}


@pytest.mark.parametrize(("name", "told_again"), [("mirrored", 1), ("in-flight", 0)])
def test_a_mirror_of_before_gets_a_source(mirrors: Golden, name: str, told_again: int) -> None:
    """It goes on, its files without a column for it are adopted, and what was told before is known again."""
    lab = replace(mirrors.lab(name, layout="mirror"), is_here=True)
    before = progress(lab).cdc
    assert (before and before.source, progress(lab).format_version) == (None, 4)
    assert "_cdc_source" not in lab.table().schema().column_names
    result = lab.drain()
    assert result.balance.get("told_again", 0) == told_again
    assert len(result.recovery.adopted) == (name == "in-flight")
    scores = {row["id"]: row["score"] for row in lab.rows().to_pylist()}
    changed = {4: 44, 5: 55} if told_again else {4: 44}
    assert scores == {n: n for n in range(10) if n != 3} | changed
    assert lab.audit().is_clean


ROUTE = {"by": "kind", "tables": {"refund": "sales.refunds", "void": "sales.voids"}}
LEFT: dict[str, tuple[str, dict[str, Any], list[Record], str]] = {
    "by-fields": (
        "2",
        {"value": {"format": "avro", "file": "order.avsc", "framing": "none"}},
        in_avro(30, 1),
        "id",
    ),
    "archived": ("2", {"layout": "archive"}, as_json({"id": 5}), "_kafka_offset"),
    "redriven": ("3", {}, as_json({"id": 5}), "id"),
    "routed": ("3", {"route": ROUTE}, as_json({"id": 7, "kind": "sale"}), "id"),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_of_a_later_format_goes_on(later: Golden, name: str) -> None:
    """What was begun is finished, what is owed paid; it is drained, replayed and redriven on, and exact."""
    version, settings, more, column = LEFT[name]
    lab = later.lab(name, **settings)
    assert lab.table().properties[PROPERTY_FORMAT_VERSION] == version
    expected = json.loads((lab.path.parent / "expected.json").read_text())
    assert len(lab.drain().recovery.adopted) == (name != "routed")
    assert {table: _in_column(lab, table, column) for table in expected} == expected
    assert lab.audit().is_clean
    later.broker.produce(name, more)
    assert len(lab.drain().batches) == 1
    lab.replay(OffsetRange(0, 1, 3))
    if name != "archived":
        lab.redrive()
    expected[TABLE].append(max(expected[TABLE]) + 1)
    assert {table: _in_column(lab, table, column) for table in expected} == expected
    assert lab.table().properties[PROPERTY_FORMAT_VERSION] >= version
    found = lab.audit()
    assert found.is_clean, found


def test_a_mirror_with_a_source_goes_on(later: Golden) -> None:
    """Its batch is adopted, and made anew by a rebuild it is the same."""
    lab = later.lab("mirrored-from", layout="mirror")
    assert lab.table().properties[PROPERTY_FORMAT_VERSION] == "5"
    expected = json.loads((lab.path.parent / "expected.json").read_text())
    assert len(lab.drain().recovery.adopted) == 1
    assert _scores(lab) == {int(key): score for key, (score, _) in expected.items()}
    assert lab.audit().is_clean
    with lab.connections() as connections:
        rebuild(lab.pipeline, connections, reason="test")
    assert _scores(lab) == {int(key): score for key, (score, _) in expected.items()}
    assert lab.audit().is_clean


def _in_column(lab: Lab, table: str, column: str) -> list[Any]:
    return sorted(row[column] for row in by_offset(lab, table).values())


def _scores(lab: Lab) -> dict[int, int]:
    return {row["id"]: row["score"] for row in lab.rows().to_pylist()}


def _of_later_schema(registry: RegistryStandIn, number: int) -> bytes:
    """Return an order whose price is called otherwise and is wider, and whose code is of another type."""
    fields: list[dict[str, Any]] = [
        {"name": "id", "type": "long"},
        {"name": "amount", "aliases": ["price"], "type": "double"},
        {"name": "code", "type": "string"},
    ]
    schema = {"type": "record", "name": "Order", "fields": fields}
    out = io.BytesIO()
    order = {"id": number, "amount": number + 0.25, "code": f"c{number}"}
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), order)
    return b"\0" + registry.register("orders", json.dumps(schema)).to_bytes(4) + out.getvalue()

"""What an earlier version left, at rest or in the middle of something, is this version's to go on with."""

from __future__ import annotations

import io
import json
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import fastavro
import pytest

from prove.lab.generated_changes import RandomSource, SourceEvent
from prove.lab.pipeline_lab import TABLE, by_offset, configure, progress
from prove.lab.registry_stand_in import RegistryStandIn
from spark_jobs.acts.act import resume
from spark_jobs.acts.held_batches import publish
from spark_jobs.books.fold import checkpoint
from spark_jobs.books.history import history
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.progress import FORMAT_VERSION
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


class Archives:
    """What earlier versions left, each put up once it is asked for."""

    def __init__(self, root: Path, s3_endpoint: str) -> None:
        self._place = root, s3_endpoint
        self._up: dict[Path, Golden] = {}

    def __getitem__(self, archive: Path) -> Golden:
        """Return it with its broker and bucket."""
        if archive not in self._up:
            self._up[archive] = put_up(archive, *self._place)
        return self._up[archive]

    def stop(self) -> None:
        """Stop their brokers."""
        for golden in self._up.values():
            golden.kafka.process.stop()


@pytest.fixture(scope="module")
def archives(servers_folder: Path, s3_endpoint: str) -> Iterator[Archives]:
    """All of them, for all tests of this file."""
    every = Archives(servers_folder, s3_endpoint)
    yield every
    every.stop()


@pytest.fixture
def golden(archives: Archives) -> Golden:
    """All pipelines of the first format."""
    return archives[FORMAT_1]


def _ids(lab: Lab) -> list[int]:
    return sorted(row["id"] for row in by_offset(lab).values())


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


def test_a_table_from_before_column_maps_gets_one(archives: Archives) -> None:
    """Without its registry it is drained, replayed and audited; a later schema finds its columns."""
    by_schema = archives[FORMAT_1_BY_SCHEMA]
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


def test_a_mirror_of_before_gets_a_source(archives: Archives) -> None:
    """It goes on, and what was told before is known again."""
    lab = archives[FORMAT_4_MIRROR].lab("mirrored", layout="mirror")
    before = progress(lab).cdc
    assert (before and before.source, progress(lab).format_version) == (None, 4)
    assert "_cdc_source" not in lab.table().schema().column_names
    assert lab.drain().balance["told_again"] == 1
    assert _there(lab) == {TABLE: {n: n for n in range(10) if n != 3} | {4: 44, 5: 55}}
    assert lab.audit().is_clean


ROUTE = {"by": "kind", "tables": {"refund": "sales.refunds", "void": "sales.voids"}}
IN_AVRO = {"value": {"format": "avro", "file": "order.avsc", "framing": "none"}}
CAREFUL = {"schema": {"new_fields": "dead_letter"}}
MIRROR = {"layout": "mirror"}
SOURCE = RandomSource(4)
_BEGUN, LATER = ([told.record(1) for told in SOURCE.changes(count)] for count in (16, 2))
SCORES = {n: n for n in range(10) if n != 3} | {4: 44}


def _told_of_order(told: SourceEvent) -> Record:
    record = told.record(1)
    return replace(record, value=(record.value or b"").replace(b'"customers"', b'"orders"'))


class Left(NamedTuple):
    """A pipeline that was left in the middle of something, and how each act on it ends.

    ``begun`` are its rows when what was begun is done, ``more`` what is drained then, ``rows`` those that it
    has in the end. ``redriven`` counts the letters that become rows and those that fail again. What is a
    text instead is the code of the error that refuses the act.
    """

    format: int
    archive: Path
    settings: dict[str, Any]
    begun: dict[str, Any]
    more: list[Record]
    rows: dict[str, Any]
    redriven: tuple[int, int] | str
    replayed: str = ""
    adopted: int = 1


LEFT = {
    "landed": Left(
        1,
        FORMAT_1,
        {"max_batch_records": 40, **CAREFUL},
        {TABLE: [*range(160)]},
        as_json({"id": 160}, {"id": 161, "new": 1}),
        {TABLE: [*range(162)]},
        (1, 2),
    ),
    "by-fields": Left(
        2, FORMATS_2_3_5, IN_AVRO, {TABLE: [*range(30)]}, in_avro(30, 1), {TABLE: [*range(31)]}, (0, 1)
    ),
    "archived": Left(
        2,
        FORMATS_2_3_5,
        {"layout": "archive"},
        {TABLE: [*range(5)]},
        as_json({"id": 5}),
        {TABLE: [*range(6)]},
        "redrive-archive",
    ),
    "redriven": Left(
        3,
        FORMATS_2_3_5,
        CAREFUL,
        {TABLE: [*range(5)]},
        as_json({"id": 5}, {"id": 6, "new": 1}),
        {TABLE: [*range(7)]},
        (1, 0),
    ),
    "routed": Left(
        3,
        FORMATS_2_3_5,
        {"route": ROUTE, **CAREFUL},
        {TABLE: [0, 6], "sales.refunds": [1, 4], "sales.voids": [2, 5]},
        as_json({"id": 7, "kind": "sale"}, {"id": 8, "kind": "void", "new": 1}),
        {TABLE: [0, 6, 7], "sales.refunds": [1, 4], "sales.voids": [2, 5, 8]},
        (1, 2),
        adopted=0,  # it landed, and owed what it had for others
    ),
    "in-flight": Left(
        4,
        FORMAT_4_MIRROR,
        MIRROR,
        {TABLE: SCORES},
        [_told_of_order(SourceEvent("u", 5, 1420, 1410, 1_700_000_001_420, 55))],
        {TABLE: SCORES | {5: 55}},
        "mirror-replay",
        "mirror-replay",
    ),
    "mirrored-from": Left(
        5,
        FORMATS_2_3_5,
        MIRROR,
        {TABLE: {7: 71, 20: 98, 4: 44, 1: 25, 8: 55}},
        LATER,
        {TABLE: {key: score for key, (score, _) in SOURCE.rows.items()}},
        "mirror-replay",
        "mirror-replay",
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_was_left_goes_on(archives: Archives, name: str) -> None:
    """What was begun is finished, what is owed paid; drained, replayed, redriven and rebuilt it is exact."""
    left = LEFT[name]
    lab = archives[left.archive].lab(name, **left.settings)
    assert progress(lab).format_version == left.format
    done = {"drain"}
    assert len(lab.drain().recovery.adopted) == left.adopted
    assert _there(lab) == left.begun
    assert lab.audit().is_clean
    archives[left.archive].broker.produce(name, left.more)
    assert len(lab.drain().batches) == 1
    with _refused(left.replayed):
        lab.replay(OffsetRange(0, 1, 3))
        done.add("replay")
    if "schema" in left.settings:
        configure(lab, "pipelines/orders", {"schema": None})
    with _refused(left.redriven):
        again = lab.redrive().balance
        assert (again.records - again.dead_letters, again.dead_letters) == left.redriven
        done.add("redrive")
    with lab.connections() as connections:
        if left.settings == MIRROR:
            rebuild(lab.pipeline, connections, reason="test")
            done.add("rebuild")
        assert checkpoint(lab.pipeline, connections).folded_attempts
        assert {line.entry.kind for line in history(lab.pipeline, connections, limit=100)} >= done
    assert _there(lab) == left.rows
    found = lab.audit()
    assert found.is_clean, found
    assert lab.stray_files() == set()
    assert progress(lab).format_version >= left.format


def test_no_format_is_left_out() -> None:
    """One of each is gone on with, and of each that has more than mirrors all acts are done."""
    assert {left.format for left in LEFT.values()} == {*range(1, FORMAT_VERSION + 1)}
    of_rows = {left.format for left in LEFT.values() if not isinstance(left.redriven, str)}
    assert of_rows == {left.format for left in LEFT.values() if left.settings != MIRROR}


@contextmanager
def _refused(how: object) -> Iterator[None]:
    if isinstance(how, str) and how:
        with pytest.raises(ConfigError) as refused:
            yield
        assert refused.value.code == how
    else:
        yield


def _there(lab: Lab) -> dict[str, Any]:
    """By table the ids of its rows, an archive's offsets, or the score of each of a mirror's rows."""
    if lab.pipeline.layout == "mirror":
        return {TABLE: {row["id"]: row["score"] for row in lab.rows().to_pylist()}}
    column = "_kafka_offset" if lab.pipeline.layout == "archive" else "id"
    tables = (TABLE, *lab.routed)
    return {table: sorted(row[column] for row in by_offset(lab, table).values()) for table in tables}


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

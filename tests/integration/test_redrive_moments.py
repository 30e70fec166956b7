"""Where a record is at every moment of a redrive, which no rollback crosses; no Kafka is there."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from prove.lab.pipeline_lab import Lab, by_offset, configure, progress
from spark_jobs.acts.act import act
from spark_jobs.acts.rollback import rollback
from spark_jobs.books.fold import checkpoint
from spark_jobs.commit.pending_commit import commit_pending
from spark_jobs.commit.swap import send, stage_append
from spark_jobs.lake.catalog import released
from spark_jobs.lake.coordinates import Coordinates
from spark_jobs.lake.data_files import to_data_file
from spark_jobs.lake.dead_letter_files import save_dead_letters, saved_files, whole_dead_letters
from spark_jobs.protocol.errors import ConfigError, CorruptLog, RetryableError
from spark_jobs.protocol.offsets import NO_RANGES, OffsetRange
from spark_jobs.protocol.progress import PendingDeadLetters
from spark_jobs.protocol.source import SourceState
from spark_jobs.protocol.works.changes import CANCEL
from spark_jobs.query.query import query
from spark_jobs.recovery.recover import recover
from spark_jobs.replay.redrive_plan import AHEAD, EARLIER_GENERATION, HAS_ROW, NO_TIME, Selection
from spark_jobs.replay.trial_rows import try_redrive
from tests.support.lake import TOPIC, Lake, write_letters
from tests.support.new_lab import DEAD_LETTERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.connections.connect import Connections

RECORDS, HALF = 20, 10
GOOD, BAD = (3, 7, 12), (5,)
LETTERS = {**{offset: json.dumps({"id": offset, "note": "n"}).encode() for offset in GOOD}, 5: b"{"}
POINTS = (
    "redrive.after-parquet-written",
    "redrive.before-swap",
    "redrive.after-swap",
    "dead-letters.before-swap",
    "dead-letters.after-swap",
)


class Died(Exception):
    """Ends a run where a test wants it."""


class DiesAt:
    """Fail points that end the run at one of them."""

    def __init__(self, name: str) -> None:
        self._name = name

    def reach(self, name: str) -> None:
        if name == self._name:
            raise Died


class NoTopic:
    """A topic of which Kafka holds everything, asked by a rollback alone."""

    def source_state(self, topic: str) -> SourceState:
        return SourceState(topic, "t", "c", {0: 0}, {0: RECORDS})


@pytest.fixture
def lab(tmp_path: Path, sqlite_catalog_properties: dict[str, str]) -> Lab:
    """Twenty records drained in two batches, with letters of which all but one can be rows."""
    document = {
        "version": 1,
        "kafka": {"bootstrap.servers": "127.0.0.1:1"},
        "catalog": sqlite_catalog_properties,
        "state": str(tmp_path / "state"),
        "spark": {},
        "pipelines": {"orders": {"topic": TOPIC, "table": "lab.orders"}},
    }
    path = tmp_path / "sluice.yaml"
    path.write_text(yaml.safe_dump(document))
    lab = Lab(path, is_here=True)
    _lake(lab).make_table("orders")
    for first in (0, HALF):
        _drain(lab, first, {at: value for at, value in LETTERS.items() if first <= at < first + HALF})
    return lab


def _lake(lab: Lab) -> Lake:
    return Lake("sqlite", dict(lab.config.catalog.properties), "lab")


def _drain(lab: Lab, first: int, letters: Mapping[int, bytes]) -> None:
    lake = _lake(lab)
    request = lake.request(first, first + HALF, table="orders", dead_letters=tuple(letters))
    for file in request.written.dead_letter_files:
        Path(file.path.removeprefix("file://")).unlink()  # of other values
    table = lake.load("orders_dead_letters")
    files = tuple(write_letters(table, 0, letters, request.attempt))
    request = replace(request, written=replace(request.written, dead_letter_files=files))
    with lab.connections() as connections:
        commit_pending(connections, "lab.orders", lake.commit(request).progress, {})


def _places(lab: Lab) -> dict[int, str]:
    """Where each offset is, as a reader sees it through a query."""
    sql = "SELECT _kafka_offset, 'row' FROM orders UNION ALL SELECT _kafka_offset, 'letter' FROM dead_letters"
    with lab.connections() as connections, query(lab.pipeline, connections, sql) as answer:
        found = [tuple(row.values()) for batch in answer.batches for row in batch.to_pylist()]
    assert max(Counter(offset for offset, _ in found).values()) == 1, found
    return dict(found)  # type: ignore[arg-type]


def _configure_twelve(lab: Lab, sql: str) -> None:
    configure(lab, "pipelines/orders", {"columns": {"twelve": {"type": "long", "sql": sql}}})


def _expected(*letters: int) -> dict[int, str]:
    return {offset: "letter" if offset in letters else "row" for offset in range(RECORDS)}


def _roll_back(lab: Lab, snapshot: int, connections: Connections, *, force: bool) -> None:
    there: Any = NoTopic()
    away = replace(connections, admin=there)
    rollback(lab.pipeline, away, to_snapshot=snapshot, reason="test", force=force)


@pytest.mark.parametrize("point", POINTS)
def test_a_record_is_in_one_place_wherever_a_redrive_dies(lab: Lab, point: str) -> None:
    """Before its commit a letter, after it a row; recovery finishes it, and a second redrive the rest."""
    with pytest.raises(Died):
        lab.redrive(fail_points=DiesAt(point))
    has_landed = progress(lab).redrives == 1
    assert has_landed is (POINTS.index(point) > 1)
    assert _places(lab) == (_expected(*BAD) if has_landed else _expected(*GOOD, *BAD))
    with lab.connections() as connections:
        recover(lab.pipeline, connections)
    if has_landed:
        assert list(by_offset(lab, DEAD_LETTERS)) == [(0, 5)]
    assert lab.redrive().balance.dead_letters == 1
    assert _places(lab) == _expected(*BAD)
    assert {row["note"] for (_, offset), row in by_offset(lab).items() if offset in GOOD} == {"n"}
    assert by_offset(lab, DEAD_LETTERS)[0, 5]["failures"] == 2 + has_landed
    assert lab.stray_files() == set()


def test_a_rollback_across_a_redrive_is_refused(lab: Lab) -> None:
    """By force too: the rows that the letters became would be lost. What was done stays."""
    before = lab.table().metadata.current_snapshot_id or 0
    lab.redrive()
    with lab.connections() as connections:
        for force in (False, True):
            with pytest.raises(ConfigError) as refused:
                _roll_back(lab, before, connections, force=force)
            assert refused.value.code == "redriven-since"
    assert _places(lab) == _expected(*BAD)


def test_letters_that_an_earlier_version_put_back_come_in(lab: Lab) -> None:
    """Until then nobody reads their table: they are told by name, and paid once each."""
    table = lab.table(DEAD_LETTERS)
    original = by_offset(lab, DEAD_LETTERS)
    with lab.connections() as connections:
        letters = whole_dead_letters(
            table, Coordinates.of([OffsetRange(0, 0, RECORDS)]), progress(lab).generation
        )
        kept = save_dead_letters(connections.state, str(lab.table().metadata.table_uuid), "then", letters)
        owed = PendingDeadLetters("then", NO_RANGES, (), replaces=True, returned=(kept,))
        lab.redrive()
        act(
            lab.pipeline.name,
            lab.table(),
            connections,
            CANCEL,
            reason="as a rollback left it",
            change=lambda now: replace(now.with_fence().with_attempt("then"), pending_dead_letters=owed),
        )
        with pytest.raises(RetryableError) as waits:
            _places(lab)
        assert waits.value.code == "letters-to-return"
        commit_pending(connections, lab.pipeline.table, progress(lab), {})
    assert sorted(by_offset(lab, DEAD_LETTERS)) == sorted(original)
    assert lab.stray_files() == set()


def test_a_rehearsal_says_what_comes_and_writes_nothing(lab: Lab) -> None:
    """Neither columns, letters nor files under `state:`; each letter that fails says where and why."""
    before = [lab.table(name).metadata for name in lab.tables]
    with lab.connections() as connections:
        found = try_redrive(lab.pipeline, connections, Selection())
        assert saved_files(connections.state, str(before[0].table_uuid)) == []
    assert (found.rows, found.failing, found.filtered) == (3, {"decode": 1}, {})
    assert found.examples[0].startswith("0:5 (decode) not JSON")
    assert found.columns_added == ["note: string"]
    assert [lab.table(name).metadata for name in lab.tables] == before


def test_letters_that_cannot_be_sent_stay_and_are_counted(lab: Lab) -> None:
    """Of another generation, without a time, past the offsets, or beside a row."""
    _append_letters(lab, {1: b"{}", 25: b"{}"})
    _append_letters(lab, {4: b"{}"}, _kafka_generation=7)
    _append_letters(lab, {6: b"{}"}, _kafka_timestamp=None)
    done = lab.redrive()
    assert done.balance.rows == 3
    assert done.left == {AHEAD: 1, HAS_ROW: 1, EARLIER_GENERATION: 1, NO_TIME: 1}
    assert sorted(by_offset(lab, DEAD_LETTERS)) == [(0, 1), (0, 4), (0, 5), (0, 6), (0, 25)]
    assert len(by_offset(lab)) == RECORDS - 1


def _append_letters(lab: Lab, letters: Mapping[int, bytes], **others: Any) -> None:
    """Put more letters into their table, in a commit as Sluice's are."""
    table = lab.table(DEAD_LETTERS)
    written = write_letters(table, 0, letters, "more", **others)
    files = [to_data_file(file, table.metadata) for file in written]
    with lab.connections() as connections, released(connections.open_catalog()) as catalog:
        send(catalog, table, stage_append(table, files, progress(lab, DEAD_LETTERS), {}))


def test_kept_letters_are_forgotten_when_nobody_can_ask(lab: Lab) -> None:
    """Not within the hour; without them a debt waits by name."""
    with pytest.raises(Died):
        lab.redrive(fail_points=DiesAt("dead-letters.before-swap"))
    uuid = str(lab.table().metadata.table_uuid)
    with lab.connections() as connections:
        (kept,) = saved_files(connections.state, uuid)
        file = Path(kept.location.removeprefix("file:"))
        hidden = file.rename(file.with_suffix(".away"))
        with pytest.raises(CorruptLog) as lost:
            recover(lab.pipeline, connections)
        assert lost.value.code == "letters-lost"
        hidden.rename(file)
        recover(lab.pipeline, connections)
        lab.redrive(Selection(limit=1))  # until it the table still names what it owed
        checkpoint(lab.pipeline, connections)
        assert kept in saved_files(connections.state, uuid)
        later = replace(connections, now_us=lambda: kept.modified_us + 7_200_000_000)
        checkpoint(lab.pipeline, later)
        assert kept not in saved_files(connections.state, uuid)

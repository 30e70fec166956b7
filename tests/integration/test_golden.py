"""What an earlier version left, at rest or in the middle of something, is this version's to go on with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.lab.pipeline_lab import by_offset, progress
from spark_jobs.acts.held import publish
from spark_jobs.acts.pause import resume
from spark_jobs.books.fold import checkpoint
from spark_jobs.books.history import history
from spark_jobs.protocol.offsets import OffsetRange
from tests.support.golden import FORMAT_1, Golden, put_up
from tests.support.new_lab import DEAD_LETTERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prove.lab.pipeline_lab import Lab

pytestmark = [pytest.mark.kafka]


@pytest.fixture(scope="module")
def golden(servers_folder: Path, s3_endpoint: str) -> Iterator[Golden]:
    """All pipelines of the first format."""
    state = put_up(FORMAT_1, servers_folder, s3_endpoint)
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

"""Notices of commits: each at least once, whatever the receiver does, and never in a drain's way."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr

from prove.lab.generated_changes import SourceEvent
from prove.lab.pipeline_lab import configure, orders
from spark_jobs.acts.held_batches import publish
from spark_jobs.acts.rollback import rollback
from spark_jobs.books.fold import checkpoint
from spark_jobs.config.secrets import scrub
from spark_jobs.config.sections import NotifySettings
from spark_jobs.notices import sender
from spark_jobs.notices import sender as notices
from spark_jobs.notices.notice import KEPT_US
from spark_jobs.notices.sender import NoticesSent, send_owed, send_pending
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.work import Work
from spark_jobs.protocol.works.changes import SKIP
from spark_jobs.protocol.works.drain import DRAIN
from spark_jobs.protocol.works.replay import REPLAY
from spark_jobs.replay.rebuild import rebuild
from spark_jobs.reshape.retype import retype
from spark_jobs.txlog.entries import FlushComplete, IcebergSnapshotCreated
from tests.support.new_lab import NewLab
from tests.support.recovery_scene import SOON_US, FailAt, Killed, Scene
from tests.support.webhook_receiver import Receiver, receiving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prove.lab.kafka_server import KafkaBroker, Record
    from prove.lab.pipeline_lab import Lab


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver that takes everything."""
    with receiving() as started:
        yield started


@pytest.fixture
def told(scene: Scene, receiver: Receiver) -> Scene:
    """The scene's pipeline with a webhook."""
    notify = NotifySettings(webhook=SecretStr(receiver.url))
    scene.pipeline = scene.pipeline.model_copy(update={"notify": notify})
    return scene


def _land(scene: Scene, start: int, end: int, *, kind: Work = DRAIN, **more: Any) -> str:
    """A batch that landed and is complete in the log; its attempt."""
    request = scene.lake.request(start, end, **more)
    planned_at_us = request.batch.ingested_at_us + start
    request = replace(request, batch=replace(request.batch, kind=kind, ingested_at_us=planned_at_us))
    scene.log(request, 4)
    snapshot_id = scene.lake.commit(request).snapshot_id if kind is DRAIN else None
    for entry in (
        IcebergSnapshotCreated(snapshot_id, "run", SOON_US),
        FlushComplete({}, None, "run", SOON_US),
    ):
        scene.connections.txlog.append(request.table_uuid, request.batch, entry)
    return request.batch.attempt


def _send(scene: Scene, **changes: Any) -> NoticesSent:
    return send_owed(scene.pipeline, replace(scene.connections, **changes))


def test_a_notice_says_what_changed(told: Scene, receiver: Receiver) -> None:
    """Table, snapshot, offsets, counts, partitions; once it was taken it is not sent again."""
    attempt = _land(told, 0, 10, dead_letters=[4])
    assert _send(told) == NoticesSent(delivered=1)
    (notice,) = receiver.taken
    table = told.lake.load()
    assert notice == {
        "format": 1,
        "id": attempt,
        "kind": "drain",
        "pipeline": "p",
        "table": told.lake.name(),
        "table_uuid": str(table.metadata.table_uuid),
        "snapshot_id": table.metadata.current_snapshot_id,
        "committed_at": "2026-01-01T00:00:01Z",
        "topic": "flights",
        "generation": 0,
        "offsets": {"0": [0, 10]},
        "rows": 9,
        "dead_letters": 1,
        "partitions": None,
        "changed_keys": None,
        "keys": None,
    }
    assert _send(told) == NoticesSent()
    assert len(receiver.taken) == 1


def test_partitions_are_named_as_paths(told: Scene, receiver: Receiver) -> None:
    """Those of the files that came; all of them, as null, for a replay: it takes rows away too."""
    told.lake.open().drop_table(told.lake.name())
    told.lake.make_table(partition_by=("day(at)",))
    _land(told, 0, 30)
    _land(told, 0, 30, kind=REPLAY)
    _land(told, 30, 40, files=False)
    _send(told)
    touched = {(n["kind"], tuple(n["offsets"]["0"])): n["partitions"] for n in receiver.taken}
    assert touched == {
        ("drain", (0, 30)): ["at_day=2026-01-01", "at_day=2026-01-02"],
        ("replay", (0, 30)): None,
        ("drain", (30, 40)): [],
    }


def test_what_changes_no_row_is_not_told(told: Scene, receiver: Receiver) -> None:
    """Nor does it wait in the log: acts fold without a notice."""
    _land(told, 0, 10, kind=SKIP, files=False)
    assert _send(told) == NoticesSent()
    assert checkpoint(told.pipeline, told.connections).folded_attempts == 1
    assert receiver.taken == []


@pytest.mark.parametrize("status", [500, 503, 429, 408, 401, 404, 302])
def test_a_receiver_that_fails_gets_it_later(
    told: Scene, receiver: Receiver, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """In the order of the commits; nothing is folded meanwhile, and the URL is in no log line."""
    attempts = [_land(told, 0, 10), _land(told, 10, 20)]
    receiver.status = status
    with caplog.at_level(logging.DEBUG, logger="spark_jobs"):
        assert _send(told) == NoticesSent(owing=f"HTTP {status}")
        assert checkpoint(told.pipeline, told.connections).folded_attempts == 0
    assert f"HTTP {status}" in caplog.text
    assert "s3cr3t" not in caplog.text
    receiver.status = 200
    assert checkpoint(told.pipeline, told.connections).folded_attempts == 2
    assert [notice["id"] for notice in receiver.taken] == attempts


def test_a_refused_notice_is_given_up_loudly(
    told: Scene, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """A body that the receiver can never take must not stop those after it."""
    attempt = _land(told, 0, 10)
    receiver.status = 422
    assert _send(told) == NoticesSent(given_up=1)
    assert "GIVEN UP" in caplog.text
    assert attempt in caplog.text
    receiver.status = 200
    assert _send(told) == NoticesSent()


def test_a_receiver_that_is_away_for_a_day_loses_a_notice_loudly(
    told: Scene, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """Up to then it is owed; the log does not grow for ever."""
    _land(told, 0, 10)
    receiver.status = 500
    assert _send(told, now_us=lambda: SOON_US + KEPT_US - 1) == NoticesSent(owing="HTTP 500")
    assert "GIVEN UP" not in caplog.text
    assert _send(told, now_us=lambda: SOON_US + KEPT_US) == NoticesSent(given_up=1)
    assert "GIVEN UP" in caplog.text


def test_a_sender_killed_after_the_post_sends_it_again(told: Scene, receiver: Receiver) -> None:
    """With the same id: twice rather than never."""
    attempt = _land(told, 0, 10)
    for point in ("notice.before-post", "notice.after-post"):
        with pytest.raises(Killed):
            _send(told, fail_points=FailAt(point))
    assert _send(told) == NoticesSent(delivered=1)
    assert [notice["id"] for notice in receiver.taken] == [attempt, attempt]


def _lab(new_lab: NewLab, receiver: Receiver) -> Lab:
    lab = new_lab(orders(0, 20))
    configure(lab, "pipelines/orders", {"notify": {"webhook": receiver.url}})
    return lab


def _drain_until_told(lab: Lab, receiver: Receiver, count: int) -> None:
    """A drain waits a second for its notices: on a busy machine the next one sends what is left."""
    for _ in range(10):
        lab.drain()
        if len(receiver.taken) >= count:
            return
    raise AssertionError(f"{len(receiver.taken)} of {count} notices came")


@pytest.mark.kafka
@pytest.mark.spark
def test_a_drain_tells_of_its_commits(new_lab: NewLab, receiver: Receiver) -> None:
    """A kill between commit and notice leaves it to the next run, recovered batches included."""
    lab = _lab(new_lab, receiver)
    _drain_until_told(lab, receiver, 1)
    assert [notice["offsets"] for notice in receiver.taken] == [{"0": [0, 20]}]
    receiver.status = 500
    new_lab.produce(lab, orders(20, 5))
    lab.kill_at("drain.after-commit")
    lab.drain()
    assert len(receiver.taken) == 1
    new_lab.produce(lab, orders(25, 5))
    lab.kill_at("notice.before-post")
    receiver.status = 204
    _drain_until_told(lab, receiver, 3)
    told = {(*notice["offsets"]["0"],) for notice in receiver.taken}
    assert told == {(0, 20), (20, 25), (25, 30)}
    assert lab.audit().is_clean


@pytest.mark.kafka
@pytest.mark.spark
def test_a_slow_receiver_holds_nothing_up(
    new_lab: NewLab, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drain ends while the receiver still thinks; the notice comes with a later one."""
    monkeypatch.setattr(sender, "ANSWER_SECONDS", 600.0)
    lab = _lab(new_lab, receiver)
    receiver.delay_seconds = 300.0
    began = time.monotonic()
    lab.drain()
    new_lab.produce(lab, orders(20, 5))
    assert lab.drain().stopped == "caught-up"
    assert time.monotonic() - began < receiver.delay_seconds
    assert receiver.taken == []
    receiver.delay_seconds = 0.0
    receiver.released.set()
    _drain_until_told(lab, receiver, 2)
    assert {20, 5} <= {notice["rows"] for notice in receiver.taken}


def test_replay_publish_rollback_and_retype_tell_of_their_own_commits(
    new_lab: NewLab, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No later run is needed, and one that the receiver does not take fails nothing and is told later."""
    monkeypatch.setattr(notices, "FAREWELL_SECONDS", 60.0)
    lab = _lab(new_lab, receiver)
    lab.drain()
    snapshot_id = lab.table().metadata.current_snapshot_id
    lab.replay(OffsetRange(0, 0, 5))
    strict = {"expect_column_values_to_be_between": {"column": "id", "max_value": 19}}
    suite = {"name": "strict", "when": "gate", "expectations": [strict]}
    configure(lab, "pipelines/orders", {"quality": [suite]})
    new_lab.produce(lab, orders(20, 5))
    assert lab.drain().stopped == "held"
    with lab.connections() as connections:
        publish(lab.pipeline, connections, reason="test")
        receiver.status = 500
        rollback(lab.pipeline, connections, to_snapshot=snapshot_id, reason="test", force=True)
        assert [notice["kind"] for notice in receiver.taken] == ["drain", "replay", "drain"]
        assert receiver.taken[-1]["offsets"] == {"0": [20, 25]}
        receiver.status = 204
        send_pending(lab.pipeline, connections)
    assert [notice["kind"] for notice in receiver.taken][3:] == ["rollback"]
    configure(lab, "pipelines/orders", {"quality": []})
    with lab.connections() as connections:
        retype(lab.pipeline, connections, "id", "double", reason="test")
    retyped = receiver.taken[4:]
    # The columns' exchange, each file's values and the end are commits.
    assert len(retyped) > 2
    assert {(notice["kind"], notice["partitions"]) for notice in retyped} == {("retype", None)}


def test_a_mirrors_notice_names_the_keys_that_changed(
    kafka: KafkaBroker, tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to a limit, then how many; null after a truncate or a rebuild, and where the files are gone."""
    monkeypatch.setattr(notices, "FAREWELL_SECONDS", 60.0)
    monkeypatch.setattr(notices, "MAX_KEYS", 2)
    new_lab = NewLab(kafka, "", tmp_path, is_here=True)
    lab = new_lab([_change("c", 1), _change("c", 1)], layout="mirror")
    configure(lab, "pipelines/orders", {"notify": {"webhook": receiver.url}})
    lab.drain()
    for told in (
        [_change("d", 1), _change("c", 2)],
        [_change("c", n) for n in (3, 4, 5)],
        [_change("t", None)],
    ):
        new_lab.produce(lab, told)
        lab.drain()
    with lab.connections() as connections:
        rebuild(lab.pipeline, connections, reason="test")
    assert [(notice["changed_keys"], notice["keys"]) for notice in receiver.taken] == [
        (1, ['{"id":1}']),
        (2, ['{"id":1}', '{"id":2}']),
        (3, None),
        (None, None),
        (None, None),
    ]
    assert {notice["partitions"] for notice in receiver.taken} == {None}
    receiver.status = 500
    new_lab.produce(lab, [_change("c", 6)])
    lab.drain()
    for task in lab.table().scan().plan_files():
        Path(task.file.file_path.removeprefix("file://")).unlink()
    receiver.status = 204
    with lab.connections() as connections:
        send_pending(lab.pipeline, connections)
    assert (receiver.taken[-1]["changed_keys"], receiver.taken[-1]["keys"]) == (1, None)


_sequences = count(100)


def _change(operation: str, key: int | None) -> Record:
    place = next(_sequences)
    return SourceEvent(operation, key, place, place - 1, 1_000 * place, 1, "n").record(1)


def test_a_webhook_without_its_secret_holds_nothing_up(
    new_lab: NewLab, receiver: Receiver, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drain says once what is missing and goes on; the notice is sent once it is there."""
    monkeypatch.setattr(notices, "FAREWELL_SECONDS", 60.0)
    monkeypatch.delenv("CACHE_WEBHOOK", raising=False)
    lab = new_lab(orders(0, 20), max_batch_records=10)
    configure(lab, "pipelines/orders", {"notify": {"webhook": "${CACHE_WEBHOOK}"}})
    with caplog.at_level(logging.WARNING, logger="spark_jobs.notices.sender"):
        assert lab.drain().stopped == "caught-up"
    (line,) = caplog.messages
    assert "missing-secret" in line
    assert "CACHE_WEBHOOK" in line
    with lab.connections() as connections:
        assert checkpoint(lab.pipeline, connections).folded_attempts == 0
    monkeypatch.setenv("CACHE_WEBHOOK", receiver.url)
    lab.drain()
    assert [notice["offsets"] for notice in receiver.taken] == [{"0": [0, 10]}, {"0": [10, 20]}]


def test_the_url_is_a_secret(told: Scene, receiver: Receiver) -> None:
    """In what is shown of the configuration, and in texts once it was resolved."""
    _land(told, 0, 10)
    _send(told)
    for shown in (repr(told.pipeline), str(told.pipeline), told.pipeline.model_dump_json()):
        assert "s3cr3t" not in shown
    assert "s3cr3t" not in scrub(f"posting to {receiver.url} failed")

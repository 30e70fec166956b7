"""The transaction log's store over a local folder and object stores: the same promises on all."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from prove.lab.s3 import store_at
from spark_jobs.protocol.errors import ConfigError, CorruptLog, RetryableError
from spark_jobs.storage.conditional_put import conditional_store
from spark_jobs.storage.create_only import list_files
from spark_jobs.txlog.entries import Closed, FlushComplete, Notified, OffsetCommit, Swept
from spark_jobs.txlog.store import CLOSING_AFTER_US, TxlogStore
from tests.support.log_entries import TABLE_UUID, finished_phases, flush_start, make_batch, offset_commit

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.s3 import S3
    from spark_jobs.protocol.batch import Batch

FAR_FUTURE_US = 10**17


@pytest.fixture(params=["local", "s3", "azure", "gcs"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> TxlogStore:
    """The log in a folder, in buckets and in a container."""
    if request.param == "local":
        return TxlogStore(tmp_path.as_uri() + "/state/", {})
    if request.param == "azure":
        azure = request.getfixturevalue("azure")
        return TxlogStore(azure.location("state"), azure.properties)
    if request.param == "gcs":
        gcs = request.getfixturevalue("gcs")
        return TxlogStore(gcs.location("state"), gcs.properties)
    s3 = request.getfixturevalue("s3")
    return TxlogStore(f"s3://{s3.bucket}/state", s3.pyiceberg_properties)


def write(store: TxlogStore, batch: Batch, phases: int = 6) -> None:
    """Log the first phases of a batch."""
    for entry in finished_phases(batch)[:phases]:
        assert store.append(TABLE_UUID, batch, entry)


def overwrite(store: TxlogStore, path: str, content: bytes) -> None:
    """Damage an object behind the store's back."""
    with store.store._io.new_output(f"{store.root}/{TABLE_UUID}/{path}").create(overwrite=True) as stream:
        stream.write(content)


def uuids(store: TxlogStore, now_us: int = 0) -> list[str]:
    """Attempts recovery has to look at."""
    return [attempt.uuid for attempt in store.unfinished(TABLE_UUID, now_us=now_us)]


def test_empty_log_has_nothing(store: TxlogStore) -> None:
    """A log nobody wrote to is empty, not an error."""
    assert store.unfinished(TABLE_UUID, now_us=0) == ()
    assert store.attempts(TABLE_UUID) == ()
    assert store.objects(TABLE_UUID) == (0, 0)


def test_entries_come_back(store: TxlogStore) -> None:
    """What was appended is read back, in order, with its batch."""
    batch = make_batch()
    write(store, batch)
    (attempt,) = store.attempts(TABLE_UUID)
    assert attempt.entries == finished_phases(batch)
    assert attempt.batch == batch


def test_objects_are_created_once(store: TxlogStore) -> None:
    """A second writer of a phase leaves the first one's object as it is and is told so."""
    batch = make_batch()
    assert store.append(TABLE_UUID, batch, FlushComplete({}, 1, "first", 1))
    assert not store.append(TABLE_UUID, batch, FlushComplete({}, 2, "second", 2))
    (attempt,) = store.attempts(TABLE_UUID)
    assert attempt.entry(FlushComplete) == FlushComplete({}, 1, "first", 1)


def test_unfinished_are_found_oldest_first(store: TxlogStore) -> None:
    """Finished attempts are passed over, the others come in the order in which they were planned."""
    write(store, make_batch("c-finished", at_us=5))
    write(store, make_batch("b-young", at_us=9), 3)
    write(store, make_batch("z-old", at_us=7), 4)
    assert uuids(store) == ["z-old", "b-young"]


def test_finished_attempts_are_not_read(store: TxlogStore) -> None:
    """Names tell what is finished: a finished attempt costs its share of a listing and no read."""
    write(store, make_batch())
    store._read = None  # type: ignore[assignment,method-assign]
    assert store.unfinished(TABLE_UUID, now_us=0) == ()


def test_tables_are_apart(store: TxlogStore) -> None:
    """One table's log never shows another's attempts."""
    write(store, make_batch(), 3)
    assert store.unfinished("another-table", now_us=0) == ()


def test_swept_attempt_comes_back_when_due(store: TxlogStore) -> None:
    """A swept attempt rests, comes back when it logs more, and once more before it is closed for ever."""
    batch = make_batch()
    write(store, batch, 3)
    store.append(TABLE_UUID, batch, Swept(0, "r", 0), reached=3)
    (written_us,) = (
        f.modified_us
        for f in list_files(f"{store.root}/{TABLE_UUID}", store.store._properties)
        if "Swept" in f.name
    )
    assert uuids(store, written_us + 1) == []
    assert uuids(store, written_us + CLOSING_AFTER_US + 2_000_000) == [batch.attempt]
    store.append(TABLE_UUID, batch, finished_phases(batch)[3])
    assert uuids(store, written_us + 1) == [batch.attempt]
    store.append(TABLE_UUID, batch, Closed(0, "r", 0), reached=4)
    assert uuids(store, FAR_FUTURE_US) == []


@pytest.mark.parametrize("content", [b"", b'{"format":1,', b"\xff\xfe\x00"])
def test_damaged_objects_do_not_stop_reading(store: TxlogStore, content: bytes) -> None:
    """A truncated, empty or garbled object is a phase that did not happen; the rest is read."""
    batch = make_batch()
    write(store, batch, 3)
    overwrite(store, f"{batch.attempt}/3-FlushStart.json", content)
    (attempt,) = store.unfinished(TABLE_UUID, now_us=0)
    assert attempt.unreadable == ("3-FlushStart.json",)
    assert attempt.entry(OffsetCommit) == offset_commit(batch)


def test_newer_objects_are_refused(store: TxlogStore) -> None:
    """An object of a newer Sluice stops recovery with the object's name."""
    write(store, make_batch(), 1)
    overwrite(store, "attempt-a/2-Unheard.json", b'{"format":2}')
    with pytest.raises(CorruptLog) as caught:
        store.unfinished(TABLE_UUID, now_us=0)
    assert caught.value.code == "newer-log-format"


def test_deletion_that_died_leaves_finished_attempts(store: TxlogStore) -> None:
    """What says "finished" goes last, after marks too, so that what is left of an attempt is finished."""
    batch = make_batch()
    write(store, batch)
    store.append(TABLE_UUID, batch, Notified("delivered", "r", 1), reached=6)
    deleted: list[str] = []
    delete = store.store._io.delete

    def dies_before_the_last(location: str) -> None:
        if len(deleted) == 6:
            raise KeyboardInterrupt
        deleted.append(location.rpartition("/")[2])
        delete(location)

    store.store._io.delete = dies_before_the_last  # type: ignore[method-assign,assignment]
    with pytest.raises(KeyboardInterrupt):
        store.delete_attempts(TABLE_UUID, ["attempt-a"])
    left = {f.name for f in list_files(f"{store.root}/{TABLE_UUID}", store.store._properties)}
    assert left == {"6-FlushComplete.json"}
    assert uuids(store) == []
    assert store.finished(TABLE_UUID) == ("attempt-a",)


def test_word_of_a_notice_after_the_fold_is_no_unfinished_attempt(store: TxlogStore) -> None:
    """A sender that was slower than the fold leaves a mark alone: the next fold takes it away."""
    batch = make_batch()
    write(store, batch)
    assert store.without_notice(TABLE_UUID) == ("attempt-a",)
    store.delete_attempts(TABLE_UUID, ["attempt-a"])
    store.append(TABLE_UUID, batch, Notified("delivered", "r", 1), reached=6)
    assert (uuids(store), store.without_notice(TABLE_UUID)) == ([], ())
    assert store.finished(TABLE_UUID) == ("attempt-a",)
    store.delete_attempts(TABLE_UUID, ["attempt-a"])
    assert store.finished(TABLE_UUID) == ()


def test_secrets_are_not_in_the_log(store: TxlogStore) -> None:
    """Nothing of the storage's credentials is written into an object."""
    write(store, make_batch())
    found = store.store.list(TABLE_UUID)
    texts = [store.store._io.new_input(file.location).open().read().decode() for file in found]
    secret = store.store._properties.get("s3.secret-access-key", "test-secret-key")
    assert len(texts) == 6
    assert not any(secret in text for text in texts)


@pytest.mark.parametrize(
    ("root", "location", "is_refused"),
    [
        ("s3://b/lake/t/state", "s3://b/lake/t", True),
        ("s3a://b/lake/t/state", "s3://b/lake/t/", True),
        ("s3://b/lake/t", "s3://b/lake/t", True),
        ("s3://b/lake/t2", "s3://b/lake/t", False),
        ("s3://b/state", "s3://b/lake/t", False),
        ("/lake/t/state", "file:///lake/t", True),
        ("file:/lake/t/state", "/lake/t", True),
        ("/lake/state", "file:///lake/t", False),
    ],
)
def test_root_under_a_table_is_refused(root: str, location: str, *, is_refused: bool) -> None:
    """The log never lives where orphan removal deletes, however the two places are spelled."""
    store = TxlogStore(root, {"s3.region": "us-east-1"})
    if not is_refused:
        store.refuse_location("t", location)
        return
    with pytest.raises(ConfigError) as caught:
        store.refuse_location("t", location)
    assert caught.value.code == "log-under-table"


def test_of_racing_writers_the_first_one_stays(store: TxlogStore) -> None:
    """Of many writers of one phase exactly one creates it, and it is that one's which is read."""
    batch = make_batch()
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda n: store.append(TABLE_UUID, batch, Swept(n, "r", 0)), range(32)))
    assert won.count(True) == 1
    (attempt,) = store.attempts(TABLE_UUID)
    assert attempt.entries == (Swept(won.index(True), "r", 0),)


def test_a_local_writer_leaves_nothing_but_the_object(tmp_path: Path) -> None:
    """No half-written file is ever seen."""
    store, batch = TxlogStore(str(tmp_path), {}), make_batch()
    for _ in range(2):
        store.append(TABLE_UUID, batch, Swept(0, "r", 0))
    assert os.listdir(tmp_path / TABLE_UUID / batch.attempt) == ["10-Swept.json"]  # noqa: PTH208


def test_whether_the_first_stays_is_tried(store: TxlogStore, s3_endpoint: str) -> None:
    """A folder and a bucket keep the first one's object; one that ignores If-None-Match is found out."""
    assert store.store.refuses_a_second()
    s3 = store_at(s3_endpoint, "replacing")
    replacing = TxlogStore(f"s3://{s3.bucket}/state", s3.pyiceberg_properties)
    assert not replacing.store.refuses_a_second()
    assert [file.name for file in (*store.store.list(""), *replacing.store.list(""))] == []


def test_a_foreign_session_does_not_go_with_keys_of_the_configuration(
    s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the environment has for others stays out of it, and a role leaves the put to Arrow."""
    monkeypatch.setenv("AWS_SESSION_TOKEN", "foreign")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "foreign")
    opened = conditional_store("s3", s3.bucket, s3.pyiceberg_properties)
    assert opened is not None
    assert (opened._store.config["access_key_id"], opened._store.config["session_token"]) == ("sluice", "")
    assert (
        conditional_store(
            "s3", s3.bucket, {**s3.pyiceberg_properties, "s3.role-arn": "arn:aws:iam::1:role/r"}
        )
        is None
    )
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    assert conditional_store("s3", s3.bucket, {}) is None


def test_leftover_of_a_killed_writer_is_no_object(tmp_path: Path) -> None:
    """A temporary file of a writer that was killed is not an entry and does not outlive the attempt."""
    store, batch = TxlogStore(str(tmp_path), {}), make_batch()
    write(store, batch)
    folder = tmp_path / TABLE_UUID / batch.attempt
    (folder / ".0123").write_text("{")
    (attempt,) = store.attempts(TABLE_UUID)
    assert attempt.unreadable == ()
    store.delete_attempts(TABLE_UUID, [batch.attempt])
    assert not folder.exists()


def test_store_that_is_away_is_retryable(tmp_path: Path) -> None:
    """A root that cannot be a folder is one clear error that a later run may not meet."""
    (tmp_path / "file").write_text("")
    store = TxlogStore(str(tmp_path / "file"), {})
    with pytest.raises(RetryableError) as caught:
        store.append(TABLE_UUID, make_batch(), flush_start(make_batch()))
    assert caught.value.code == "log-store-away"

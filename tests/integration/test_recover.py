"""Recovery on real tables and a real log: of what earlier runs left, nothing is lost, doubled or left over.

Kafka is not here at all: adoption asks for the source's identity and for no record.
"""

from __future__ import annotations

import itertools
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.checkpoint_txlog import checkpoint, finished_attempts
from spark_jobs.core.batch import Balance
from spark_jobs.core.config import PipelineConfig
from spark_jobs.core.errors import ConfigError
from spark_jobs.core.source import SourceState
from spark_jobs.core.txlog import FlushStart, IcebergSnapshotCreated, ParquetWritten
from spark_jobs.core.txlog_checkpoint import merged
from spark_jobs.io.connections import Connections
from spark_jobs.io.data_files import normalise_path
from spark_jobs.io.file_listing import list_files
from spark_jobs.io.sweep import data_location, sweep_files
from spark_jobs.io.tables import dead_letters_of, progress_of
from spark_jobs.io.txlog_store import CLOSING_AFTER_US, TxlogStore
from spark_jobs.recover import RecoveryResult, recover
from tests.support.lake import TOPIC, Lake, write_rows
from tests.support.log_entries import buffer_snapshot, offset_commit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from spark_jobs.io.commit import CommitRequest

PLANNED_US = 1_767_225_600_000_000
SOON_US = PLANNED_US + 1_000_000


class Killed(BaseException):
    """Stands for kill -9: nothing in the code may catch it."""


@dataclass
class FailAt:
    """Die when a point is reached; remembers every point that was passed."""

    point: str = ""
    seen: list[str] = field(default_factory=list)

    def reach(self, name: str) -> None:
        self.seen.append(name)
        if name == self.point:
            raise Killed(name)


@dataclass
class Source:
    """The broker's answer about the topic; asking it for anything else fails the test."""

    topic_id: str = "t"
    asked: int = 0

    def source_state(self, topic: str) -> SourceState:
        self.asked += 1
        return SourceState(topic, self.topic_id, "c", {0: 0}, {0: 1_000})


@dataclass
class Scene:
    """A pipeline with its lake, its log and what became of the interrupts."""

    lake: Lake
    connections: Connections
    pipeline: PipelineConfig
    source: Source
    interrupted: list[str]

    def recover(self, point: str = "", now_us: int = SOON_US) -> RecoveryResult:
        """Recover, dying at ``point``."""
        points = FailAt(point)
        return recover(self.pipeline, replace(self.connections, fail_points=points, now_us=lambda: now_us))

    def leave(self, start: int, end: int, phases: int, **more: Any) -> CommitRequest:
        """A run that planned [start, end), wrote its files and died after this many phases, uncommitted."""
        request = self.lake.request(start, end, **more)
        self.log(request, phases)
        return request

    def log(self, request: CommitRequest, phases: int) -> None:
        """Write the first phases of a batch."""
        batch, table = request.batch, self.lake.load()
        pending = request.pending_dead_letters
        dead_letters = pending.files if pending else ()
        balance = Balance(
            rows=sum(file["rows"] for file in request.data_files),
            dead_letters=sum(file["rows"] for file in dead_letters),
        )
        balance = replace(balance, tombstones=batch.ranges.records - balance.offsets)
        files_bytes = sum(file["bytes"] for file in request.data_files)
        entries = (
            offset_commit(batch),
            buffer_snapshot(),
            FlushStart(batch.attempt, data_location(table), data_location(self.dead_letter_table())),
            ParquetWritten(
                request.data_files,
                dead_letters,
                balance.rows,
                100,
                files_bytes,
                {0: balance},
                {"sluice.actor": "dead"},
            ),
        )
        for entry in entries[:phases]:
            self.connections.txlog.append(request.table_uuid, batch, entry)

    def dead_letter_table(self) -> Any:
        """The table of the dead letters."""
        return self.lake.load(dead_letters_of("t"))

    def files(self) -> set[str]:
        """Names of all data files in storage, dead letters included."""
        places = [data_location(self.lake.load()), data_location(self.dead_letter_table())]
        io = self.lake.load().io
        return {file.name for place in places for file in list_files(place, io.properties)}

    def named(self) -> set[str]:
        """Names of all data files the two tables name."""
        tables = (self.lake.load(), self.dead_letter_table())
        paths = (task.file.file_path for table in tables for task in table.scan().plan_files())
        return {path.rpartition("/")[2] for path in paths}

    def unfinished(self, now_us: int = SOON_US) -> tuple[Any, ...]:
        """What recovery would look at."""
        table_uuid = str(self.lake.load().metadata.table_uuid)
        return self.connections.txlog.unfinished(table_uuid, now_us=now_us)


def make_scene(lake: Lake, state: str) -> Scene:
    """A pipeline over a new, empty table."""
    lake.make_table()
    source, interrupted = Source(), []
    connections = Connections(
        kafka={},
        admin=source,  # type: ignore[arg-type]
        open_catalog=lake.open,
        txlog=TxlogStore(state, lake.properties),
        spark=no_spark,
        interrupt=interrupted.append,
        task_memory_bytes=1 << 28,
        parallelism=1,
        actor="tests",
        run_id="run-recover",
        now_us=lambda: SOON_US,
        new_attempt=lambda: uuid.uuid4().hex,
    )
    return Scene(
        lake, connections, PipelineConfig(name="p", topic=TOPIC, table=lake.name()), source, interrupted
    )


def no_spark() -> Any:
    """Recovery needs no Spark."""
    raise AssertionError("recovery asked for a Spark session")


@pytest.fixture
def scene(sqlite_catalog_properties: dict[str, str], tmp_path: Path) -> Scene:
    """The embedded catalog and folders."""
    return make_scene(Lake("sqlite", sqlite_catalog_properties, "demo"), str(tmp_path / "state"))


def test_nothing_to_do_is_nothing(scene: Scene) -> None:
    """A table without unfinished attempts costs no interrupt, no broker and no change."""
    assert scene.recover() == RecoveryResult()
    assert scene.source.asked == 0
    assert scene.interrupted == []


def test_no_table_is_nothing(scene: Scene) -> None:
    """Before a pipeline's first batch there is nothing to recover."""
    scene.pipeline = PipelineConfig(name="p", topic=TOPIC, table="demo.none")
    assert scene.recover() == RecoveryResult()


def test_complete_files_are_adopted_without_reading(scene: Scene) -> None:
    """A batch that died before its commit lands from its files, keeps its attempt, and reads nothing."""
    request = scene.leave(0, 10, 4, dead_letters=[3], files=True)
    result = scene.recover()
    assert [batch.attempt for batch in result.adopted] == [request.batch.attempt]
    assert result.adopted[0].balance == Balance(rows=9, dead_letters=1)
    assert result.records_read == 0
    assert scene.lake.offsets() == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert scene.lake.next_offset() == 10
    assert scene.dead_letter_table().scan().to_arrow()["_kafka_offset"].to_pylist() == [3]
    assert scene.files() == scene.named()
    assert scene.unfinished() == ()
    summary = scene.lake.load().current_snapshot().summary.additional_properties  # type: ignore[union-attr]
    assert (summary["sluice.actor"], summary["sluice.adopted-by"]) == ("dead", "run-recover")


def test_batch_without_files_is_adopted(scene: Scene) -> None:
    """Tombstones only: nothing to commit but the offsets, and those are adopted like files."""
    scene.leave(0, 10, 4, files=False)
    assert len(scene.recover().adopted) == 1
    assert scene.lake.next_offset() == 10
    assert scene.lake.offsets() == []


@pytest.mark.parametrize("phases", [1, 2, 3])
def test_unfinished_writing_is_left_then_swept(scene: Scene, phases: int) -> None:
    """Files of a run that was killed while writing stay until the range is done again, then they go."""
    request = scene.leave(0, 10, phases)
    before = scene.files()
    result = scene.recover()
    assert [left.attempt for left in result.left] == [request.batch.attempt]
    assert scene.interrupted == [request.batch.attempt]
    assert scene.files() == before
    scene.lake.drain(0, 12)
    result = scene.recover()
    assert result.swept == (request.batch.attempt,)
    assert result.swept_files == len(before)
    assert scene.files() == scene.named()
    assert scene.lake.offsets() == list(range(12))
    assert scene.recover() == RecoveryResult()


def test_missing_file_is_not_adopted(scene: Scene) -> None:
    """A commit would name a file that is gone, so the range is done again."""
    request = scene.leave(0, 10, 4)
    scene.lake.load().io.delete(request.data_files[0]["path"])
    assert "missing" in scene.recover().left[0].reason
    assert scene.lake.next_offset() == 0


def test_cut_file_is_not_adopted(scene: Scene) -> None:
    """A file of the wrong size is not committed."""
    request = scene.leave(0, 10, 4)
    output = scene.lake.load().io.new_output(request.data_files[0]["path"])
    with output.create(overwrite=True) as stream:
        stream.write(b"PAR1")
    assert len(scene.recover().left) == 1


def test_landed_is_marked(scene: Scene) -> None:
    """A run that died right after its commit is marked with its snapshot; nothing is committed again."""
    request = scene.leave(0, 10, 4)
    committed = scene.lake.commit(request)
    result = scene.recover()
    assert result == RecoveryResult(marked=(request.batch.attempt,))
    (attempt,) = scene.connections.txlog.attempts(request.table_uuid)
    created = attempt.entry(IcebergSnapshotCreated)
    assert created is not None
    assert created.snapshot_id == committed.snapshot_id
    assert scene.lake.offsets() == list(range(10))
    assert scene.source.asked == 0


def test_owed_dead_letters_are_finished_first(scene: Scene) -> None:
    """A run that died between its data and its dead letters gets them in, once, before anything else."""
    request = scene.leave(0, 10, 4, dead_letters=[2, 5])
    scene.lake.commit(request)
    assert scene.recover().marked == (request.batch.attempt,)
    scene.recover()
    offsets = scene.dead_letter_table().scan().to_arrow()["_kafka_offset"].to_pylist()
    assert sorted(offsets) == [2, 5]
    assert scene.files() == scene.named()


def test_owed_dead_letters_are_finished_without_a_log(scene: Scene) -> None:
    """The table alone says what it owes: a lost log loses no dead letter."""
    scene.lake.commit(scene.lake.request(0, 10, dead_letters=[2]))
    scene.recover()
    assert scene.dead_letter_table().scan().to_arrow()["_kafka_offset"].to_pylist() == [2]


def test_sweep_spares_what_is_named_or_owed(scene: Scene) -> None:
    """Even a sweep of an attempt that landed deletes nothing that a snapshot names or the table owes."""
    request = scene.leave(0, 10, 3, dead_letters=[2])
    scene.lake.commit(request)
    pending = progress_of(scene.lake.load()).pending_dead_letters
    assert pending is not None
    owed = frozenset(normalise_path(file["path"]) for file in pending.files)
    (attempt,) = scene.unfinished()
    tables = [scene.lake.load(), scene.dead_letter_table()]
    before = scene.files()
    assert sweep_files(attempt, tables, owed, before_delete=lambda: None) == 0
    assert scene.files() == before
    assert sweep_files(attempt, tables, frozenset(), before_delete=lambda: None) == len(owed)


def test_only_one_of_two_complete_attempts_is_adopted(scene: Scene) -> None:
    """Two runs wrote the same range: the older one's files are committed, the other's are swept."""
    first, second = scene.leave(0, 10, 4), scene.leave(0, 10, 4)
    result = scene.recover()
    assert len(result.adopted) == len(result.swept) == 1
    assert {result.adopted[0].attempt, *result.swept} == {first.batch.attempt, second.batch.attempt}
    assert scene.lake.offsets() == list(range(10))
    assert scene.files() == scene.named()


def test_adopted_run_that_wakes_has_landed(scene: Scene) -> None:
    """The stopped run whose files were adopted finds its own commit; nothing is doubled or deleted."""
    request = scene.leave(0, 10, 4)
    adopted = scene.recover().adopted[0]
    assert scene.lake.commit(request).snapshot_id == adopted.snapshot_id
    assert scene.lake.offsets() == list(range(10))


def test_swept_run_that_wakes_is_swept_again(scene: Scene) -> None:
    """What a run writes after it was swept goes too: at once when it logs it, or else when it is closed."""
    request = scene.leave(0, 10, 3)
    scene.recover()
    scene.lake.drain(0, 10)
    scene.recover()
    write_rows(scene.lake.load(), 0, [1], request.batch.attempt)
    assert scene.recover().swept == ()
    scene.log(request, 4)
    assert scene.recover().swept_files == 1
    write_rows(scene.lake.load(), 0, [1], request.batch.attempt)
    late_us = 10**17  # the store's clock is the file system's
    assert scene.recover(now_us=late_us).swept_files == 1
    assert scene.unfinished(late_us + CLOSING_AFTER_US) == ()
    assert scene.files() == scene.named()


def test_recreated_topic_is_never_adopted(scene: Scene) -> None:
    """Files read from a topic that was re-created since are not committed."""
    scene.leave(0, 10, 4)
    scene.source.topic_id = "another"
    result = scene.recover()
    assert "created again" in result.left[0].reason
    assert scene.lake.next_offset() == 0


def test_rolled_back_table_is_never_adopted_into(scene: Scene) -> None:
    """A commit on top of a rollback would hide it, so adoption checks the anchor as a drain does."""
    scene.lake.drain(0, 5)
    scene.leave(5, 10, 4)
    table = scene.lake.load()
    first = table.metadata.snapshots[0].snapshot_id
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert "rolled back" in scene.recover().left[0].reason


@pytest.mark.parametrize("damaged", ["1-OffsetCommit.json", "3-FlushStart.json", "4-ParquetWritten.json"])
def test_damaged_log_loses_nothing(scene: Scene, tmp_path: Path, damaged: str) -> None:
    """Whichever object is damaged, the range is adopted or done again; every file ends up named or gone."""
    request = scene.leave(0, 10, 4)
    path = tmp_path / "state" / request.table_uuid / request.batch.attempt / damaged
    path.write_text(path.read_text()[:-20])
    scene.recover()
    if scene.lake.next_offset() == 0:
        scene.lake.drain(0, 10)
        scene.recover()
    assert scene.lake.offsets() == list(range(10))
    assert scene.files() == scene.named()
    assert scene.unfinished() == ()


def test_log_under_the_table_is_refused(scene: Scene) -> None:
    """A log that orphan removal would delete is refused before anything is done."""
    below = TxlogStore(f"{scene.lake.load().location()}/state", {})
    scene.connections = replace(scene.connections, txlog=below)
    with pytest.raises(ConfigError) as caught:
        scene.recover()
    assert caught.value.code == "log-under-table"


def adoptable(scene: Scene) -> None:
    """Leaves a batch with dead letters to adopt and the files of another run to sweep."""
    scene.leave(0, 10, 4, dead_letters=[4])
    scene.leave(0, 6, 3)


def landed(scene: Scene) -> None:
    """Leaves a landed batch that owes dead letters, and the files of another run to sweep."""
    scene.lake.commit(scene.leave(0, 10, 4, dead_letters=[4]))
    scene.leave(0, 6, 3)


POINTS = (
    "recover.after-interrupt",
    "recover.after-dead-letters",
    "recover.before-adoption",
    "commit.before-swap",
    "commit.after-swap",
    "dead-letters.before-swap",
    "dead-letters.after-swap",
    "recover.after-adoption",
    "recover.after-iceberg-snapshot-created",
    "recover.after-flush-complete",
    "recover.before-delete",
    "recover.after-sweep",
)
ADOPTION_POINTS = {
    "recover.before-adoption",
    "commit.before-swap",
    "commit.after-swap",
    "recover.after-adoption",
}


@pytest.mark.parametrize(("before", "point"), list(itertools.product([adoptable, landed], POINTS)))
def test_recovery_killed_anywhere_is_recovered(
    scene: Scene, before: Callable[[Scene], None], point: str
) -> None:
    """A recovery that dies at any point is finished by the next one: no row doubled, lost, or left over."""
    before(scene)
    is_on_the_way = point not in {
        "recover.before-adoption",
        "recover.after-adoption",
        "commit.before-swap",
        "commit.after-swap",
    }
    if before is adoptable or is_on_the_way:
        with pytest.raises(Killed):
            scene.recover(point)
    scene.recover()
    assert scene.lake.offsets() == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert scene.dead_letter_table().scan().to_arrow()["_kafka_offset"].to_pylist() == [4]
    assert scene.files() == scene.named()
    assert scene.unfinished() == ()


def test_two_recoveries_at_once_are_harmless(scene: Scene) -> None:
    """A second recovery in the middle of the first, wherever it comes, changes nothing about the end."""
    points = [
        "recover.after-interrupt",
        *sorted(ADOPTION_POINTS),
        "dead-letters.before-swap",
        "recover.before-delete",
    ]
    for number, point in enumerate(points):
        start = number * 10
        scene.leave(start, start + 10, 4, dead_letters=[start])
        scene.leave(start, start + 6, 3)
        inner = Inner(point, scene)
        recover(scene.pipeline, replace(scene.connections, fail_points=inner))
        assert inner.is_done, point
        assert scene.lake.next_offset() == start + 10, point
        scene.recover()
        assert scene.files() == scene.named(), point
        assert scene.unfinished() == (), point
    everything = range(10 * len(points))
    assert scene.lake.offsets() == [offset for offset in everything if offset % 10]


@dataclass
class Inner:
    """Runs a whole recovery when a point is first reached."""

    point: str
    scene: Scene
    is_done: bool = False

    def reach(self, name: str) -> None:
        if name == self.point and not self.is_done:
            self.is_done = True
            self.scene.recover()


@pytest.mark.rest
def test_adopt_and_sweep_over_s3(request: pytest.FixtureRequest, namespace: str) -> None:
    """The same over a catalog server and an object store: adoption, listing by attempt, deletion."""
    properties = request.getfixturevalue("rest_catalog_properties")
    s3 = request.getfixturevalue("s3")
    scene = make_scene(Lake("rest", dict(properties), namespace), f"s3://{s3.bucket}/state")
    adoptable(scene)
    result = scene.recover()
    assert (len(result.adopted), len(result.swept), result.swept_files) == (1, 1, 1)
    assert scene.lake.offsets() == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert scene.files() == scene.named()
    assert scene.unfinished() == ()


def test_checkpoint_folds_what_is_finished(scene: Scene) -> None:
    """Finished attempts become lines, unfinished ones stay, and recovery sees no difference."""
    for start in range(0, 40, 10):
        scene.leave(start, start + 10, 4)
        scene.recover()
    left = scene.leave(40, 50, 3)
    assert finished_attempts(scene.pipeline, scene.connections) == 4
    result = checkpoint(scene.pipeline, scene.connections)
    assert (result.folded_attempts, result.sequence) == (4, 1)
    assert (result.objects_before, result.objects_after) == (4 * 6 + 3, 3 + 1)
    assert result.bytes_after < result.bytes_before
    assert [attempt.uuid for attempt in scene.unfinished()] == [left.batch.attempt]
    again = checkpoint(scene.pipeline, scene.connections)
    assert (again.folded_attempts, again.sequence) == (0, None)
    (only,) = scene.connections.txlog.checkpoints(left.table_uuid)
    assert [line.balance.rows for line in only.attempts] == [10] * 4


@pytest.mark.parametrize("point", ["checkpoint.after-write", "checkpoint.after-delete"])
def test_checkpoint_killed_anywhere_keeps_the_history(scene: Scene, point: str) -> None:
    """A fold that dies is repeated, and each attempt is in the history once."""
    request = scene.leave(0, 10, 4)
    scene.recover()
    with pytest.raises(Killed):
        checkpoint(scene.pipeline, replace(scene.connections, fail_points=FailAt(point)))
    checkpoint(scene.pipeline, scene.connections)
    lines = merged(scene.connections.txlog.checkpoints(request.table_uuid))
    assert [line.attempt for line in lines] == [request.batch.attempt]
    assert scene.connections.txlog.attempts(request.table_uuid) == ()

"""A column's type changed before, after and between other acts: no value is hidden, every command goes on."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.acts.changes import follow_source
from spark_jobs.acts.rollback import rollback
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.config.value_format import ValueFormat, ValueSettings
from spark_jobs.connections.connect import Connections
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.source import SourceState
from spark_jobs.reshape import retype as retyping
from spark_jobs.reshape.repartition import repartition
from spark_jobs.reshape.retype import retype
from spark_jobs.schema.declared import table_notes
from spark_jobs.txlog.store import TxlogStore
from tests.support.lake import Lake

if TYPE_CHECKING:
    from pathlib import Path

DRAINED = 20
GONE = SourceState("flights", "t", "c", {0: DRAINED}, {0: DRAINED}, {}, {0: DRAINED})


@dataclass
class Admin:
    """What Kafka holds, as a test says."""

    state: SourceState = GONE

    def source_state(self, _topic: str) -> SourceState:
        return self.state


@dataclass
class Scene:
    """A table of 20 rows with ids, on a lake without any server."""

    lake: Lake
    pipeline: PipelineConfig
    connections: Connections
    admin: Admin = field(default_factory=Admin)

    def retype(self, column: str, type_name: str) -> Any:
        return retype(self.pipeline, self.connections, column, type_name, reason="test")

    def rollback(self, to_snapshot: int, *, force: bool = False) -> None:
        rollback(self.pipeline, self.connections, to_snapshot=to_snapshot, reason="test", force=force)

    def ids(self) -> list[Any]:
        rows = self.lake.load().scan().to_arrow().to_pylist()
        return [row["id"] for row in sorted(rows, key=lambda row: row["_kafka_offset"])]

    def notes(self) -> tuple[str, ...]:
        table = self.lake.load()
        return table_notes(self.pipeline, table, progress_of(table))


def scene_of(folder: Path, **table: Any) -> Scene:
    """A scene whose topic holds nothing any more."""
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/lake"}
    lake, admin = Lake("sqlite", catalog, "lake"), Admin()
    lake.make_table(**table)
    lake.drain(0, DRAINED)
    connections = Connections(
        kafka={}, admin=admin, open_catalog=lake.open, txlog=TxlogStore(f"{folder}/log", {}), spark=None,
        interrupt=lambda _: None, task_memory_bytes=1 << 28, parallelism=1, actor="me", run_id="r",
        now_us=lambda: int(time.time() * 1e6), new_attempt=lambda: uuid.uuid4().hex, schemas=None,
    )  # fmt: skip
    return Scene(lake, PipelineConfig(name="p", topic="flights", table="lake.t"), connections, admin)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """One with an unpartitioned table."""
    return scene_of(tmp_path)


def test_a_rollback_to_before_it_wants_force_and_the_command_brings_the_values_back(scene: Scene) -> None:
    """Kafka holds none of them: they are in the old column alone."""
    ids, before = scene.ids(), scene.lake.load().metadata.current_snapshot_id
    scene.retype("id", "double")
    with pytest.raises(ConfigError, match="the type of id was changed") as refused:
        scene.rollback(before or 0)
    assert refused.value.code == "retyped-since"
    assert "./sluice retype p id 'double' --reason" in refused.value.hint
    scene.rollback(before or 0, force=True)
    assert set(scene.ids()) == {None}
    assert "./sluice retype p id 'double' --reason" in scene.notes()[0]
    done = scene.retype("id", "double")
    assert (done.files, done.left, scene.ids(), scene.notes()) == (1, 0, ids, ())


def test_it_is_refused_by_name_after_another_writer_removed_the_column(scene: Scene) -> None:
    """The hint then has no type to name."""
    before = scene.lake.load().metadata.current_snapshot_id
    scene.retype("id", "double")
    with scene.lake.load().update_schema() as update:
        update.delete_column("id")
    with pytest.raises(ConfigError, match="the type of id was changed") as refused:
        scene.rollback(before or 0)
    assert (refused.value.code, "'TYPE'" in refused.value.hint) == ("retyped-since", True)


def test_a_wrong_type_can_be_taken_back(scene: Scene) -> None:
    """What fits none of the types in between is found where it was first."""
    ids = scene.ids()
    assert scene.retype("id", "date").left == DRAINED
    assert set(scene.ids()) == {None}
    assert scene.retype("id", "long").left == 0
    assert scene.ids() == ids


def test_a_field_of_a_schema_goes_with_its_column(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, however often it is cut off or rolled back; its values too, in no type that none of them fits."""
    scene.pipeline = scene.pipeline.model_copy(update={"value": ValueSettings(format=ValueFormat.RAW)})
    ids, before = scene.ids(), scene.lake.load().metadata.current_snapshot_id
    old = scene.lake.load().schema().find_field("id").field_id
    scene.lake.act(lambda progress: replace(progress, columns={"1": {"int": (old,), "long": (old,)}}))
    with pytest.raises(ConfigError, match="column id cannot become date: its type long"):
        scene.retype("id", "date")
    with monkeypatch.context() as patch:
        patch.setattr(retyping, "_refill", _killed)
        with pytest.raises(KeyboardInterrupt):
            scene.retype("id", "string")
    for _ in range(2):
        assert scene.retype("id", "string").left == 0
        new = scene.lake.load().schema().find_field("id").field_id
        assert progress_of(scene.lake.load()).columns == {"1": {"int": (new,), "long": (new,)}}
        assert scene.ids() == [*map(str, ids)]
        scene.rollback(before or 0, force=True)
    assert scene.retype("id", "string").left == 0
    assert scene.retype("id", "long").left == 0
    assert scene.ids() == ids


def test_a_topic_made_anew_ends_no_change_that_was_cut_off(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told until it is done, and other columns wait."""
    ids = scene.ids()
    with monkeypatch.context() as patch:
        patch.setattr(retyping, "_refill", _killed)
        with pytest.raises(KeyboardInterrupt):
            scene.retype("id", "double")
    anew = SourceState("flights", "t2", "c", {0: 0}, {0: 5}, {}, {0: 5})
    scene.lake.act(lambda progress: follow_source(progress, anew, {0: 0}))
    scene.admin.state = anew
    assert "the change of id to double is not finished" in scene.notes()[0]
    with pytest.raises(ConfigError, match="not finished"):
        scene.retype("name", "binary")
    assert scene.retype("id", "double").left == 0
    assert (scene.ids(), scene.notes()) == (ids, ())


def test_a_change_that_an_earlier_version_began_is_ended(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the same command, whatever it had still to read again; its offsets stay for that version."""
    ids = scene.ids()
    with monkeypatch.context() as patch:
        patch.setattr(retyping, "_refill", _killed)
        with pytest.raises(KeyboardInterrupt):
            scene.retype("id", "double")
    (begun,) = progress_of(scene.lake.load()).kept_columns
    earlier = replace(begun, until={0: DRAINED}, next_offsets={0: 5})
    scene.lake.act(lambda progress: replace(progress, kept_columns=(earlier,)))
    assert scene.retype("id", "double").left == 0
    assert (scene.ids(), scene.notes()) == (ids, ())
    assert progress_of(scene.lake.load()).kept_columns == (replace(earlier, is_done=True),)


def test_a_column_with_dots_in_its_name_has_its_type_changed(scene: Scene) -> None:
    """A field of that name is no field of a struct."""
    table = scene.lake.load()
    with table.update_schema() as update:
        update.rename_column("id", "user.id")
    done = scene.retype("user.id", "double")
    rows = scene.lake.load().scan().to_arrow()
    assert (done.files, rows.column("user.id").null_count) == (1, 0)


def test_buckets_of_another_number_are_another_partitioning(tmp_path: Path) -> None:
    """Their fields have the same name."""
    scene = scene_of(tmp_path, partition_by=("bucket(4, id)",))
    wider = scene.pipeline.model_copy(update={"partition_by": ("bucket(8, id)",)})
    assert repartition(wider, scene.connections, reason="test").after == ("bucket[8](id)",)
    assert repartition(scene.pipeline, scene.connections, reason="test").after == ()
    assert repartition(wider, scene.connections, reason="test").before == ()


def _killed(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_what_is_left_is_counted_over_every_type_that_the_column_had(scene: Scene) -> None:
    """Not only over the one before."""
    assert [scene.retype("id", to).left for to in ("string", "boolean", "long")] == [DRAINED, DRAINED, 0]


def test_a_column_that_keeps_what_did_not_fit_is_given_no_type(scene: Scene) -> None:
    """What it keeps is the other column's, of whose type it is asked."""
    scene.retype("id", "double")
    with pytest.raises(ConfigError, match="_id_was_long") as refused:
        scene.retype("_id_was_long", "double")
    assert refused.value.code == "cannot-retype"
    assert scene.ids() == [float(number) for number in range(DRAINED)]

"""Ticks of both sensors over a real broker, real tables and a real instance."""

from __future__ import annotations

import json
import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from dagster import AssetMaterialization, DagsterInstance, SensorResult, build_sensor_context
from pydantic import SecretStr
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from assets.pipeline_asset import upkeep_key
from orchestration.backlog_sensor import backlog_sensor
from orchestration.build import build_definitions
from orchestration.quality_sensor import quality_sensor
from orchestration.upkeep_sensor import upkeep_sensor
from orchestration.windows_sensor import windows_sensor
from resources.sluice import Sluice
from spark_jobs.books.entries import DEFAULT_DUE_ATTEMPTS
from spark_jobs.commit.table_creation import create_table
from spark_jobs.config.secrets import resolve
from spark_jobs.config.sections import NotifySettings
from spark_jobs.config.settings import CatalogSettings, PipelineConfig, SluiceConfig
from spark_jobs.connections.endpoints import last_beat_ms
from spark_jobs.lake.catalog import close_catalog, open_catalog
from spark_jobs.lake.tables import load_table
from spark_jobs.monitoring.survey import Problem
from spark_jobs.protocol.batch import Batch, Pause
from spark_jobs.protocol.errors import RetryableError
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from spark_jobs.protocol.progress import Progress
from spark_jobs.txlog.entries import FlushComplete, FlushStart, Notified
from spark_jobs.txlog.store import TxlogStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from prove.lab.kafka_server import KafkaBroker

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))


@dataclass(frozen=True)
class Scene:
    """Pipelines over one broker and one catalog, and an instance to tick in."""

    config: SluiceConfig
    instance: DagsterInstance
    sluice: Sluice

    def tick(self, sensor: Any = backlog_sensor, cursor: str | None = None) -> SensorResult:
        """One tick, as the daemon makes it."""
        with build_sensor_context(
            instance=self.instance,
            cursor=cursor,
            resources={"sluice": self.sluice},
            definitions=build_definitions(self.config),
        ) as context:
            result = sensor(context)
        assert isinstance(result, SensorResult)
        return result

    def make_table(self, pipeline: PipelineConfig, next_offset: int, paused: Pause | None = None) -> Table:
        """The pipeline's table as a drain up to ``next_offset`` of partition 0 leaves it."""
        catalog = open_catalog(self.config.catalog.name, self.config.catalog.properties)
        table = create_table(
            catalog,
            pipeline.table,
            SCHEMA,
            partition_by=(),
            properties={},
            progress=Progress(pipeline.topic, 0, {0: next_offset}, paused=paused),
            dead_letters=False,
        )
        close_catalog(catalog)
        return table


def pipeline_of(topic: str, **settings: Any) -> PipelineConfig:
    """A pipeline named as its topic."""
    return PipelineConfig(name=topic, topic=topic, table=f"lake.{topic.replace('-', '_')}", **settings)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The state folder."""
    return tmp_path


def scene_of(
    broker: str, catalog: dict[str, str], folder: Path, instance: DagsterInstance, *pipelines: PipelineConfig
) -> Scene:
    """A scene with these pipelines."""
    config = SluiceConfig(
        home=str(folder),
        state=str(folder / "log"),
        kafka={"bootstrap.servers": broker},
        catalog=CatalogSettings(properties=catalog),
        pipelines=pipelines,
    )
    return Scene(config, instance, Sluice(config))


@pytest.fixture
def instance() -> Iterator[DagsterInstance]:
    """An instance in memory."""
    with DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


SECRET = "hunter2-Tr0ub4dor"


@pytest.mark.parametrize("sensor", [backlog_sensor, upkeep_sensor, windows_sensor, quality_sensor])
@pytest.mark.parametrize("is_one", [True, False], ids=["one pipeline", "the whole look"])
def test_what_a_sensor_says_and_remembers_holds_no_secret(
    folder: Path,
    instance: DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    sensor: Any,
    is_one: bool,
) -> None:
    """A catalog may quote what it was sent; the log, the reason and the cursor stay in Dagster's database.

    What a look at one pipeline meets is no silence of the sensor: its tick is noted.
    """
    pipeline = pipeline_of("orders")
    scene = scene_of("127.0.0.1:1", {"type": "rest", "credential": SECRET}, folder, instance, pipeline)
    resolve(scene.config.catalog.properties)
    quoting = RetryableError(f"the catalog refused {SECRET}", code="catalog-away", hint=f"Is {SECRET} right?")

    def look(*_: object) -> list[Problem]:
        if is_one:
            return [Problem(pipeline, quoting)]
        raise quoting

    monkeypatch.setattr(scene.sluice.surveyor, "survey", look)
    monkeypatch.setattr(scene.sluice.surveyor, "upkeep", look)
    if is_one:
        result = scene.tick(sensor)
        said = f"{result} {result.skip_reason} {result.cursor} {caplog.text}"
        assert sensor is quality_sensor or "the catalog refused ***" in said
    else:
        with pytest.raises(Exception, match="the catalog refused") as raised:
            scene.tick(sensor)
        said = "".join(traceback.format_exception(raised.value))
    assert SECRET not in said
    assert (last_beat_ms(scene.config.home) is not None) is (is_one and sensor is backlog_sensor)


def test_a_backlog_without_a_table_asks_for_a_run(
    kafka: KafkaBroker, sqlite_catalog_properties: dict[str, str], folder: Path, instance: DagsterInstance
) -> None:
    """First records are drained at once; an empty topic and a caught-up table ask for nothing."""
    new, empty, done = (pipeline_of(kafka.new_topic()) for _ in range(3))
    for pipeline in (new, done):
        kafka.produce(pipeline.topic, [b"{}"] * 5)
    scene = scene_of(kafka, sqlite_catalog_properties, folder, instance, new, empty, done)
    scene.make_table(done, 5)
    (asked,) = scene.tick().run_requests or ()
    assert asked.tags["sluice/pipeline"] == new.name
    assert asked.run_key is not None
    assert asked.run_key.endswith(":0")
    assert [key.path for key in asked.asset_selection or ()] == [["lake", new.table.partition(".")[2]]]


def test_one_broken_pipeline_is_reported_and_hides_nothing(
    kafka: KafkaBroker, sqlite_catalog_properties: dict[str, str], folder: Path, instance: DagsterInstance
) -> None:
    """A missing topic is in the skip message with its code, while the others go on being looked at."""
    fine, missing = pipeline_of(kafka.new_topic()), pipeline_of("no-such-topic-anywhere")
    scene = scene_of(kafka, sqlite_catalog_properties, folder, instance, missing, fine)
    skipped = scene.tick()
    assert skipped.skip_reason is not None
    assert "no-such-topic" in str(skipped.skip_reason.skip_message)
    assert list(json.loads(skipped.cursor or "{}")) == [missing.name]
    kafka.produce(fine.topic, [b"{}"])
    (asked,) = scene.tick(cursor=skipped.cursor).run_requests or ()
    assert asked.tags["sluice/pipeline"] == fine.name


def test_a_range_that_kafka_lost_is_asked_for_so_that_its_error_shows(
    kafka: KafkaBroker, sqlite_catalog_properties: dict[str, str], folder: Path, instance: DagsterInstance
) -> None:
    """A table ahead of the topic or behind its retention leads to a run that fails by name."""
    ahead, behind = (pipeline_of(kafka.new_topic(), freshness_seconds=3600) for _ in range(2))
    for pipeline in (ahead, behind):
        kafka.produce(pipeline.topic, [b"{}"] * 5)
    kafka.delete_records(behind.topic, {0: 5})
    scene = scene_of(kafka, sqlite_catalog_properties, folder, instance, ahead, behind)
    scene.make_table(ahead, 9)
    scene.make_table(behind, 2)
    asked = scene.tick().run_requests or ()
    assert {request.tags["sluice/pipeline"] for request in asked} == {ahead.name, behind.name}


def test_a_paused_pipeline_is_left_alone_and_said_once(
    kafka: KafkaBroker, sqlite_catalog_properties: dict[str, str], folder: Path, instance: DagsterInstance
) -> None:
    """Its backlog asks for no run, nor does what Kafka lost; the cursor keeps it from being said twice."""
    waiting = pipeline_of(kafka.new_topic(), freshness_seconds=1)
    kafka.produce(waiting.topic, [b"{}"] * 5)
    kafka.delete_records(waiting.topic, {0: 4})
    scene = scene_of(kafka, sqlite_catalog_properties, folder, instance, waiting)
    scene.make_table(waiting, 2, Pause("the broker moves", "ada@box", 1))
    ticks = [scene.tick()]
    ticks.append(scene.tick(cursor=ticks[0].cursor))
    for tick in ticks:
        assert not tick.run_requests
        assert "paused by ada@box: the broker moves" in str(tick.skip_reason)
    assert ticks[0].cursor == ticks[1].cursor


def test_no_broker_is_one_clear_line(
    sqlite_catalog_properties: dict[str, str], folder: Path, instance: DagsterInstance
) -> None:
    """Without a broker the tick is skipped with the reason and what to do; it does not fail."""
    scene = scene_of("", sqlite_catalog_properties, folder, instance, pipeline_of("orders"))
    skipped = scene.tick().skip_reason
    assert skipped is not None
    assert "no-broker" in str(skipped.skip_message)


def test_a_tick_says_what_an_open_transaction_holds_back(
    kafka: KafkaBroker, sqlite_catalog_properties: dict[str, str], folder: Path, instance: DagsterInstance
) -> None:
    """Nothing can be drained, and nobody is warned: most transactions end by themselves."""
    pipeline = pipeline_of(kafka.new_topic())
    scene = scene_of(kafka, sqlite_catalog_properties, folder, instance, pipeline)
    scene.make_table(pipeline, 0)
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": pipeline.topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(pipeline.topic, b"{}")
    producer.flush(10)
    told = scene.tick()
    assert told.skip_reason is not None
    said = told.skip_reason.skip_message
    assert said == f"{pipeline.name}: waiting for an open transaction: 1 record"
    assert told.cursor == "{}"
    producer.abort_transaction(10)


def test_a_tick_reads_only_tables_that_may_be_due(
    kafka: KafkaBroker,
    sqlite_catalog_properties: dict[str, str],
    folder: Path,
    instance: DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of tables that were read before: neither one without waiting records nor one that is fresh enough."""
    resting, fresh, full = (
        pipeline_of(kafka.new_topic(), freshness_seconds=3600, max_batch_records=2) for _ in range(3)
    )
    scene = scene_of(kafka, sqlite_catalog_properties, folder, instance, resting, fresh, full)
    for pipeline in (resting, fresh, full):
        scene.make_table(pipeline, 0)
    assert scene.tick().skip_reason is not None
    read: list[str] = []
    monkeypatch.setattr("spark_jobs.lake.tables.load_table", _noting(read, load_table))
    kafka.produce(fresh.topic, [b"{}"])
    kafka.produce(full.topic, [b"{}"] * 2)
    (asked,) = scene.tick().run_requests or ()
    assert asked.tags["sluice/pipeline"] == full.name
    assert read == [full.table]


def test_upkeep_and_windows_read_only_tables_that_moved(
    kafka: KafkaBroker,
    sqlite_catalog_properties: dict[str, str],
    folder: Path,
    instance: DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not those at rest; that of a new commit once a tick for drains has read it, one with work to do."""
    resting, moved, torn = (pipeline_of(kafka.new_topic(), freshness_seconds=1) for _ in range(3))
    scene = scene_of(kafka, sqlite_catalog_properties, folder, instance, resting, moved, torn)
    for pipeline in (resting, moved):
        scene.make_table(pipeline, 0)
    store = TxlogStore(scene.config.state, sqlite_catalog_properties)
    _log(store, scene, torn, "b", FlushStart("b", "file:/x", None))
    for sensor in (backlog_sensor, upkeep_sensor, windows_sensor):
        scene.tick(sensor)
    kafka.produce(moved.topic, [b"{}"])
    _commit(scene, moved)
    scene.tick()
    read: list[str] = []
    monkeypatch.setattr("spark_jobs.lake.tables.load_table", _noting(read, load_table))
    scene.tick(windows_sensor)
    assert read == [moved.table], "it may have its first window now"
    read.clear()
    scene.tick(upkeep_sensor)
    assert set(read) & {each.table for each in scene.config.pipelines} == {moved.table, torn.table}


def _commit(scene: Scene, pipeline: PipelineConfig) -> None:
    """Change the table as a drain or another writer does."""
    catalog = open_catalog(scene.config.catalog.name, scene.config.catalog.properties)
    table = catalog.load_table(pipeline.table)
    table.append(table.schema().as_arrow().empty_table())
    close_catalog(catalog)


def test_daily_upkeep_of_all_is_asked_about_once(
    kafka: KafkaBroker,
    sqlite_catalog_properties: dict[str, str],
    folder: Path,
    instance: DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One query tells when each table's orphans were last removed; who was done today is not asked for."""
    topic = kafka.new_topic()
    pipelines = [PipelineConfig(name=f"p{n}", topic=topic, table=f"lake.t{n}") for n in range(3)]
    scene = scene_of(kafka, sqlite_catalog_properties, folder, instance, *pipelines)
    for pipeline in pipelines:
        scene.make_table(pipeline, 0)
    instance.report_runless_asset_event(AssetMaterialization(upkeep_key(pipelines[1], "orphans")))
    asked: list[int] = []
    monkeypatch.setattr(
        instance, "get_latest_materialization_event", lambda *_: pytest.fail("asked for one alone")
    )
    read = instance.get_asset_records
    monkeypatch.setattr(instance, "get_asset_records", lambda *a: (asked.append(1), read(*a))[1])
    requests = scene.tick(upkeep_sensor, cursor='{"p0": 1.0, "p1": 1.0, "p2": 1.0}').run_requests or ()
    assert [request.tags["sluice/pipeline"] for request in requests] == ["p0", "p2"]
    assert asked == [1]


def _noting(read: list[str], load: Callable[[Catalog, str], Table | None]) -> Callable[..., Table | None]:
    def noted(catalog: Catalog, table: str) -> Table | None:
        read.append(table)
        return load(catalog, table)

    return noted


def test_fifty_pipelines_are_looked_at_in_two_seconds_of_cpu(
    kafka: KafkaBroker, sqlite_catalog_properties: dict[str, str], folder: Path, instance: DagsterInstance
) -> None:
    """A tick's time leaves room for ten times as many pipelines within Dagster's 60 s."""
    topic = kafka.new_topic(partitions=4)
    kafka.produce(topic, [b"{}"] * 100)
    pipelines = [
        PipelineConfig(name=f"p{n}", topic=topic, table=f"lake.t{n}", freshness_seconds=3600)
        for n in range(50)
    ]
    scene = scene_of(kafka, sqlite_catalog_properties, folder, instance, *pipelines)
    for pipeline in pipelines:
        scene.make_table(pipeline, 0)
    scene.sluice.surveyor.survey()
    started = time.process_time()  # of all threads: a busy machine makes none slower
    looked = scene.sluice.surveyor.survey(lambda _: True)
    seconds = time.process_time() - started
    assert len(looked) == 50
    assert seconds < 2.0


def test_long_logs_are_folded_and_unfinished_attempts_settled(
    kafka: KafkaBroker, sqlite_catalog_properties: dict[str, str], folder: Path, instance: DagsterInstance
) -> None:
    """Enough finished attempts ask for a checkpoint, an old unfinished one for a drain that is not paused."""
    long, torn, paused = (pipeline_of(kafka.new_topic()) for _ in range(3))
    scene = scene_of(kafka, sqlite_catalog_properties, folder, instance, long, torn, paused)
    store = TxlogStore(scene.config.state, sqlite_catalog_properties)
    for n in range(DEFAULT_DUE_ATTEMPTS):
        _log(store, scene, long, f"a{n}", FlushComplete({}, None, "r", 1))
    assert [asked.job_name for asked in scene.tick(upkeep_sensor).run_requests or ()] == ["upkeep"]
    for pipeline, pause in ((torn, None), (paused, Pause("the broker moves", "ada@box", 1))):
        scene.make_table(pipeline, 0, pause)
        _log(store, scene, pipeline, "b", FlushStart("b", "file:/x", None))
    asked = scene.tick(upkeep_sensor).run_requests or ()
    drains = [request.tags["sluice/pipeline"] for request in asked if request.job_name == "drain"]
    assert drains == [torn.name]


def test_notices_nobody_took_ask_for_a_checkpoint(
    kafka: KafkaBroker, sqlite_catalog_properties: dict[str, str], folder: Path, instance: DagsterInstance
) -> None:
    """Where no drain follows somebody must send them; the tries pause longer and longer."""
    webhook = NotifySettings(webhook=SecretStr("http://127.0.0.1:1/hook"))
    told, silent = pipeline_of(kafka.new_topic(), notify=webhook), pipeline_of(kafka.new_topic())
    scene = scene_of(kafka, sqlite_catalog_properties, folder, instance, told, silent)
    store = TxlogStore(scene.config.state, sqlite_catalog_properties)
    for pipeline in (told, silent):
        _log(store, scene, pipeline, "a", FlushComplete({}, None, "r", 1))
    (asked,) = scene.tick(upkeep_sensor).run_requests or ()
    assert [key.path[-1] for key in asked.asset_selection or ()] == [f"log_{told.name}"]
    assert (asked.tags["sluice/pipeline"], asked.tags["sluice/reason"]) == (
        told.name,
        "the webhook did not accept the notice of a",
    )
    _log(store, scene, told, "a", Notified("delivered", "r", 1))
    assert not scene.tick(upkeep_sensor).run_requests


def _log(store: TxlogStore, scene: Scene, pipeline: PipelineConfig, attempt: str, entry: Any) -> None:
    table = scene.make_table(pipeline, 0)
    ranges = OffsetRanges((OffsetRange(0, 0, 1),))
    batch = Batch(pipeline.name, pipeline.table, pipeline.topic, 0, ranges, attempt, 1)
    store.append(str(table.metadata.table_uuid), batch, entry)

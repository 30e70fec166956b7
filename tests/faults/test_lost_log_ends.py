"""A log that lost its end and grew on is noticed, whatever was done to the table since its last batch."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from cli.commands import status
from cli.commands.state_word import StateWord
from orchestration.backlog_sensor import backlog_of
from orchestration.run_requests import should_drain
from prove.lab.brokers import Brokers, own_broker
from prove.lab.kafka_server import KafkaBroker, Record
from prove.lab.pipeline_lab import configure, orders, progress
from spark_jobs.acts.accept_source import accept_source, compare_source
from spark_jobs.acts.act import skip
from spark_jobs.acts.rollback import rollback
from spark_jobs.config.quantities import Start
from spark_jobs.monitoring.checkup import check_up
from spark_jobs.monitoring.survey import Surveyed, Surveyor
from spark_jobs.protocol.errors import OffsetsUnavailable
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from spark_jobs.replay.plan import plan_replay
from tests.support.new_lab import NewLab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prove.lab.pipeline_lab import Lab

pytestmark = [pytest.mark.faults, pytest.mark.kafka]


OTHERS = 30
FAR = [Record(value, timestamp_ms=1_767_225_600_000 + n) for n, value in enumerate(orders(0, 40))]
TAKEN: dict[str, list[bytes | None]] = {
    "skip": [*orders(10, 10)],
    "dead letters": [b"broken", None],
    "judged": [*orders(10, 10)],
    "replay": [*orders(10, 10)],
}


@pytest.fixture(scope="module")
def broker(servers_folder: Path) -> Iterator[Brokers]:
    """A broker whose logs may be cut."""
    with own_broker(servers_folder / "kafka-that-forgets") as broker:
        yield broker


@pytest.fixture(scope="module")
def made(broker: Brokers, tmp_path_factory: pytest.TempPathFactory) -> NewLab:
    """Pipelines over that broker."""
    return NewLab(KafkaBroker(broker.bootstrap_servers), "", tmp_path_factory.mktemp("lost"), is_here=True)


@dataclass(frozen=True, slots=True)
class Rolled:
    """A table of two batches, the first one's snapshot, and where the log is to be cut below it."""

    lab: Lab
    first: int
    size: int


@dataclass(frozen=True, slots=True)
class Scene:
    """Pipelines that drained what one crash of the broker then took; of the last two it took nothing."""

    cut: dict[str, Lab]
    rolled: Rolled
    retained: Lab
    elsewhere: Lab


@pytest.fixture(scope="module")
def scene(broker: Brokers, made: NewLab) -> Scene:
    """All logs lose their ends in one crash, and others take the place of what they had."""
    sizes: dict[str, int] = {}
    cut = {name: made(orders(0, 10)) for name in TAKEN}
    for name, lab in cut.items():
        sizes[lab.pipeline.topic] = _size(broker, lab)
        made.produce(lab, TAKEN[name])
        lab.drain()
    made.produce(cut["skip"], [b"poison"])
    with cut["skip"].connections() as connections:
        skip(cut["skip"].pipeline, connections, OffsetRanges((OffsetRange(0, 20, 21),)), reason="it kills")
    rolled, above = _rolled(broker, made)
    sizes[rolled.lab.pipeline.topic] = above
    retained, elsewhere = made(orders(0, 10)), made(FAR[:30])
    retained.drain()
    broker.kill()
    for topic, size in sizes.items():
        os.truncate(broker.log_of(topic, 0), size)
    broker.start()
    for lab in (*cut.values(), rolled.lab):
        made.produce(lab, orders(1000, OTHERS))
    return Scene(cut, rolled, retained, elsewhere)


def _rolled(broker: Brokers, made: NewLab) -> tuple[Rolled, int]:
    lab = made(orders(0, 5))
    size = _size(broker, lab)
    made.produce(lab, orders(5, 5))
    lab.drain()
    first = lab.table().metadata.current_snapshot_id
    assert first is not None
    above = _size(broker, lab)
    made.produce(lab, orders(10, 10))
    lab.drain()
    return Rolled(lab, first, size), above


def _size(broker: Brokers, lab: Lab) -> int:
    return broker.log_of(lab.pipeline.topic, 0).stat().st_size


def test_after_a_skip(scene: Scene) -> None:
    """The last batch's leader answers for what the batch had, although the next offset is past it."""
    with pytest.raises(OffsetsUnavailable, match="lost records below offset 20,") as noticed:
        scene.cut["skip"].drain()
    assert noticed.value.code == "log-truncated"


def test_after_a_rollback(scene: Scene, broker: Brokers, made: NewLab) -> None:
    """To before the loss it mends the table, which then drains on; a cut below what is left is an error."""
    lab, first = scene.rolled.lab, scene.rolled.first
    with pytest.raises(OffsetsUnavailable, match="lost records below offset 20,"):
        lab.drain()
    with lab.connections() as connections:
        rollback(lab.pipeline, connections, to_snapshot=first, reason="a test")
    lab.drain()
    assert lab.rows().num_rows == 10 + OTHERS
    with lab.connections() as connections:
        rollback(lab.pipeline, connections, to_snapshot=first, reason="again")
    broker.cut(lab.pipeline.topic, 0, scene.rolled.size)
    made.produce(lab, orders(1000, OTHERS))
    with pytest.raises(OffsetsUnavailable, match="lost records below offset 10,"):
        lab.drain()


def test_only_dead_letters_were_lost(scene: Scene) -> None:
    """Rows that are all there do not show that the log is the same: what took the others' place is read."""
    lab = scene.cut["dead letters"]
    with pytest.raises(OffsetsUnavailable):
        lab.drain()
    with lab.connections() as connections:
        seen = compare_source(lab.pipeline, connections)
        assert (seen.same, seen.objections, seen.cut, seen.continues) == (10, (), (0,), False)
        accept_source(lab.pipeline, connections, seen, start=Start(), reason="a test")
    lab.drain()
    found = lab.audit()
    assert found.is_clean, found
    assert (progress(lab).generation, found.rows) == (2, 10 + OTHERS)


def test_every_place_that_judges_a_drain_names_it(scene: Scene) -> None:
    """`status` and the checks tell the error that the drain ends with; the sensor asks for that drain."""
    lab = scene.cut["judged"]
    with pytest.raises(OffsetsUnavailable, match="lost records below offset 20,") as refused:
        lab.drain()
    ((facts, state),) = status.look(lab.config)
    assert (state.word, str(facts.error)) == (StateWord.FAILED, str(refused.value))
    (health,) = check_up(Surveyor(lab.config))
    assert str(health.facts.error) == str(refused.value)
    stall = next(result for result in health.results if result.name == "stall")
    assert (stall.passed, stall.fact) == (False, f"a drain would fail now: {refused.value.message}")
    (seen,) = Surveyor(lab.config).survey()
    assert isinstance(seen, Surveyed)
    backlog = backlog_of(seen, time.time() + lab.pipeline.freshness_seconds)
    assert (backlog.records, backlog.disagreement) == (seen.source.end[0] - 20, None)
    assert should_drain(backlog, lab.pipeline) is not None


def test_retention_is_no_cut(scene: Scene, broker: Brokers, made: NewLab) -> None:
    """A new leader that no longer has the next offset has lost nothing that the table has."""
    lab = scene.retained
    made.produce(lab, orders(10, 10))
    KafkaBroker(broker.bootstrap_servers).delete_records(lab.pipeline.topic, {0: 15})
    with lab.connections() as connections:
        seen = compare_source(lab.pipeline, connections)
    assert (seen.cut, seen.has_changed) == ((), False)
    with pytest.raises(OffsetsUnavailable) as noticed:
        lab.drain()
    assert noticed.value.code == "retention-passed"


def test_a_replay_keeps_what_kafka_lost(scene: Scene) -> None:
    """Other records stand at its offsets: the table's rows are the only copies, and stay."""
    lab = scene.cut["replay"]
    with lab.connections() as connections:
        for wanted in (OffsetRange(0, 5, 20), OffsetRange(0, 0, 5)):
            with pytest.raises(OffsetsUnavailable, match="lost records below offset 20,") as noticed:
                plan_replay(lab.pipeline, connections, [wanted])
            assert noticed.value.code == "log-truncated"
    assert lab.rows().num_rows == 20


def test_another_cluster_counts_epochs_anew(scene: Scene, kafka: KafkaBroker) -> None:
    """It knows no leader that the table was filled under: its records show that it has the same log."""
    lab = scene.elsewhere
    lab.drain()
    assert progress(lab).leader_epochs[0][1] > 0
    kafka.create_topic(lab.pipeline.topic, retention_ms=-1)
    kafka.produce(lab.pipeline.topic, FAR)
    configure(lab, "kafka", {"bootstrap.servers": str(kafka)})
    with lab.connections() as connections:
        seen = compare_source(lab.pipeline, connections)
        assert (seen.same, seen.cut, seen.continues) == (30, (), True)
        accept_source(lab.pipeline, connections, seen, start=Start(), reason="a test")
    lab.drain()
    found = lab.audit()
    assert found.is_clean, found
    assert (progress(lab).generation, found.rows) == (1, 40)

"""A leader that moves: three brokers of the case's own, one of which dies while it leads a partition."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from prove.hostile import Told, drained, put_right
from prove.hostile_kafka import other_topic
from prove.lab.kafka_cluster import CONTROLLER, KafkaCluster, kafka_cluster
from prove.own_kafka import OwnKafkaCase
from prove.stage import BATCH, PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prove.scenario import Scenario
    from prove.stage import Play

ALL = 3


def hostile_clusters() -> Iterator[Scenario]:
    """Every case, in the report's order."""
    yield from (case.scenario() for case in CASES)


def _moved_before(play: Play, cluster: KafkaCluster) -> Told:
    topic = other_topic(play, copies=ALL)
    drained(play)
    play.produce_batch()
    _move(cluster, topic)
    return put_right("another broker leads", play, was_read=False)


def _moved_during(play: Play, cluster: KafkaCluster) -> Told:
    topic = other_topic(play, copies=ALL)
    drained(play)
    play.produce_batch()
    with play.lab.stopped_at("split.after-chunk", once=str(play.folder / "slept")) as drain:
        _move(cluster, topic)
        drain.go_on()
        error = drain.answer().error
    assert error in {None, "broker-away", "no-leader"}, error
    ended = f"the run ended with {error}" if error else "the run went on"
    return put_right(ended, play)


def _move(cluster: KafkaCluster, topic: str) -> None:
    """Kill a broker that leads, but not the one that is the controller as well."""
    leaders = {partition: cluster.leader(topic, partition) for partition in range(PARTITIONS)}
    partition = next(partition for partition, leader in leaders.items() if leader != CONTROLLER)
    cluster.kill(leaders[partition])
    cluster.wait_for_leader(topic, partition, other_than=leaders[partition])


ClusterCase = partial(OwnKafkaCase, opened=kafka_cluster)
CASES = (
    ClusterCase(
        "leader-moved/before",
        "a partition's leader dies before the read, another broker leads",
        "it is read from the new leader",
        _moved_before,
    ),
    ClusterCase(
        "leader-moved/during",
        "a partition's leader dies while a task reads, another broker leads",
        "the run goes on, or ends with a named error and the next one reads the range again",
        _moved_during,
        may_read_again=(0, BATCH),
    ),
)

"""A leader that moves: three brokers of the case's own, one of which dies while it leads a partition."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from prove.hostile.case import Told, drained, put_right, refused
from prove.hostile.kafka import accepted, other_topic
from prove.hostile.own_kafka import OwnKafkaCase
from prove.lab.kafka_cluster import CONTROLLER, KafkaCluster, kafka_cluster
from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import orders
from prove.stage import BATCH, PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prove.scenario import Scenario
    from prove.stage import Play

LEADER, BEHIND = 2, 3
AWAY_SECONDS = 1.0
ALL = (LEADER, BEHIND, CONTROLLER)
OTHERS = orders(0, 2 * BATCH)


def hostile_clusters() -> Iterator[Scenario]:
    """Every case, in the report's order."""
    yield from (case.scenario() for case in CASES)


def _moved_before(play: Play, cluster: KafkaCluster) -> Told:
    topic = other_topic(play, nodes=ALL)
    drained(play)
    play.produce_batch()
    _move(cluster, topic)
    return put_right("another broker leads", play, was_read=False)


def _moved_during(play: Play, cluster: KafkaCluster) -> Told:
    topic = other_topic(play, nodes=ALL)
    drained(play)
    play.produce_batch()
    with play.lab.stopped_at("split.after-chunk", once=str(play.folder / "slept")) as drain:
        cluster.kill(LEADER)
        # Awake, it meets the dead leader first and has to find the new one by itself.
        drain.go_on()
        time.sleep(AWAY_SECONDS)
        assert not drain.receiver.poll(), f"it ended beside a dead leader: {drain.answer()}"
        _wait_for_others(cluster, topic)
        error = drain.answer().error
    assert error in {None, "broker-away", "no-leader"}, error
    ended = f"the run ended with {error}" if error else "the run went on"
    return put_right(ended, play)


def _move(cluster: KafkaCluster, topic: str) -> None:
    cluster.kill(LEADER)
    _wait_for_others(cluster, topic)


def _wait_for_others(cluster: KafkaCluster, topic: str) -> None:
    for partition in range(PARTITIONS):
        cluster.wait_for_leader(topic, partition, other_than=LEADER)


def _unclean(play: Play, cluster: KafkaCluster) -> Told:
    """The one copy that is left never saw the second batch; what comes next takes its offsets."""
    topic = other_topic(play, nodes=(LEADER, BEHIND), unclean_leader_election_enable="true")
    drained(play)
    cluster.kill(BEHIND)
    drained(play)
    cluster.kill(LEADER)
    cluster.start(BEHIND)
    _wait_for_others(cluster, topic)
    play.kafka.produce(topic, [Record(v, partition=n % PARTITIONS) for n, v in enumerate(OTHERS)])
    ended = refused(play, "log-truncated")
    cluster.start(LEADER)
    # The next generation has the first batch again, and what came instead of the second.
    play.produced.rows += 40 + len(OTHERS)
    play.produced.dead_letters += 3
    play.produced.tombstones += 1
    return accepted(play, ended, of_earlier=2 * BATCH)


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
    ClusterCase(
        "leader-unclean",
        "every copy of a batch is lost, a broker that never had it leads, and others come in its place",
        "a named error; once accepted, what is there is the next generation",
        _unclean,
    ),
)

"""A leader that moves: three brokers of the case's own, one of which dies while it leads a partition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from prove.hostile import Told, drained, judge, put_right
from prove.hostile_kafka import GROUP, other_topic
from prove.lab.kafka_cluster import CONTROLLER, kafka_cluster
from prove.lab.kafka_server import unique_name
from prove.scenario import Findings, Scenario
from prove.stage import BATCH, CATALOG_NAMES, PARTITIONS, SQLITE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prove.lab.kafka_cluster import KafkaCluster
    from prove.stage import Play, Stage

ALL = 3


@dataclass(frozen=True, slots=True)
class ClusterCase:
    """``happen`` is done to a pipeline over a cluster of its own."""

    name: str
    title: str
    promise: str
    happen: Callable[[Play, KafkaCluster], Told]
    may_read_again: tuple[int, ...] = (0,)

    def scenario(self) -> Scenario:
        """The case as the runner knows it."""
        return Scenario(
            name=f"{SQLITE}/{self.name}",
            group=f"{GROUP}, on {CATALOG_NAMES[SQLITE]}",
            title=self.title,
            promise=self.promise,
            needs=frozenset(),
            is_quick=False,
            run=self.run,
        )

    def run(self, stage: Stage) -> Findings:
        """Harm, put right, go on, look."""
        with (
            kafka_cluster(stage.folder / unique_name("cluster")) as cluster,
            replace(stage, kafka=cluster.bootstrap_servers).play(SQLITE) as play,
        ):
            return judge(play, self.happen(play, cluster), self.may_read_again)


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

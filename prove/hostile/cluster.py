"""Leader changes: three brokers of the case, one of which dies while it leads a partition."""

from __future__ import annotations

import time
from functools import partial

from prove.hostile.case import History, expect_refusal, own_kafka_case, repair
from prove.hostile.kafka import accept, other_topic
from prove.lab.brokers import FIRST, Brokers, three_brokers
from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import orders
from prove.workload import BATCH, LONG, PARTITIONS, Workload

LEADER, BEHIND = 2, 3
AWAY_SECONDS = 1.0
ALL = (LEADER, BEHIND, FIRST)
OTHERS = orders(0, 2 * BATCH)


def _move_before(workload: Workload, cluster: Brokers) -> History:
    topic = other_topic(workload, nodes=ALL)
    workload.drain_and_produce()
    _move(cluster, topic)
    return repair("another broker leads", workload, was_read=False)


def _move_during(workload: Workload, cluster: Brokers) -> History:
    topic = other_topic(workload, nodes=ALL)
    workload.drain_and_produce_long()
    with workload.lab.stopped_at("split.after-chunk") as drain:
        cluster.kill(LEADER)
        # Awake, it meets the dead leader first and has to find the new one by itself.
        drain.go_on()
        time.sleep(AWAY_SECONDS)
        assert not drain.receiver.poll(), f"it ended beside a dead leader: {drain.answer()}"
        _wait_for_others(cluster, topic)
        error = drain.answer().error
    assert error in {None, "broker-away", "no-leader"}, error
    ended = f"the run ended with {error}" if error else "the run went on"
    return repair(ended, workload)


def _move(cluster: Brokers, topic: str) -> None:
    cluster.kill(LEADER)
    _wait_for_others(cluster, topic)


def _wait_for_others(cluster: Brokers, topic: str) -> None:
    for partition in range(PARTITIONS):
        cluster.wait_for_leader(topic, partition, other_than=LEADER)


def _elect_unclean(workload: Workload, cluster: Brokers) -> History:
    """Elect the only remaining copy, which lacks the second batch; new records take its offsets."""
    topic = other_topic(workload, nodes=(LEADER, BEHIND), unclean_leader_election_enable="true")
    workload.drain_batches()
    cluster.kill(BEHIND)
    workload.drain_batches()
    cluster.kill(LEADER)
    cluster.start(BEHIND)
    _wait_for_others(cluster, topic)
    workload.kafka.produce(topic, [Record(v, partition=n % PARTITIONS) for n, v in enumerate(OTHERS)])
    ended = expect_refusal(workload, "log-truncated")
    cluster.start(LEADER)
    # The next generation has the first batch again, and what came instead of the second.
    workload.contents.rows += 40 + len(OTHERS)
    workload.contents.dead_letters += 3
    workload.contents.tombstones += 1
    return accept(workload, ended, of_earlier=2 * BATCH)


_case = partial(own_kafka_case, opened=three_brokers)
SCENARIOS = (
    _case(
        "leader-moved/before",
        "a partition's leader dies before the read, another broker leads",
        "it is read from the new leader",
        _move_before,
    ),
    _case(
        "leader-moved/during",
        "a partition's leader dies while a task reads, another broker leads",
        "the run goes on, or ends with a named error and the next one reads the range again",
        _move_during,
        may_read_again=(0, LONG),
    ),
    _case(
        "leader-unclean",
        "every copy of a batch is lost, a broker that never had it leads, and others come in its place",
        "a named error; once accepted, what is there is the next generation",
        _elect_unclean,
    ),
)

"""The shape of a case that lays hands on Kafka itself: it has brokers of its own to lose."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

from prove.hostile.case import History, judge
from prove.lab.kafka_server import unique_name
from prove.scenario import Findings, Scenario, scenario_on
from prove.workload import SQLITE, Testbed, Workload


class OwnKafka(Protocol):
    """Brokers that a case may kill."""

    @property
    def bootstrap_servers(self) -> str:
        """Return where they answer."""
        ...


K = TypeVar("K", bound=OwnKafka)


def own_kafka_case(
    name: str,
    title: str,
    promise: str,
    inject: Callable[[Workload, K], History],
    *,
    opened: Callable[[Path], AbstractContextManager[K]],
    may_read_again: tuple[int, ...] = (0,),
) -> Scenario:
    """Return a case that does ``inject`` to a pipeline over the Kafka that ``opened`` starts in a folder."""

    def run(testbed: Testbed) -> Findings:
        with (
            opened(testbed.folder / unique_name("kafka")) as kafka,
            replace(testbed, kafka=kafka.bootstrap_servers).workload(SQLITE) as workload,
        ):
            return judge(workload, inject(workload, kafka), may_read_again)

    return scenario_on(name, "a hostile broker", title, promise, run)

"""The shape of a case that lays hands on Kafka itself: it has brokers of its own to lose."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from prove.hostile.case import Told, judge
from prove.lab.kafka_server import unique_name
from prove.scenario import Findings, Scenario
from prove.stage import CATALOG_NAMES, SQLITE

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from prove.stage import Play, Stage


class OwnKafka(Protocol):
    """Brokers that a case may kill."""

    @property
    def bootstrap_servers(self) -> str:
        """Where they answer."""
        ...


K = TypeVar("K", bound=OwnKafka)
GROUP = "a hostile broker"


@dataclass(frozen=True, slots=True)
class OwnKafkaCase(Generic[K]):
    """``happen`` is done to a pipeline over the Kafka that ``opened`` starts in a folder, and stops."""

    name: str
    title: str
    promise: str
    happen: Callable[[Play, K], Told]
    opened: Callable[[Path], AbstractContextManager[K]]
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
            self.opened(stage.folder / unique_name("kafka")) as kafka,
            replace(stage, kafka=kafka.bootstrap_servers).play(SQLITE) as play,
        ):
            return judge(play, self.happen(play, kafka), self.may_read_again)

"""What killed runs leave behind, on a real table and a real log, and a recovery over it.

Kafka is not here at all: recovery asks it for nothing.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import Connections
from spark_jobs.lake.tables import data_location, dead_letters_of
from spark_jobs.protocol.source import SourceState
from spark_jobs.recovery.recover import recover
from spark_jobs.storage.create_only import list_files
from spark_jobs.txlog.entries import FlushStart
from spark_jobs.txlog.store import TxlogStore
from tests.support.lake import TOPIC, Lake
from tests.support.log_entries import buffer_snapshot, offset_commit

if TYPE_CHECKING:
    from spark_jobs.commit.batch_commit import DrainCommit
    from spark_jobs.recovery.decide import RecoveryResult

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
    state: SourceState | None = None

    def source_state(self, topic: str) -> SourceState:
        self.asked += 1
        everything = dict.fromkeys(range(3), 0)
        return self.state or SourceState(
            topic, self.topic_id, "c", everything, dict.fromkeys(everything, 1_000)
        )


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

    def leave(self, start: int, end: int, phases: int, **more: Any) -> DrainCommit:
        """A run that planned [start, end), wrote its files and died after this many phases, uncommitted."""
        request = self.lake.request(start, end, **more)
        self.log(request, phases)
        return request

    def log(self, request: DrainCommit, phases: int) -> None:
        """Write the first phases of a batch."""
        batch, table = request.batch, self.lake.load()
        entries = (
            offset_commit(batch),
            buffer_snapshot(),
            FlushStart(batch.attempt, data_location(table), data_location(self.dead_letter_table())),
            replace(request.written, summary={"sluice.actor": "dead"}),
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
        schemas=no_schemas,
    )
    return Scene(
        lake, connections, PipelineConfig(name="p", topic=TOPIC, table=lake.name()), source, interrupted
    )


def no_schemas(_value: object) -> Any:
    """Recovery reads no value."""
    raise AssertionError("recovery asked for schemas")


def no_spark() -> Any:
    """Recovery needs no Spark."""
    raise AssertionError("recovery asked for a Spark session")


def adoptable(scene: Scene) -> None:
    """Leaves a batch with dead letters to adopt and the files of another run to sweep."""
    scene.leave(0, 10, 4, dead_letters=[4])
    scene.leave(0, 6, 3)


def landed(scene: Scene) -> None:
    """Leaves a landed batch that owes dead letters, and the files of another run to sweep."""
    scene.lake.commit(scene.leave(0, 10, 4, dead_letters=[4]))
    scene.leave(0, 6, 3)

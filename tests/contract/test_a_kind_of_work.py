"""A kind of work is one file: here is one, run on a real table by what runs them all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from spark_jobs.commit import batch_commit
from spark_jobs.commit.batch_commit import DrainCommit, commit_of
from spark_jobs.drain.batch_run import BatchRun, Tables
from spark_jobs.drain.drain_batch import plan_of
from spark_jobs.drain.write_splits import check
from spark_jobs.lake.tables import progress_of, summary_of
from spark_jobs.protocol.batch import Balance, Written
from spark_jobs.protocol.errors import BadRecord, SourceChanged
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from spark_jobs.protocol.source import SourceState
from spark_jobs.protocol.work import WORKS, Check, Effect, Work
from spark_jobs.protocol.works.drain import DRAIN
from tests.support.lake import TOPIC, Lake
from tests.support.recovery_scene import Scene, make_scene

_T = TypeVar("_T")
RANGES = OffsetRanges((OffsetRange(0, 0, 10),))


@dataclass(frozen=True, eq=False)
class Mend(Work):
    """Takes offsets from where the table stands, however many of them are dead letters."""

    effect: Effect = Effect.EACH
    checks: tuple[Check, ...] = (Check.OFFSETS,)

    def new(self, told: _T) -> _T | None:
        return told


@pytest.fixture
def mend() -> Iterator[Work]:
    """The work and how it is committed, known while a test lasts."""
    work = Mend("mend")

    class MendCommit(DrainCommit, work=work):
        fail_point = "mend"

    yield work
    del WORKS["mend"], batch_commit._BY_WORK[work]


@pytest.fixture
def scene(sqlite_catalog_properties: dict[str, str], tmp_path: Path) -> Scene:
    """A pipeline that stops at dead letters, over a new table."""
    scene = make_scene(Lake("sqlite", sqlite_catalog_properties, "ns"), str(tmp_path / "state"))
    stops = scene.pipeline.dead_letters.model_copy(update={"stop_above": 0.5})
    scene.pipeline = scene.pipeline.model_copy(update={"dead_letters": stops})
    return scene


def _planned(scene: Scene, work: Work) -> BatchRun:
    tables = Tables(scene.lake.load(), scene.dead_letter_table())
    return plan_of(
        scene.pipeline, scene.connections, tables, scene.source.source_state(TOPIC), RANGES, work=work
    )


def test_it_is_planned_and_checked_as_it_says(mend: Work, scene: Scene) -> None:
    """What stops a drain does not stop it; what it has checked does."""
    run, drain = _planned(scene, mend), _planned(scene, DRAIN)
    assert run.batch.batch_id.startswith("mend-")
    request = scene.lake.request(0, 10, dead_letters=range(10), files=False)
    all_dead = Written((), request.written.dead_letter_files, {0: Balance(dead_letters=10)})
    check(run, all_dead)
    with pytest.raises(BadRecord):
        check(drain, all_dead)
    scene.source.state = SourceState(TOPIC, "another", "c", {0: 0}, {0: 10})
    with pytest.raises(SourceChanged):
        check(run, all_dead)


def test_it_is_committed_by_its_own_class_and_adopted_from_the_log(mend: Work, scene: Scene) -> None:
    """A killed run's files come in by recovery, which reads from the log what they are; a late one's go."""
    (killed, late), commits = (_planned(scene, mend) for _ in range(2)), []
    for batch, phases in ((killed.batch, 4), (late.batch, 3)):
        request = scene.lake.request(0, 10, attempt=batch.attempt)
        commits.append(commit_of(request.table_uuid, batch, request.written, committed_at_ms=0))
        scene.log(commits[-1], phases)
    assert {commit.fail_point for commit in commits} == {"mend"}
    recovered = scene.recover()
    assert [each.batch.kind for each in recovered.adopted] == [mend]
    assert recovered.swept == (late.batch.attempt,)
    table = scene.lake.load()
    assert progress_of(table).next_offsets == {0: 10}
    snapshot = table.metadata.current_snapshot()
    assert snapshot is not None
    assert (summary_of(snapshot).work, summary_of(snapshot).drained) == (mend, {0: 0})

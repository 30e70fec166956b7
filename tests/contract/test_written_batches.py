"""What a written batch is asked before it may be committed, over real tables and files, without Kafka."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.config.suites import Expectation, OnFailure, Suite, When
from spark_jobs.drain.batch_run import BatchRun, Tables
from spark_jobs.drain.drain_batch import plan_of
from spark_jobs.drain.gate import GateVerdict, can_reject, judge_written, log_held
from spark_jobs.drain.write_splits import check
from spark_jobs.protocol.batch import Balance, Written
from spark_jobs.protocol.errors import BadRecord, BatchHeld, CorruptLog, OffsetsUnavailable
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from spark_jobs.protocol.work import Work
from spark_jobs.protocol.works.drain import DRAIN
from spark_jobs.protocol.works.redrive import REDRIVE
from spark_jobs.protocol.works.replay import REPLAY
from spark_jobs.quality.results import SuiteResult
from tests.support.lake import TOPIC, Lake, write_rows
from tests.support.recovery_scene import Scene, make_scene

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def scene(sqlite_catalog_properties: dict[str, str], tmp_path: Path) -> Scene:
    """A pipeline that stops where more than half are dead letters, over a new table."""
    scene = make_scene(Lake("sqlite", sqlite_catalog_properties, "ns"), str(tmp_path / "state"))
    stops = scene.pipeline.dead_letters.model_copy(update={"stop_above": 0.5})
    scene.pipeline = scene.pipeline.model_copy(update={"dead_letters": stops})
    return scene


def planned(scene: Scene, end: int, work: Work = DRAIN) -> BatchRun:
    """Return a batch from the table's first offset on."""
    tables = Tables(scene.lake.load(), scene.dead_letter_table())
    ranges = OffsetRanges((OffsetRange(0, 0, end),))
    source = scene.source.source_state(TOPIC)
    return plan_of(scene.pipeline, scene.connections, tables, source, ranges, work=work)


def test_a_replay_without_records_of_rows_that_are_there_is_refused(scene: Scene) -> None:
    """Kafka compacted them away; a person may let the rows go."""
    scene.lake.commit(scene.lake.request(0, 10))
    run = planned(scene, 10, REPLAY)
    files = write_rows(scene.lake.load(), 0, [o for o in range(10) if o not in {3, 7}], run.batch.attempt)
    written = Written(tuple(files), (), {0: Balance(rows=8, gaps=2)})
    with pytest.raises(OffsetsUnavailable, match=r"2 of 10 of 0:0-10 \(first 3 7\)") as refused:
        check(run, written)
    assert refused.value.code == "replay-would-lose"
    check(replace(run, may_lose=True), written)


@pytest.mark.parametrize(("letters", "stops"), [(10, False), (11, True)])
def test_a_pipeline_stops_above_its_share_of_dead_letters_and_not_at_it(
    scene: Scene, letters: int, stops: bool
) -> None:
    """Half of twenty are as many as it may have."""
    of = scene.lake.request(0, 20, dead_letters=range(letters)).written
    written = Written(of.data_files, of.dead_letter_files, of.balances)
    if not stops:
        check(planned(scene, 20), written)
        return
    with pytest.raises(BadRecord, match="11 of 20") as stopped:
        check(planned(scene, 20), written)
    assert stopped.value.code == "too-many-dead-letters"


def test_a_row_that_two_gates_refuse_has_the_reason_of_the_first(scene: Scene) -> None:
    """In the order that they are configured in; each refuses its own rows beside."""
    gates = tuple(
        Suite(
            name=name,
            when=When.GATE,
            on_failure=OnFailure.DEAD_LETTERS,
            expectations=(Expectation("expect_column_values_to_be_between", {"column": "id", key: limit}),),
        )
        for name, key, limit in (
            ("first", "max_value", 8),
            ("second", "min_value", 1),
            ("third", "max_value", 7),
        )
    )
    scene.pipeline = scene.pipeline.model_copy(update={"quality": gates})
    run = planned(scene, 10)
    files = write_rows(run.tables.data, 0, range(10), run.batch.attempt)
    verdict = judge_written(run, Written(tuple(files), (), {0: Balance(rows=10)}))
    assert verdict.rejected is not None
    reasons = {offset: why.partition(":")[0] for offset, why in verdict.rejected[0].items()}
    assert reasons == {0: "suite second", 8: "suite third", 9: "suite first"}
    assert can_reject(run, verdict)


def test_a_redrive_accounts_for_every_letter_that_was_kept(scene: Scene) -> None:
    """And asks no Kafka, which may hold none of their records any more."""
    letters: Any = SimpleNamespace(places=SimpleNamespace(counts={0: 3}))
    run, asked = replace(planned(scene, 10, REDRIVE), letters=letters), scene.source.asked
    check(run, Written(balances={0: Balance(tombstones=3)}))
    for balances in ({0: Balance(tombstones=2)}, {}):
        with pytest.raises(CorruptLog, match="counts do not match"):
            check(run, Written(balances=balances))
    assert scene.source.asked == asked


def test_a_replay_that_does_not_meet_a_gate_is_not_held(scene: Scene) -> None:
    """No drain goes on with it: it ends, and its log says nothing of files that a person decides on."""
    verdict, run = GateVerdict((SuiteResult("strict", 10, ()),)), planned(scene, 10, REPLAY)
    with pytest.raises(BatchHeld) as refused:
        log_held(run, verdict)
    assert refused.value.code == "replay-held"
    assert scene.unfinished() == ()
    log_held(planned(scene, 10), verdict)
    assert len(scene.unfinished()) == 1

"""A mirror whose database was restored from a backup: accepted as another identity, exact once made anew."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest

from prove.lab.generated_changes import RandomSource, SourceEvent
from prove.lab.pipeline_lab import progress
from spark_jobs.acts.accept_source import Restart, accept_restart, find_restart
from spark_jobs.acts.rollback import rollback
from spark_jobs.health.table_facts import table_facts
from spark_jobs.protocol.errors import CommitConflict, OffsetsUnavailable, SourceChanged
from spark_jobs.replay.rebuild import rebuild
from tests.integration.test_mirror import PARTITIONS, new_lab, rows_of
from tests.support.new_lab import NewLab

if TYPE_CHECKING:
    from prove.lab.pipeline_lab import Lab

__all__ = ["new_lab"]
pytestmark = pytest.mark.kafka


def _found(lab: Lab) -> Restart | None:
    with lab.connections() as connections:
        return find_restart(lab.pipeline, connections)


def test_an_accepted_restart_counts_anew_until_the_mirror_is_made_anew(new_lab: NewLab) -> None:
    """Rows that the source has no more stay till then; the audit knows the boundary, a rollback undoes it."""
    source, lab = RandomSource(9), new_lab(partitions=PARTITIONS, layout="mirror")

    def tell(events: Iterable[SourceEvent]) -> dict[int, int]:
        new_lab.produce(lab, [told.record(PARTITIONS) for told in events])
        with lab.connections() as connections:
            return connections.admin.source_state(lab.pipeline.topic).end

    tell(source.changes(8))
    lab.drain()
    backup = source.backup()
    tell(source.changes(12))
    lab.drain()
    before, snapshot_id = progress(lab), lab.table().metadata.current_snapshot_id
    assert snapshot_id is not None
    assert _found(lab) is None
    # What the first identity said last, and nobody has drained.
    last_words = tell(source.changes(2))
    assert _found(lab) is None
    source.restored(backup)
    tell(told for told in source.changes(12) if told.operation != "r")
    with pytest.raises(SourceChanged) as refused:
        lab.drain()
    assert (refused.value.code, progress(lab)) == ("source-restarted", before)
    found = _found(lab)
    assert found is not None
    assert found.firsts == {p: max(end, found.firsts[p]) for p, end in last_words.items()}
    with lab.connections() as connections:
        accept_restart(lab.pipeline, connections, found, reason="a backup")
        assert _found(lab) is None
        with pytest.raises(CommitConflict):
            accept_restart(lab.pipeline, connections, found, reason="a backup")
        rollback(lab.pipeline, connections, to_snapshot=snapshot_id, reason="test")
        again = _found(lab)
        assert again is not None
        assert (progress(lab).cdc, again.firsts) == (before.cdc, found.firsts)
        accept_restart(lab.pipeline, connections, again, reason="a backup")
    lab.drain()
    assert lab.audit().is_clean, lab.audit()
    assert table_facts(lab.table(), schema_since_ms=0).restarts == 1
    with lab.connections() as connections:
        with pytest.raises(OffsetsUnavailable) as early:
            rebuild(lab.pipeline, connections, reason="test")
        assert early.value.code == "rebuild-without-snapshot"
        tell(source.snapshot())
        rebuild(lab.pipeline, connections, reason="test")
    assert rows_of(lab) == source.rows
    assert table_facts(lab.table(), schema_since_ms=0).restarts == 0
    tell(source.changes(3))
    lab.drain()
    assert rows_of(lab) == source.rows
    assert lab.audit().is_clean
    assert lab.stray_files() == set()


def test_a_batch_that_was_written_before_is_read_again(new_lab: NewLab) -> None:
    """It was folded by the positions of before: it is swept, as after a rollback, and none is lost."""
    first, waits = SourceEvent("c", 1, 500, 490, 5_000, 1, "n"), SourceEvent("c", 2, 510, 505, 5_100, 2, "n")
    restarted = SourceEvent("u", 1, 400, 390, 6_000, 3, "n")
    lab = new_lab([first.record(1)], layout="mirror")
    lab.drain()
    new_lab.produce(lab, [waits.record(1)])
    lab.kill_at("drain.after-parquet-written")
    new_lab.produce(lab, [restarted.record(1)])
    found = _found(lab)
    assert found is not None
    assert found.firsts == {0: 2}
    with lab.connections() as connections:
        accept_restart(lab.pipeline, connections, found, reason="a backup")
    recovered = lab.drain().recovery
    assert (recovered.adopted, len(recovered.swept)) == ((), 1)
    assert rows_of(lab) == {1: (3, "n"), 2: (2, "n")}

"""`layout: mirror` end to end: the table is as its source is, each key once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from prove.lab.generated_changes import UNAVAILABLE, RandomSource, SourceEvent
from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import progress
from spark_jobs.acts.act import skip
from spark_jobs.acts.rollback import rollback
from spark_jobs.protocol.errors import OffsetsUnavailable, RetryableError, SluiceError, SourceChanged
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from spark_jobs.replay.rebuild import rebuild
from tests.support.new_lab import NewLab

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker
    from prove.lab.pipeline_lab import Lab

pytestmark = pytest.mark.kafka

PARTITIONS = 2


@pytest.fixture
def new_lab(kafka: KafkaBroker, tmp_path: Path) -> NewLab:
    """Pipelines whose tasks run in the process that drains."""
    return NewLab(kafka, "", tmp_path, is_here=True)


def rows_of(lab: Lab) -> dict[int, tuple[int, str]]:
    """Return the mirror's rows by key, each key once, by PyIceberg's own reader."""
    rows = lab.table().scan().to_arrow().to_pylist()
    found = {row["id"]: (row["score"], row["note"]) for row in rows}
    assert len(found) == len(rows)
    return found


def test_a_mirror_is_its_source_drain_after_drain(new_lab: NewLab) -> None:
    """Deletes, changed keys, truncates, events told twice, values left out; rolled back; made anew."""
    source = RandomSource(4)
    lab = new_lab(
        [told.record(PARTITIONS) for told in source.changes(12)], partitions=PARTITIONS, layout="mirror"
    )
    lab.drain()
    states = []
    for _ in range(10):
        states.append((lab.table().metadata.current_snapshot_id, rows_of(lab), progress(lab).cdc))
        assert states[-1][1] == source.rows
        new_lab.produce(lab, [told.record(PARTITIONS) for told in source.changes(4)])
        lab.drain()
    snapshot_id, rows, cdc = states[4]
    with lab.connections() as connections:
        rollback(lab.pipeline, connections, to_snapshot=snapshot_id, reason="test")
        assert (rows_of(lab), progress(lab).cdc) == (rows, cdc)
        lab.drain()
        assert rows_of(lab) == source.rows
        made = rebuild(lab.pipeline, connections, reason="test")
    assert rows_of(lab) == source.rows
    assert made.balance.offsets == sum(progress(lab).next_offsets.values())
    new_lab.produce(lab, [told.record(PARTITIONS) for told in source.changes(6)])
    lab.drain()
    assert rows_of(lab) == source.rows
    assert lab.stray_files() == set()


def _event(key: int, **said: int) -> Record:
    told = SourceEvent(
        "u", key, said.get("sequence", 500), said.get("commit", 490), said.get("time_ms", 5_000), note="n"
    )
    return told.record(1)


def test_what_would_make_another_table_stops_a_mirror(new_lab: NewLab) -> None:
    """A source whose log began anew, keys of other fields; the rows stay."""
    lab = new_lab([_event(1)], layout="mirror")
    lab.drain()
    restarted = _event(2, sequence=400, commit=390, time_ms=6_000)
    other_key = replace(_event(3), key=b'{"nr":3}')
    for record, code in ((restarted, "source-restarted"), (other_key, "mirror-key-changed")):
        end = progress(lab).next_offsets[0]
        new_lab.produce(lab, [record])
        with pytest.raises(SluiceError) as refused:
            lab.drain()
        assert refused.value.code == code
        assert rows_of(lab) == {1: (0, "n")}
        with lab.connections() as connections:
            skip(lab.pipeline, connections, OffsetRanges.of([OffsetRange(0, end, end + 1)]), reason="test")
    new_lab.produce(lab, [_event(4, sequence=501), _event(1)])
    (drained,) = lab.drain().batches
    assert {term: n for term, n in drained.counts.balance.items() if n} == {"rows": 1, "told_again": 1}
    assert rows_of(lab).keys() == {1, 4}


def test_a_truncate_without_a_place_stops_a_mirror_of_several_partitions(new_lab: NewLab) -> None:
    """Which rows of the others went before it is not told; in one partition its offset says it."""
    emptied = [_event(1), SourceEvent("t", None, 600, None, 6_000).record(1)]
    for partitions in (1, 2):
        lab = new_lab(emptied, partitions=partitions, layout="mirror")
        if partitions == 1:
            assert lab.drain().balance["truncates"] == 1
            continue
        with pytest.raises(SluiceError) as refused:
            lab.drain()
        assert refused.value.code == "truncate-without-position"


def test_a_changed_key_whose_old_row_is_not_read_yet_waits(new_lab: NewLab) -> None:
    """The batch ends before it; what its old key was told last comes with the next, and then the row."""
    first = SourceEvent("c", 1, 10, 5, 1_000, 7, "long")
    changed = SourceEvent("c", 2, 30, 25, 2_000, 7, UNAVAILABLE, old_key=1)
    placed = [replace(first.record(1), partition=0), replace(changed.record(1), partition=1)]
    lab = new_lab(placed, partitions=2, layout="mirror")
    with pytest.raises(RetryableError) as waits:
        lab.drain()
    assert waits.value.code == "change-not-told-yet"
    assert rows_of(lab) == {1: (7, "long")}
    later = SourceEvent("u", 1, 20, 15, 1_500, 8, "longer")
    gone = SourceEvent("d", 1, 30, 25, 2_000)
    new_lab.produce(lab, [replace(each.record(1), partition=0) for each in (later, gone)])
    lab.drain()
    assert rows_of(lab) == {2: (7, "longer")}
    # And the other way round: its old key's row is gone by then.
    new_lab.produce(lab, [replace(SourceEvent("d", 2, 40, 35, 3_000).record(1), partition=1)])
    lab.drain()
    assert rows_of(lab) == {}
    again = SourceEvent("c", 3, 40, 35, 3_000, 9, UNAVAILABLE, old_key=2)
    new_lab.produce(lab, [replace(again.record(1), partition=0)])
    lab.drain()
    assert rows_of(lab) == {3: (9, "longer")}


def test_more_partitions_stop_a_mirror_until_it_is_made_anew(new_lab: NewLab) -> None:
    """So does a beginning that Kafka does not hold any more, but for who wants to go on without."""
    lab = new_lab([_event(1), _event(2, sequence=501)], layout="mirror")
    lab.drain()
    topic = lab.pipeline.topic
    admin = AdminClient({"bootstrap.servers": new_lab.kafka})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    with pytest.raises(SourceChanged) as refused:
        lab.drain()
    assert refused.value.code == "partitions-changed"
    new_lab.kafka.delete_records(lab.pipeline.topic, {0: 1})
    with lab.connections() as connections:
        with pytest.raises(OffsetsUnavailable) as lost:
            rebuild(lab.pipeline, connections, reason="test")
        assert lost.value.code == "rebuild-would-lose"
        rebuild(lab.pipeline, connections, reason="test", force=True)
    assert rows_of(lab) == {2: (0, "n")}
    lab.drain()
